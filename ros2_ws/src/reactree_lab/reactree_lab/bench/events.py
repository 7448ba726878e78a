"""The course of a run, decision by decision, for the report's plots and failure causes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.turns import decision_from_dict
from reactree_ros.llm.port import prompt_text
from reactree_ros.record.moment import Moment, Request
from reactree_ros.record.schema import Event as Recorded
from reactree_ros.record.schema import observation_from_dict
from reactree_ros.world.port import Observation, Outcome

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
            self._decided(decision, event, moment)
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

    def _decided(self, decision: Decision, event: Recorded, moment: Moment) -> None:
        self._add(event, moment, decision.tallied, decision.gist, subgoals=decision.subgoals_named)
        self._acting = bool(decision.skill_asked)

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
