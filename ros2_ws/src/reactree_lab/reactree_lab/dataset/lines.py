"""The lines of a dataset: one per decision, from the events of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reactree_lab.planners.hiagent.planner import retrievals
from reactree_ros.agent.decision import DONE, FAILURE, RECALL, kinds
from reactree_ros.agent.prompt import start_turn
from reactree_ros.agent.skill import apart
from reactree_ros.agent.subgoal_grammar import kind_by_subgoals
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Prompt, Told, Turn, kind_in, kind_said, render, turn_from_dict
from reactree_ros.llm.port import prompt_text
from reactree_ros.record.moment import Moment, Request
from reactree_ros.record.schema import Event, experience_from_dict

#: Requested kinds that determine the kind of the answer.
_AS_ASKED = ("choice", "text")
#: Planner options for prompts with nothing but a node's own text and retrieved examples.
BARE = ("system_text=false", "fixed_example=false")


def bare(planner: str) -> str:
    """Return a planner's name with :data:`BARE`, unless it sets these options itself."""
    return ":".join([planner, *(option for option in BARE if f":{option.partition('=')[0]}=" not in planner)])


@dataclass(frozen=True, kw_only=True)
class Run:
    house: str  # its house; no house is in both parts of a dataset
    task: str  # the run, unique within its house
    planner: str  # its planner, with options
    examples: int = 0  # number of retrieved examples that stay in the prompts


@dataclass(frozen=True, kw_only=True)
class Line:
    """One decision; ``docs/reference/dataset.md`` describes the attributes."""

    run: Run
    instruction: str  # the run's instruction
    turns: Sequence[Turn]
    begun: str  # given beginning of the completion
    completion: str  # the decision's text
    node: int  # the goal node, numbered by start
    decision: int  # number of the decision within the node, from 0; equal numbers are alternatives
    kind: str  # ``think``, ``act``, ``expand``, …; ``choice`` or ``text`` if the request asked for one
    may_say: Mapping[str, Any]  # the decoding constraint; empty for none
    learn: bool  # whether to learn it; otherwise it is context for later decisions

    def as_dict(self) -> dict[str, Any]:
        return {
            "prompt": prompt_text(self.turns, self.begun),
            "completion": self.completion,
            "house": self.run.house,
            "task": self.run.task,
            "instruction": self.instruction,
            "planner": self.run.planner,
            "node": self.node,
            "decision": self.decision,
            "kind": self.kind,
            "may_say": dict(self.may_say),
            "learn": self.learn,
        }


@dataclass
class _Asked:
    request: Request
    may_say: Mapping[str, Any]  # its constraint
    taken: int = 0  # number of decisions read from its reply so far


@dataclass
class _Reading:
    run: Run
    labels: Mapping[str, str]
    astray: Collection[str]
    moment: Moment = field(default_factory=Moment)
    asked: dict[int, _Asked] = field(default_factory=dict)  # by node
    waiting: dict[int, Event] = field(default_factory=dict)  # decisions whose words are the node's next turn
    counts: dict[int, int] = field(default_factory=dict)
    begun: Counter[int] = field(default_factory=Counter)  # subgoals of HiAgent, by node

    def take(self, event: Event) -> Iterator[Line]:
        """Read the next event; yield the lines that it completes."""
        node = event.get("node", -1)
        if event["e"] == "turn" and "said" in event and node in self.waiting:
            yield from self._lines(node, self.waiting.pop(node), event["said"])
        self.moment.apply(event)
        if event["e"] == "decided":
            self.begun[node] += "begin_subgoal" in event
        if event["e"] == "reply":
            request = self.moment.requests[event["id"]]
            self.asked[node] = _Asked(request, self._may_say(request.event["may_say"], node))
        elif event["e"] == "refused":
            self.asked.pop(node, None)
            self.waiting.pop(node, None)
        elif event["e"] == "decided" and node in self.asked:
            asked = self.asked[node]
            if "own" not in asked.request.event and "begun" not in asked.request.event:
                self.waiting[node] = event
            elif not asked.taken and (reply := asked.request.reply) is not None and not reply.cut:
                said = render(reply.said) if reply.said else reply.text.strip("\n")
                yield from self._lines(node, event, said)

    def _lines(self, node: int, event: Event, said: str) -> Iterator[Line]:
        asked = self.asked[node]
        request = asked.request
        label = self.labels.get(request.event["id"]) if not asked.taken else None
        learn = label == said if self.labels else request.event["id"] not in self.astray
        asked_for = request.event["may_say"]["kind"]
        if label and not learn:
            yield self._line(node, asked, label, kind=kind_of(label, asked_for), learn=True)
        kind = asked_for if asked_for in _AS_ASKED else _kind(event)
        yield self._line(node, asked, said, kind=kind, learn=learn)
        asked.taken += 1
        self.counts[node] = self.counts.get(node, 0) + 1

    def _line(self, node: int, asked: _Asked, said: str, *, kind: str, learn: bool) -> Line:
        goal_node, event = self.moment.nodes[node], asked.request.event
        if "own" in event:
            own: Sequence[Turn] = [turn_from_dict(turn) for turn in event["own"]]
        else:
            own = goal_node.turns[event["turns"][0] :]  # includes earlier decisions of the reply
        found = [Example((experience_from_dict(one).turns,)) for one in goal_node.examples[: self.run.examples]]
        start = self.moment.texts.get(event.get("start", -1), ())
        if start and isinstance(start[0], Told) and start[0].about is About.SYSTEM:
            start = (start_turn("", found), *start[1:])
        return Line(
            run=self.run,
            instruction=self.moment.run["instruction"],
            turns=tuple(Prompt(start, own)),
            begun=event.get("begun", ""),
            completion=said,
            node=goal_node.index or 0,
            decision=self.counts.get(node, 0),
            kind=kind,
            may_say=asked.may_say,
            learn=learn and is_learnt(kind),
        )

    def _may_say(self, said: Event, node: int) -> Mapping[str, Any]:
        """Return a request's constraint; nothing if skills were free, or the record does not tell them."""
        if said["kind"] == "choice":
            return {"options": list(said["options"])}
        if said["kind"] not in ("decision", "subgoal") or said.get("free"):
            return {}
        recall = self.moment.run["recallable"] if self.moment.run["working_memory"] else ()
        world, offers = apart(self.moment.skills.get(self.moment.robot_of(node), ()))
        skills = [DONE, FAILURE, *(RECALL + word for word in recall), *world]
        if said["kind"] == "subgoal" and len(skills) != said["skills"]:
            skills += retrievals(self.begun[node])
        if offers or len(skills) != said["skills"]:
            return {}
        more = {name: said[name] for name in ("questions", "more", "no_thoughts") if said.get(name)}
        return {"skills": skills, "control_flows": said.get("control_flows", []), **more}


def lines_of(
    events: Iterable[Event],
    run: Run,
    *,
    labels: Mapping[str, str] | None = None,
    astray: Collection[str] = (),
) -> Iterator[Line]:
    """Yield a line for each accepted decision, in order.

    If a decision is wrong, the right one comes before it, as a line of its own.

    Args:
        labels: The right decisions, by request id; empty if unknown. None: the run's own decisions are right.
        astray: Ids of requests whose decisions left the path: they are not learnt.
    """
    reading = _Reading(run, labels or {}, astray)
    for event in events:
        yield from reading.take(event)


def in_order(lines: Iterable[Line]) -> list[Line]:
    return sorted(lines, key=lambda line: line.node)


def kind_of(said: str, asked_for: str) -> str:
    if asked_for in _AS_ASKED:
        return asked_for
    if asked_for == "subgoal":
        return kind_by_subgoals(said).name
    kind = kind_said(said)
    return "other" if kind is None else kind.name


def is_learnt(kind: str) -> bool:
    """Return whether training learns decisions of a kind; what is not a kind of decision is learnt."""
    return kind not in kinds() or kinds()[kind].learnt


def _kind(event: Event) -> str:
    kind = kind_in(event)
    return "other" if kind is None else kind.name
