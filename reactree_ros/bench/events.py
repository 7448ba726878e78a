"""What happened in a run, decision by decision, as the report's plots and failure causes need it."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from reactree_ros.agent.decision import Act, Decision, Expand
from reactree_ros.agent.turns import Said
from reactree_ros.errors import UserError
from reactree_ros.llm.metered import MeteredModel
from reactree_ros.llm.port import Reply
from reactree_ros.tree.context import Listener, RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.world.port import Observation, Outcome


class EventKind(str, enum.Enum):
    """What was said."""

    THINK = "think"
    ACT = "act"
    RECALL = "recall"
    EXPAND = "expand"
    END = "end"
    REFUSED = "refused"
    REFUSED_ACT = "refused_act"
    """What was refused was an act."""


@dataclass(frozen=True)
class Event:
    """One decision and what came of it.

    Attributes:
        decision: Decisions counted up to this one, with it.
        subgoal: Goal of the agent node that decided.
        kind: What it said.
        said: The skill of an act or a recall, refused or not; the whole text of everything else.
        outcome: How the skill ended, a value of :class:`Outcome`; empty where there was none.
        room: Room in which something was seen; empty where nothing was.
        place: What the agent stood at when it saw something; empty where it stood in the middle of a room.
        seen: Names of what was seen, e.g. ``juice 1``.
        subgoals: Subgoals of an expansion.
        input_tokens: Tokens of the longest prompt that it took; None where it came without a request of its own.
        output_tokens: Tokens of the reply; None likewise.
    """

    decision: int
    subgoal: str
    kind: EventKind
    said: str
    outcome: str = ""
    room: str = ""
    place: str = ""
    seen: tuple[str, ...] = ()
    subgoals: tuple[str, ...] = ()
    input_tokens: int | None = None
    output_tokens: int | None = None

    @property
    def is_action(self) -> bool:
        """Whether a skill was asked of the world: carried out, refused by it, or refused before."""
        return self.kind in (EventKind.ACT, EventKind.REFUSED_ACT)

    @property
    def executable(self) -> bool:
        """Whether it was an action that the world carried out."""
        return self.kind is EventKind.ACT and self.outcome == Outcome.DONE.value

    @property
    def skill(self) -> str:
        """The skill of an action; empty for everything else."""
        return self.said if self.is_action else ""


class EventRecorder(Listener):
    """Keeps the events of one run.

    Args:
        model: Knows the sizes of replies.
        context: Knows the decisions' numbers.
    """

    def __init__(self, model: MeteredModel, context: RunContext) -> None:
        self.events: list[Event] = []
        self._model = model
        self._context = context
        self._last_act: int | None = None  # the event that waits for its observation
        self._last_reply: Reply | None = None

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        """Keep a decision."""
        if isinstance(decision, Expand):
            self._add(node, EventKind.EXPAND, str(decision), reply, subgoals=decision.subgoals)
        elif not isinstance(decision, Act):
            self._add(node, EventKind.THINK, str(decision), reply)
        elif decision.ends:
            self._add(node, EventKind.END, decision.skill, reply)
        else:
            self._last_act = len(self.events)
            self._add(node, EventKind.RECALL if decision.asks_memory else EventKind.ACT, decision.skill, reply)

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        """Keep what was not carried out."""
        replies = self._context.replies
        reply = replies[-1][2] if replies else None
        if isinstance(said.decision, Act):
            self._add(node, EventKind.REFUSED_ACT, said.decision.skill, reply)
        else:
            self._add(node, EventKind.REFUSED, said.text, reply)

    def observed(self, node: GoalNode, observation: Observation) -> None:
        """Add the outcome to the act that it belongs to."""
        if self._last_act is None:  # a skill of a plan that was decided on as a whole
            self._add(node, EventKind.ACT, "" if node.leaf is None else node.leaf.name, None)
            self._last_act = len(self.events) - 1
        index, self._last_act = self._last_act, None
        near = [seen for seen in observation.seen if not seen.held]
        self.events[index] = replace(
            self.events[index],
            outcome=observation.outcome.value,
            room=next((seen.room for seen in observation.seen if seen.room), ""),
            place=next((seen.place for seen in near if seen.place), ""),
            seen=tuple(f"{seen.word} {seen.instance}" for seen in observation.seen),
        )

    def _add(
        self, node: GoalNode, kind: EventKind, said: str, reply: Reply | None, *, subgoals: tuple[str, ...] = ()
    ) -> None:
        # Of several decisions in one reply the first one takes its tokens.
        size = None if reply is None or reply is self._last_reply else self._model.size(reply)
        self._last_reply = reply or self._last_reply
        self.events.append(
            Event(
                decision=self._context.budget.decisions,
                subgoal=node.subgoal,
                kind=kind,
                said=said,
                subgoals=subgoals,
                input_tokens=None if size is None else size.longest,
                output_tokens=None if size is None else size.output,
            )
        )


def write_events(events: Iterable[Event], path: Path) -> None:
    """Write events as JSON lines; what is empty is left out."""
    lines = (
        json.dumps({name: value for name, value in asdict(event).items() if value not in (None, "", ())})
        for event in events
    )
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read_events(path: Path) -> list[Event]:
    """Read events back.

    Raises:
        UserError: The file cannot be read, or a line of it is no event.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    events = []
    for number, line in enumerate(lines, 1):
        try:
            events.append(_event(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise UserError(f"{path}: line {number} is no event: {line[:60]!r}") from error
    return events


def _event(values: dict[str, Any]) -> Event:
    lists = {name: tuple(values.get(name, ())) for name in ("seen", "subgoals")}
    return Event(**{"said": "", "subgoal": ""} | values | lists | {"kind": EventKind(values["kind"])})
