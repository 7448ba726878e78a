"""Writes a run down as it happens: one append-only file of JSON lines, whatever becomes of the run."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import platform
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from functools import cache
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Selector
from py_trees.composites import Sequence as SequenceComposite
from py_trees.visitors import VisitorBase

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.turns import About, Prompt, Said, Told, Turn, decision_to_dict, turn_to_dict
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.planners.spec import Planner
from reactree_ros.record.schema import (
    SCHEMA,
    Event,
    error_to_dict,
    experience_to_dict,
    household_to_dict,
    may_say_to_dict,
    observation_to_dict,
    reply_to_dict,
    sampling_of,
    skills_difference,
    turns_to_list,
)
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import Call, Listener
from reactree_ros.tree.control_flow import Parallel
from reactree_ros.tree.failure import Failure
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.skill_leaf import SkillLeaf

if TYPE_CHECKING:
    from reactree_ros.episode import Episode, EpisodeResult

_log = logging.getLogger(__name__)
_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode
_STATUSES = {
    Status.RUNNING: "running",
    Status.SUCCESS: "success",
    Status.FAILURE: "failure",
    Status.INVALID: "interrupted",
}


def encoded(event: Event) -> str:
    """Write an event as its line, without the line's end; in ASCII, so that half a character survives, too."""
    return _encode(event)


class RecordFile:
    """The file of a record; each event is in it when :meth:`write` returns, so that a kill loses nothing before.

    Where it cannot be written any more (a full disk, a folder that is gone), that is logged once, and no more is
    written: the run goes on.

    Args:
        path: The file; its folder is made where it is not there.

    Raises:
        UserError: It is there already, or cannot be made.

    Attributes:
        path: The file.
        problem: Why nothing more is written; empty as long as it is.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.problem = ""
        if self.path.exists():
            raise UserError(f"{path}: is there already; name a new file, so that no record is lost")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise UserError(f"{path}: cannot be made: {error.strerror}") from error

    def write(self, event: Event) -> None:
        """Write an event, where that can still be done."""
        if self.problem:
            return
        line = f"{_encode(event)}\n".encode("ascii")
        try:
            while (written := self._file.write(line)) < len(line):
                line = line[written:]
            if event["e"] == "request" and os.fstat(self._file.fileno()).st_nlink == 0:
                raise FileNotFoundError(2, "the file is gone")
        except OSError as error:
            self.problem = f"the run is not recorded any more: {self.path}: {error.strerror}"
            _log.warning("%s", self.problem)
            self.close()

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()


class Recorder(Listener):
    """Makes the events of one run's record from what happens; see ``docs/record.md``.

    Args:
        write: Takes each event, at once.
        world: What the world is, for whoever resumes the run: ``{"name": …, "settings": …}``; no secrets.
        llm: What the language model is, as :func:`reactree_ros.llm.settings.model_to_dict` writes it.
        parent: The record that this one goes on from: ``{"id": …, "path": …, "decision": …}``; None: it begins anew.
    """

    def __init__(
        self,
        write: Callable[[Event], None],
        *,
        world: Mapping[str, Any] | None = None,
        llm: Mapping[str, Any] | None = None,
        parent: Mapping[str, Any] | None = None,
    ) -> None:
        self._send = write
        self._about = {"world": dict(world or {}), "llm": dict(llm or {}), "parent": parent and dict(parent)}
        self._clock: Callable[[], float] = time.monotonic
        self._begin = 0.0
        self._options: Mapping[str, Any] = {}
        self._numbers: dict[Behaviour, int] = {}
        self._statuses: dict[Behaviour, Status] = {}
        self._leaves: dict[Behaviour, SkillLeaf] = {}  # the latest of each goal node
        self._changed: list[list[Any]] = []
        self._texts: dict[tuple[Turn, ...], int] = {}
        self._turns: dict[GoalNode, int] = {}  # how many of its turns are written
        self._last_text: tuple[tuple[Turn, ...], int] = (), -1
        self._skills: Sequence[str] = ()
        self._counted: list[int] = []
        self._episode: Episode | None = None
        self._visitor: VisitorBase

    def begin(self, episode: Episode, planner: object) -> None:
        """Write what the run is, and the tree that it begins with."""
        self._episode, context = episode, episode.context
        self._options = context.options.model_dump(mode="json")
        self._begin = self._clock()
        budget, household = context.budget, context.household
        self._write(
            {
                "e": "run",
                "schema": SCHEMA,
                "id": uuid.uuid4().hex,
                "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "versions": _versions(),
                "instruction": episode.instruction,
                "task_id": episode.task_id,
                "task_name": episode.task_name,
                "planner": _planner_to_dict(planner),
                "working_memory": context.working_memory is not None,
                "household": household_to_dict(household),
                "recallable": list(context.world.recallable),
                "options": self._options,
                "limits": {"decisions": budget.max_decisions, "steps": budget.max_steps},
                **self._about,
            }
        )
        self._grow(episode.root, None)
        self._visitor = _StatusVisitor(self)
        episode.tree.add_visitor(self._visitor)

    def interrupted(self, *, in_tick: bool = False) -> None:
        """Write that somebody stops the run; ``in_tick``: in the middle of a tick, as Ctrl-C may."""
        self._write({"e": "interrupted", "in_tick": True} if in_tick else {"e": "interrupted"})

    def end(self, result: EpisodeResult, failures: Sequence[Failure]) -> None:
        """Write what came of the run; the record's last event."""
        assert self._episode is not None  # it has begun
        self._episode.tree.visitors.remove(self._visitor)
        for behaviour in self._episode.root.iterate():
            self.look(behaviour)
        self.tell_statuses()
        told = [{"kind": failure.kind.value, "message": failure.message} for failure in failures]
        self._write({"e": "end", "result": dataclasses.asdict(result), "failures": told})

    def differs(self, node: GoalNode, text: str) -> None:
        """Write that what was carried out again came to something else than what is recorded."""
        self._write({"e": "differs", "node": self._numbers[node], "text": text})

    # ------------------------------------------------------------------ the tree

    def grown(self, parent: Behaviour, subtree: Behaviour) -> None:
        """See :meth:`Listener.grown`."""
        self._grow(subtree, self._numbers[parent])

    def _grow(self, subtree: Behaviour, parent: int | None) -> None:
        nodes: list[Event] = []
        waiting: list[tuple[Behaviour, int | None]] = [(subtree, parent)]
        while waiting:
            behaviour, above = waiting.pop(0)
            number = self._numbers[behaviour] = len(self._numbers)
            self._statuses[behaviour] = behaviour.status
            if isinstance(behaviour, SkillLeaf) and behaviour.parent is not None:
                self._leaves[behaviour.parent] = behaviour
            nodes.append(_node_to_dict(behaviour, number, above))
            waiting += [(child, number) for child in behaviour.children]
        self._write({"e": "grow", "nodes": nodes})

    def look(self, behaviour: Behaviour) -> None:
        """Look whether a behaviour's status has changed; what is not of this run has none."""
        known = self._statuses.get(behaviour)
        if known is None:
            return
        if (leaf := self._leaves.get(behaviour)) is not None and leaf.status is not self._statuses[leaf]:
            self.look(leaf)  # it was stopped, and is not ticked any more
        status = behaviour.status
        if status is not known:
            self._statuses[behaviour] = status
            change = [self._numbers[behaviour], _STATUSES[status]]
            # What a skill came to is told by its observation.
            if behaviour.feedback_message and not isinstance(behaviour, SkillLeaf):
                change.append(behaviour.feedback_message)
            self._changed.append(change)

    def tell_statuses(self) -> None:
        """Write the statuses that have changed."""
        if self._changed:
            changed, self._changed = self._changed, []
            self._write({"e": "status", "of": changed})

    # ------------------------------------------------------------------ goal nodes

    def node_started(self, node: GoalNode) -> None:
        """See :meth:`Listener.node_started`."""
        self._turns[node] = 0
        self._write({"e": "started", "node": self._numbers[node], "index": node.index, "decision": node.start})

    def turned(self, node: GoalNode, turn: Turn, *, anew: bool = False) -> None:
        """See :meth:`Listener.turned`."""
        if anew:
            self._turns[node] = 0
        self._catch_up(node, len(node.turns) - 1)
        self._turns[node] = len(node.turns)
        event = {"e": "turn", "node": self._numbers[node], **turn_to_dict(turn)}
        self._write(event | {"anew": True} if anew else event)

    def _catch_up(self, node: GoalNode, count: int) -> None:
        """Write those of a node's first turns that nobody told of: a planner may have appended them itself."""
        number = self._numbers[node]
        for turn in node.turns[self._turns[node] : count]:
            self._write({"e": "turn", "node": number, **turn_to_dict(turn)})
        self._turns[node] = max(self._turns[node], count)

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        """See :meth:`Listener.decided`."""
        self._write({"e": "decided", "node": self._numbers[node], **decision_to_dict(decision), **self._counts(node)})

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        """See :meth:`Listener.refused`."""
        event = {"e": "refused", "node": self._numbers[node], **turn_to_dict(said), "reason": reason}
        self._write(event | self._counts(node))

    def shortened(self, node: GoalNode, dropped: int, excess: int) -> None:
        """See :meth:`Listener.shortened`."""
        self._write({"e": "shortened", "node": self._numbers[node], "dropped": dropped, "excess": excess})

    def held(self, node: GoalNode, reason: str) -> None:
        """See :meth:`Listener.held`."""
        self._write({"e": "held", "node": self._numbers[node], "reason": reason})

    def node_ended(self, node: GoalNode) -> None:
        """See :meth:`Listener.node_ended`."""
        failure = node.failure
        self._catch_up(node, len(node.turns))
        self._write(
            {
                "e": "ended",
                "node": self._numbers[node],
                "end": None if node.end is None else node.end.value,
                "failure": None if failure is None else {"kind": failure.kind.value, "message": failure.message},
                "feedback": node.feedback_message,
                **({} if node.lesson is None else {"lesson": turns_to_list(node.lesson)}),
            }
        )

    # ------------------------------------------------------------------ what is asked for outside

    def asked(self, node: GoalNode, request: DecisionRequest) -> None:
        """See :meth:`Listener.asked`."""
        self._catch_up(node, len(node.turns))
        turns, may_say = request.turns, may_say_to_dict(request.may_say)
        start = turns.start if isinstance(turns, Prompt) else tuple(takewhile(_is_start, turns))
        event: Event = {"e": "request", "node": self._numbers[node], "id": request.id}
        if start:
            event["start"] = self._text(start)
        count = len(turns) - len(start)
        if isinstance(turns, Prompt) and turns.turns is node.turns:
            event["turns"] = [0, count]
        else:
            event["own"] = turns_to_list(turns[len(start) :])
        event["may_say"] = may_say
        if request.begun:
            event["begun"] = request.begun
        self._write(event | sampling_of(request, self._options))

    def _text(self, start: tuple[Turn, ...]) -> int:
        """Return the number of a prompt's start, which is written where it is new."""
        if start is self._last_text[0]:  # as long as a node has the same, nothing is looked up
            return self._last_text[1]
        number = self._texts.get(start)
        if number is None:
            number = self._texts[start] = len(self._texts)
            self._write({"e": "text", "id": number, "turns": turns_to_list(start)})
        self._last_text = start, number
        return number

    def sent(self, node: GoalNode, skill: str) -> None:
        """See :meth:`Listener.sent`."""
        self._write({"e": "skill", "node": self._numbers[node], "skill": skill})

    def came(self, node: GoalNode, call: Call, answer: Any) -> None:
        """See :meth:`Listener.came`."""
        number = self._numbers[node]
        if call.of == "reply":
            self._write({"e": "reply", "node": number, "id": call.id, **reply_to_dict(answer)})
        elif call.of == "skills":
            event = {"e": "skills", **skills_difference(self._skills, answer)}
            self._skills = answer
            self._write(event)
        elif call.of == "examples":
            found = [experience_to_dict(experience) for experience in answer]
            self._write({"e": "retrieved", "node": number, "experiences": found})
        else:
            self._write({"e": "observation", "node": number, "of": call.of, **observation_to_dict(answer)})

    def call_failed(self, node: GoalNode, call: Call, error: Exception, *, late: bool = False) -> None:
        """See :meth:`Listener.call_failed`."""
        event = {"e": "failed", "node": self._numbers[node], "of": call.of, **error_to_dict(error)}
        if call.id:
            event["id"] = call.id
        self._write(event | {"late": True} if late else event)

    def counted(self, tokens: int) -> None:
        """See :meth:`Listener.counted`."""
        self._counted.append(tokens)

    # ------------------------------------------------------------------ writing

    def _counts(self, node: GoalNode) -> Event:
        assert self._episode is not None  # it has begun
        budget = self._episode.context.budget
        return {"decisions": budget.decisions, "steps": budget.steps}

    def _write(self, event: Event) -> None:
        if self._counted:
            counted, self._counted = self._counted, []
            self._write({"e": "counted", "tokens": counted})
        event["t"] = round(self._clock() - self._begin, 3)
        self._send(event)


class _StatusVisitor(VisitorBase):
    """Has a recorder look at what is ticked."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(full=False)
        self.run, self.finalise = recorder.look, recorder.tell_statuses  # type: ignore[method-assign]


def _is_start(turn: Turn) -> bool:
    return isinstance(turn, Told) and turn.about is About.SYSTEM


def _node_to_dict(behaviour: Behaviour, number: int, parent: int | None) -> Event:
    event: Event = {"node": number, "parent": parent, "kind": _kind(behaviour), "name": behaviour.name}
    if isinstance(behaviour, GoalNode):
        event |= {"subgoal": behaviour.subgoal, "depth": behaviour.depth}
    if isinstance(behaviour, Parallel):
        event["policy"] = behaviour.parallel_policy.value
    return event


def _kind(behaviour: Behaviour) -> str:
    if isinstance(behaviour, GoalNode):
        return "agent" if isinstance(behaviour, AgentNode) else "goal"
    kinds = ((SkillLeaf, "skill"), (SequenceComposite, "sequence"), (Selector, "fallback"), (Parallel, "parallel"))
    return next((kind for one, kind in kinds if isinstance(behaviour, one)), "other")


def _planner_to_dict(planner: object) -> Event:
    if isinstance(planner, Planner):
        return {"name": planner.name, "options": planner.settings.model_dump(mode="json")}
    return {"name": type(planner).__name__, "options": {}}


@cache
def _versions() -> Event:
    found: Event = {"python": platform.python_version()}
    for name in ("reactree_ros", "py_trees"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from its source
            found[name] = ""
    return found
