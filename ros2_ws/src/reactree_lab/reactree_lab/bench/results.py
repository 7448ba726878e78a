"""One line of ``results.jsonl`` or ``broken.jsonl``: the result of one run."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reactree_lab.bench.jobs import Job, Key
from reactree_ros.agent.turns import decision_from_dict
from reactree_ros.episode import EpisodeResult
from reactree_ros.files.read_back import checked, read_json
from reactree_ros.llm.port import prompt_text
from reactree_ros.record.moment import Moment, Request
from reactree_ros.record.schema import Event as Recorded
from reactree_ros.record.schema import observation_from_dict
from reactree_ros.record.verdict import EpisodeEnd
from reactree_ros.world.port import Observation, Outcome


@dataclass(frozen=True)
class Condition:
    """One goal condition at the end of a run, in the words of the observations."""

    relation: str  # ``on``, ``inside`` or ``turnOn``
    item: str  # the thing to move, e.g. ``water glass``; empty for ``turnOn``
    target: str  # the receptacle, or the thing to turn on
    count: int  # number wanted
    fulfilled: int  # number reached, at the instance of the target that has most

    @property
    def thing(self) -> str:
        return self.item or self.target

    def __str__(self) -> str:
        if self.relation == "turnOn":
            return f"turn on the {self.target}"
        return f"{self.count} {self.item} {self.relation} the {self.target}"


@dataclass(frozen=True)
class Goal:
    conditions: tuple[Condition, ...]  # in the order of the task
    rooms: tuple[str, ...]  # of the house, e.g. ``kitchen 1``
    start_room: str  # the agent's at the start

    @property
    def size(self) -> int:
        return sum(one.count for one in self.conditions)

    @property
    def unmet(self) -> tuple[Condition, ...]:
        """The conditions that do not hold, each judged separately."""
        return tuple(one for one in self.conditions if one.fulfilled < one.count)


def goal_as_json(goal: Goal) -> str:
    return json.dumps(asdict(goal), indent=1) + "\n"


def read_goal(path: Path) -> Goal:
    return read_json(path, "goal of a run", lambda values: checked(Goal, values))


@dataclass(frozen=True, kw_only=True)
class RunLine(EpisodeResult):
    task_id: int  # the task; every run of a bench has one
    suite: str
    task_name: str
    planner: str  # name of the planner, with its options
    seed: int
    actions: int = 0  # requested skills, including refused ones but not recalls
    executable_actions: int = 0  # number of them that the world carried out
    needless: int = 0  # questions to a simulated person whose answers told nothing beyond the instruction
    requests: int = 0  # replies of the language model, and failed ones that used tokens
    #: Tokens of the longest prompt of a single request; None if the model was not asked.
    max_input_tokens: int | None = None
    mean_input_tokens: float | None = None  # mean prompt tokens per reply
    mean_output_tokens: float | None = None  # mean tokens of a reply
    memory: str = ""  # the episodic memory that its examples came from; empty: none
    approximate_tokens: bool = False  # whether one of these three was not counted by the model's own tokenizer
    worker: str = ""
    busy_seconds: float = 0.0  # the worker's time from the job to its result

    @property
    def key(self) -> Key:
        return Key(self.suite, self.task_id, self.planner, self.seed)

    @property
    def all_input_tokens(self) -> float | None:
        """Tokens of all prompts together, counted or estimated; None if the model was not asked."""
        return None if self.mean_input_tokens is None else self.mean_input_tokens * self.requests

    @property
    def all_output_tokens(self) -> float | None:
        """Tokens of all replies together, counted or estimated; None if the model was not asked."""
        return None if self.mean_output_tokens is None else self.mean_output_tokens * self.requests

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False)


def line_of(
    job: Job,
    result: EpisodeResult,
    events: Iterable[Event],
    sizes: Sequence[Size],
    *,
    needless: int = 0,
    memory: str = "",
) -> RunLine:
    """Summarize a run; ``needless`` and ``memory``: see :class:`RunLine`."""
    actions = [event for event in events if event.is_action]
    into, out = [size.input for size in sizes], [size.output for size in sizes]
    values: dict[str, Any] = {**dataclasses.asdict(result), "task_id": job.key.task_id}
    return RunLine(
        suite=job.key.suite,
        task_name=job.task.task_name,
        planner=job.key.planner,
        seed=job.key.seed,
        actions=len(actions),
        executable_actions=sum(action.executable for action in actions),
        needless=needless,
        memory=memory,
        requests=len(sizes),
        max_input_tokens=max((size.longest for size in sizes), default=None),
        mean_input_tokens=round(sum(into) / len(into), 2) if into else None,
        mean_output_tokens=round(sum(out) / len(out), 2) if out else None,
        approximate_tokens=any(size.approximate for size in sizes),
        **values,
    )


def broken_line(job: Job, instruction: str, message: str, end: EpisodeEnd) -> RunLine:
    """Return the line of a run that ended with an exception outside of its own reports."""
    result = EpisodeResult(
        task_id=job.key.task_id,
        instruction=instruction,
        status="failure",
        gsr=0.0,
        ssr=0.0,
        decisions=0,
        steps=0,
        max_depth=0,
        agent_nodes=0,
        seconds=0.0,
        prompt_tokens=None,
        cached_tokens=None,
        output_tokens=None,
        reasoning_tokens=None,
        model_seconds=0.0,
        end=end.value,
        message=message,
    )
    return line_of(job, result, (), [])


def grouped_by_end(lines: Iterable[RunLine]) -> str:
    return ", ".join(f"{count} {end}" for end, count in Counter(line.end for line in lines).most_common())


#: Kinds of events: a skill that was asked of the world, a refusal, and a refused act.
ACT, REFUSED, REFUSED_ACT = "act", "refused", "refused_act"


@dataclass(frozen=True)
class Event:
    decision: int  # number of decisions so far, including this one
    subgoal: str  # goal of the deciding agent node
    kind: str  # what its kind of decision is counted as, :data:`REFUSED` or :data:`REFUSED_ACT`
    said: str  # the skill of an act or a recall, refused or not; otherwise the whole text
    outcome: str = ""  # outcome of the skill, a value of :class:`Outcome`; empty if there was none
    room: str = ""  # room of the observation; empty if nothing was seen
    place: str = ""  # the agent's place during the observation; empty in the middle of a room
    #: Names of seen things, e.g. ``juice 1``.
    seen: tuple[str, ...] = ()
    subgoals: tuple[str, ...] = ()  # subgoals of an expansion
    input_tokens: int | None = None  # tokens of the longest prompt for it; None if it needed no request of its own
    output_tokens: int | None = None  # tokens of the reply; None likewise

    @property
    def is_action(self) -> bool:
        """Whether it asked the world for a skill: carried out, refused by the world, or refused before."""
        return self.kind in (ACT, REFUSED_ACT)

    @property
    def executable(self) -> bool:
        return self.kind == ACT and self.outcome == Outcome.DONE.value

    @property
    def skill(self) -> str:
        return self.said if self.is_action else ""


@dataclass(frozen=True)
class Size:
    input: int  # prompt tokens of all requests for the reply
    longest: int  # tokens of the longest of these prompts
    output: int  # tokens of the reply
    approximate: bool  # whether one of them was not counted by the model's tokenizer


@dataclass(frozen=True)
class RunEvents:
    events: tuple[Event, ...]  # its decisions and their results, in order
    sizes: tuple[Size, ...]  # the size of each reply, and of what failed, in order


def told_by(record: Iterable[Recorded]) -> RunEvents:
    teller, moment = _Teller(), Moment()
    for event in record:
        moment.apply(event)
        teller.hear(event, moment)
    return RunEvents(tuple(teller.events), tuple(teller.sizes))


class _Teller:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.sizes: list[Size] = []
        self._size: Size | None = None  # of the reply whose first decision is still to come
        self._acting = False  # whether the last event waits for its observation

    def hear(self, event: Recorded, moment: Moment) -> None:
        kind = event["e"]
        if kind == "reply":
            self._size = size_of(moment.requests[event["id"]])
            self.sizes.append(self._size)
        elif kind == "failed" and event["of"] == "reply":
            request = moment.requests[event["id"]]
            if request.took is not None and request.took.prompt_tokens != 0:  # it used something
                self.sizes.append(size_of(request))
        elif kind == "decided" and (decision := decision_from_dict(event)) is not None:
            self._add(event, moment, decision.tallied, decision.gist, subgoals=decision.subgoals_named)
            self._acting = bool(decision.skill_asked)
        elif kind == "refused":
            decision = decision_from_dict(event)
            if decision is not None and decision.counts.steps:
                self._add(event, moment, REFUSED_ACT, decision.gist)
            else:
                self._add(event, moment, REFUSED, event["said"])
        elif kind == "observation" and self._acting and event["of"] != "survey":
            self._acting = False
            # A look around instead of a result means that a hold interrupted the skill.
            halted = event["of"] == "observe"
            self._came(observation_from_dict(event), Outcome.HALTED.value if halted else event["outcome"])

    def _came(self, observation: Observation, outcome: str) -> None:
        near = [seen for seen in observation.seen if not seen.held]
        self.events[-1] = replace(
            self.events[-1],
            outcome=outcome,
            room=next((seen.room for seen in observation.seen if seen.room), ""),
            place=next((seen.place for seen in near if seen.place), ""),
            seen=tuple(f"{seen.word} {seen.instance}" for seen in observation.seen),
        )

    def _add(self, event: Recorded, moment: Moment, kind: str, said: str, *, subgoals: tuple[str, ...] = ()) -> None:
        size, self._size, self._acting = self._size, None, False  # a reply's tokens go to its first decision
        self.events.append(
            Event(
                decision=event["decisions"],
                subgoal=moment.nodes[event["node"]].subgoal,
                kind=kind,
                said=said,
                subgoals=subgoals,
                input_tokens=None if size is None else size.longest,
                output_tokens=None if size is None else size.output,
            )
        )


def size_of(request: Request) -> Size:
    """Return the size of a request that was answered, or used something in vain; estimate what was not counted."""
    reply = request.reply or request.took
    assert reply is not None
    into, out = reply.tokens(lambda: prompt_text(request.prompt, request.event.get("begun", "")))
    approximate = None in (reply.prompt_tokens, reply.output_tokens)
    return Size(into, reply.longest_prompt or into // reply.requests, out, approximate)
