"""Records a run as it happens, in one append-only file of JSON lines that survives any end of the run."""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import os
import platform
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from importlib import metadata
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.trees import BehaviourTree
from pydantic_core import PydanticSerializationError, to_json

from reactree_ros.agent.control_flow import flow_over
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.observation import Observation
from reactree_ros.agent.picture import ALL_PICTURES, LARGEST_PICTURE, PICTURES, Picture
from reactree_ros.agent.skill import Offered, as_data
from reactree_ros.agent.turns import About, Prompt, Said, Told, Turn, turn_to_dict
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import without_credentials
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.planners.spec import Planner
from reactree_ros.record.reader import sealed
from reactree_ros.record.schema import (
    SCHEMA,
    Event,
    error_to_dict,
    experience_to_dict,
    household_to_dict,
    may_say_to_dict,
    observation_to_dict,
    skills_difference,
    value_to_dict,
)
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import Failure
from reactree_ros.tree.flows import Parallel
from reactree_ros.tree.goal import Goal
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Call, Listener
from reactree_ros.tree.program_node import SkillLeaf
from reactree_ros.tree.tried import is_unreached

_log = logging.getLogger(__name__)
#: The kind of a behaviour that says nothing of what it does.
_OTHER = "other"


def encoded(event: Event) -> bytes:
    """Write an event as its line, without the line's end; in ASCII, so that half a surrogate pair survives, too."""
    with suppress(PydanticSerializationError):  # half a surrogate pair
        if (line := to_json(event)).isascii():
            return line
    return json.dumps(event, separators=(",", ":")).encode("ascii")


class RecordFile:
    """The file of a record; :meth:`flush` writes the events to it, so that a kill loses no earlier event.

    If writing fails (a full disk, a deleted folder), the file logs that once and writes no more. The run continues.

    ``own`` says whether the user has said all that the header says, so that the record goes on by itself here; see
    :mod:`reactree_ros.record.reader`. If the file exists already, or cannot be made, a UserError is raised.
    """

    def __init__(self, path: str | Path, *, own: bool = False) -> None:
        self.path, self._own = Path(path), own
        self.problem = ""  # why nothing more is written; empty while writing works
        self._lines: list[bytes] = []  # those that are not in the file yet
        self._latest = ""  # the kind of the latest event
        if self.path.exists():
            raise UserError(f"{path}: is there already; name a new file, so that no record is lost")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb", buffering=0)
        except OSError as error:
            raise UserError(f"{path}: cannot be made: {error.strerror}") from error

    def write(self, event: Event, line: bytes = b"") -> None:
        """Take an event, with its line where that is made already; the next :meth:`flush` writes it."""
        if self._own and event["e"] == "run":
            event, line = sealed(event), b""
        self._lines.append(line or encoded(event))
        self._latest = event["e"]

    def flush(self) -> None:
        lines, self._lines = self._lines, []
        if not lines or self.problem:
            return
        left = b"\n".join([*lines, b""])
        try:
            while (written := self._file.write(left)) < len(left):
                left = left[written:]
            if self._latest == "request" and os.fstat(self._file.fileno()).st_nlink == 0:
                raise FileNotFoundError(2, "the file is gone")
        except OSError as error:
            self.problem = f"the run is not recorded any more: {self.path}: {error.strerror}"
            _log.warning("%s", self.problem)
            self._file.close()

    def close(self) -> None:
        """Write the taken events and close the file, which is not kept if it is empty; a second call does nothing."""
        self.flush()
        if not self._file.closed and not self._file.tell():
            self.path.unlink(missing_ok=True)  # the run did not start: its next try may have the name
        self._file.close()


class Recorded(Protocol):
    instruction: str
    task_id: int | None
    task_name: str
    goal: Mapping[str, int]
    context: RunContext
    root: GoalNode
    tree: BehaviourTree


class Recorder(Listener):
    """Makes the events of one run's record from what happens; see ``docs/reference/record.md``.

    Args:
        write: Takes each event, at once.
        flush: Makes the written events safe. It is called after every tick, and before each call of the model or
            the world.
        world, llm, vision, memory: What they are, for whoever resumes the run, as ``docs/reference/record.md`` says;
            names and passwords in addresses are left out.
        parent: The record that this one goes on from: ``{"id": …, "path": …, "decision": …}``; None: it begins anew.
    """

    def __init__(
        self,
        write: Callable[[Event], None],
        *,
        flush: Callable[[], None] = lambda: None,
        world: Mapping[str, Any] | None = None,
        llm: Mapping[str, Any] | None = None,
        vision: Mapping[str, Any] | None = None,
        memory: str = "",
        parent: Mapping[str, Any] | None = None,
    ) -> None:
        self.id = uuid.uuid4().hex
        self._send, self._flush = write, flush
        named = {name: one for name, one in {"vision": vision, "memory": memory}.items() if one}
        self._about = without_credentials({"world": world or {}, "llm": llm or {}, **named})
        self._parent = None if parent is None else dict(parent)
        self._clock: Callable[[], float] = time.monotonic
        self._begin = 0.0
        self._sampling: Event = {}
        self._numbers: dict[Behaviour, int] = {}
        self._statuses: dict[Behaviour, Status] = {}
        self._touched: dict[Behaviour, None] = {}  # what may have changed its status in this tick
        self._unheard: list[Behaviour] = []  # what may change its status without a word
        self._texts: dict[tuple[Turn, ...], int] = {}
        self._turns: dict[Goal, int] = {}  # how many of its turns are written
        self._last_text: tuple[tuple[Turn, ...], int] = (), -1
        self._skills: dict[str, Sequence[Offered]] = {}  # what each robot could do when that was said last
        self._counted: list[int] = []
        self._pictures: set[str] = set()  # those whose bytes are recorded
        self._picture_bytes = 0
        self._leaves_out = False

    def begin(self, episode: Recorded, planner: object) -> None:
        context = episode.context
        self._budget, self._root, self._tree = context.budget, episode.root, episode.tree
        options = context.options.model_dump(mode="json")
        self._sampling = {name: options[name] for name in ("max_tokens", "temperature", "seed")} | {"top_p": 1.0}
        self._begin = self._clock()
        self._write(
            {
                "e": "run",
                "schema": SCHEMA,
                "id": self.id,
                "started": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                "versions": _versions(),
                "instruction": episode.instruction,
                "task_id": episode.task_id,
                "task_name": episode.task_name,
                "planner": {
                    "name": planner.name if isinstance(planner, Planner) else type(planner).__name__,
                    "options": planner.settings.model_dump(mode="json") if isinstance(planner, Planner) else {},
                },
                "working_memory": context.recalls,
                "household": household_to_dict(context.household),
                "recallable": list(context.world.recallable),
                "words": list(context.world.words),
                "options": options,
                **({} if context.person is None else {"person": True}),
                **({"goal": dict(episode.goal)} if episode.goal else {}),
                "limits": context.budget.limits,
                **({} if context.team.alone else {"robots": [robot.name for robot in context.team.robots]}),
                **self._about,
                "parent": self._parent,
            }
        )
        self._grow(episode.root, None)
        if not context.team.alone:
            self.manned(None, context.team.post.robot.name)
        self._flush()
        episode.tree.add_post_tick_handler(self._after_tick)

    def interrupted(self, *, in_tick: bool = False) -> None:
        """Write that somebody stops the run; ``in_tick``: in the middle of a tick, as Ctrl-C may."""
        self._write({"e": "interrupted", "in_tick": True} if in_tick else {"e": "interrupted"})
        self._flush()

    def end(self, result: Any, failures: Sequence[Failure]) -> None:
        self._tree.post_tick_handlers.remove(self._after_tick)
        self._write_statuses(self._root.iterate())
        self._write({"e": "end", "result": dataclasses.asdict(result), "failures": list(map(_failure, failures))})
        self._flush()

    # ------------------------------------------------------------------ the tree

    def grown(self, parent: Behaviour, subtree: Behaviour) -> None:
        self._grow(subtree, self._numbers[parent])
        if isinstance(parent, Goal) and parent.holds_own_tree:
            # somebody else's composites interrupt them
            self._unheard += (one for one in subtree.iterate() if one not in self._unheard)

    def manned(self, behaviour: Behaviour | None, robot: str) -> None:
        number = 0 if behaviour is None else self._numbers[behaviour]
        self._write({"e": "robot", "node": number, "robot": robot})

    def _grow(self, subtree: Behaviour, parent: int | None) -> None:
        nodes: list[Event] = []
        waiting: list[tuple[Behaviour, int | None]] = [(subtree, parent)]
        for behaviour, above in waiting:
            number = self._numbers[behaviour] = len(self._numbers)
            self._statuses[behaviour] = behaviour.status
            nodes.append(_node_to_dict(behaviour, number, above))
            if nodes[-1]["kind"] == _OTHER:
                self._unheard.append(behaviour)
            waiting += [(child, number) for child in behaviour.children]
        self._write({"e": "grow", "nodes": nodes})

    def _touch(self, node: Goal) -> None:
        # the status may have changed of a goal node, and of the composites up to the next goal node
        self._touched[node] = None
        above = node.parent
        while above is not None and not isinstance(above, Goal):
            self._touched[above] = None
            above = above.parent

    def _touch_leaf(self, node: Goal) -> None:
        if node.leaf is not None:
            self._touched[node.leaf] = None

    def _after_tick(self, tree: object) -> None:
        if self._touched or self._unheard:
            touched, self._touched = self._touched, {}
            self._write_statuses([*self._unheard, *touched])
        self._flush()

    def _write_statuses(self, behaviours: Iterable[Behaviour]) -> None:
        changed = []
        for behaviour in behaviours:
            known, status = self._statuses.get(behaviour), behaviour.status
            if known is None or status is known:
                continue
            self._statuses[behaviour] = status
            word = "interrupted" if status is Status.INVALID else status.value.lower()
            changed.append([self._numbers[behaviour], "" if is_unreached(behaviour) else word])
            # A skill's observation already tells its result.
            if behaviour.feedback_message and not isinstance(behaviour, SkillLeaf):
                changed[-1].append(behaviour.feedback_message)
        if changed:
            self._write({"e": "status", "of": changed})

    # ------------------------------------------------------------------ goal nodes

    def node_started(self, node: Goal) -> None:
        self._turns[node] = 0
        self._touch(node)
        self._write_of(node, "started", {"index": node.index, "decision": node.start})

    def turned(self, node: Goal, turn: Turn, *, anew: bool = False) -> None:
        if anew:
            self._turns[node] = 0
        self._catch_up(node, len(node.turns) - 1)
        self._turns[node] = len(node.turns)
        self._write_of(node, "turn", turn_to_dict(turn) | ({"anew": True} if anew else {}))

    def _catch_up(self, node: Goal, count: int) -> None:
        # a planner may have appended some turns itself
        if self._turns[node] < count:
            for turn in node.turns[self._turns[node] : count]:
                self._write_of(node, "turn", turn_to_dict(turn))
            self._turns[node] = count

    def decided(self, node: Goal, decision: Decision, reply: Reply) -> None:
        self._write_of(node, "decided", decision.as_dict() | self._counts())

    def refused(self, node: Goal, said: Said, reason: str) -> None:
        self._write_of(node, "refused", turn_to_dict(said) | {"reason": reason} | self._counts())

    def shortened(self, node: Goal, dropped: int, excess: int) -> None:
        self._write_of(node, "shortened", {"dropped": dropped, "excess": excess})

    def held(self, node: Goal, reason: str) -> None:
        self._touch_leaf(node)  # it was stopped
        self._write_of(node, "held", {"reason": reason, **_robot(node)})

    def node_ended(self, node: Goal) -> None:
        self._touch(node)
        self._catch_up(node, len(node.turns))
        ended: Event = {
            "end": None if node.end is None else node.end.value,
            "failure": None if node.failure is None else _failure(node.failure),
            "feedback": node.feedback_message,
        }
        if node.unreached:
            ended["unreached"] = True
        if node.lesson is not None:
            ended["lesson"] = list(map(turn_to_dict, node.lesson))
        self._write_of(node, "ended", ended)

    def routine_ended(self, node: Goal, routine: str, differed: str) -> None:
        self._write_of(node, "routine_ended", {"routine": routine, "differed": differed})

    def leaf_stopped(self, node: Goal) -> None:
        self._touched |= dict.fromkeys(node.iterate())

    # ------------------------------------------------------------------ what is asked for outside

    def asked(self, node: Goal, request: DecisionRequest) -> None:
        self._catch_up(node, len(node.turns))
        turns = request.turns
        start = turns.start if isinstance(turns, Prompt) else tuple(takewhile(_is_start, turns))
        event: Event = {"id": request.id}
        if start:
            event["start"] = self._text(start)
        if isinstance(turns, Prompt) and turns.turns is node.turns:
            event["turns"] = (0, len(turns) - len(start) - len(turns.last))
            event |= {"last": list(map(turn_to_dict, turns.last))} if turns.last else {}
        else:
            event["own"] = list(map(turn_to_dict, turns[len(start) :]))
        event["may_say"] = may_say_to_dict(request.may_say)
        if request.begun:
            event["begun"] = request.begun
        event |= {name: own for name, usual in self._sampling.items() if (own := getattr(request, name)) != usual}
        self._write_of(node, "request", event)
        self._flush()

    def _text(self, start: tuple[Turn, ...]) -> int:
        if start is self._last_text[0]:  # a node keeps its start: skip the look-up, which hashes all turns
            return self._last_text[1]
        number = self._texts.get(start)
        if number is None:
            number = self._texts[start] = len(self._texts)
            self._write({"e": "text", "id": number, "turns": list(map(turn_to_dict, start))})
        self._last_text = start, number
        return number

    def sent(self, node: Goal, skill: str) -> None:
        self._touch_leaf(node)
        self._write_of(node, "skill", {"skill": str(skill), **_robot(node)})
        self._flush()

    def came(self, node: Goal, call: Call, answer: Any) -> None:
        if call.of == "reply":
            self._write_of(node, "reply", {"id": call.id, **value_to_dict(answer)})
        elif call.of == "answer":
            self._write_of(node, "answer", {"id": call.id, "text": answer.text, "by": answer.by})
        elif call.of == "claim":  # the skill that follows tells of it
            return
        elif call.of == "skills":
            robot = node.post.robot.name
            event = {"e": "skills", **_robot(node), **skills_difference(self._skills.get(robot, ()), answer)}
            self._skills[robot] = answer
            self._write(event)
        elif call.of == "corrections":
            self._write_of(node, "corrections", {**_robot(node), "offers": as_data(answer)})
        elif call.of == "routine":
            self._write_of(node, "routine", {"fits": [fit.as_data() for fit in answer]})
        elif call.of == "examples":
            self._write_of(node, "retrieved", {"experiences": list(map(experience_to_dict, answer))})
        else:
            self._touch_leaf(node)  # of the skill that it is of, or that was stopped before
            correction = {"correction": call.correction} if call.correction else {}
            seen = self._observation_to_dict(answer)
            self._write_of(node, "observation", {"of": call.of, **_robot(node), **correction, **seen})

    def _observation_to_dict(self, observation: Observation) -> Event:
        event = observation_to_dict(observation)
        for picture, values in zip(observation.pictures, event.get("pictures", ()), strict=True):
            if picture.id not in self._pictures and (data := self._data_that_fits(picture)):
                self._pictures.add(picture.id)
                values["data"] = base64.b64encode(data).decode()
        return event

    def _data_that_fits(self, picture: Picture) -> bytes:
        data = PICTURES.data(picture) or b""
        size = len(data)
        if size <= LARGEST_PICTURE and self._picture_bytes + size <= ALL_PICTURES:
            self._picture_bytes += size
            return data
        if not self._leaves_out:
            self._leaves_out = True
            most = f"each may have {LARGEST_PICTURE}, those of a run together {ALL_PICTURES}"
            way_out = "let the world take smaller ones, or none"
            _log.warning("a picture of %d bytes is not recorded: %s; %s", size, most, way_out)
        return b""

    def call_failed(self, node: Goal, call: Call, error: Exception, *, late: bool = False) -> None:
        self._touch_leaf(node)
        event = {"of": call.of, **_robot(node), **error_to_dict(error)}
        event |= {"id": call.id} if call.id else {}
        self._write_of(node, "failed", event | {"late": True} if late else event)

    def heard(self, words: str) -> None:
        self._write({"e": "heard", "text": words})

    def time_is_up(self) -> None:
        self._write({"e": "time_is_up"})

    def counted(self, tokens: int) -> None:
        self._counted.append(tokens)

    # ------------------------------------------------------------------ writing

    def _counts(self) -> Event:
        return {"decisions": self._budget.decisions, "steps": self._budget.steps}

    def _write_of(self, node: Goal, kind: str, event: Event) -> None:
        self._write({"e": kind, "node": self._numbers[node], **event})

    def _write(self, event: Event) -> None:
        if self._counted:
            counted, self._counted = self._counted, []
            self._write({"e": "counted", "tokens": counted})
        event["t"] = int((self._clock() - self._begin) * 1000) / 1000
        self._send(event)


def _robot(node: Goal) -> Event:
    name, part = node.post.robot.name, node.post.part
    return {"robot": name} if name else {"part": part} if part else {}


def _failure(failure: Failure) -> Event:
    return {"kind": failure.kind.value, "message": failure.message}


def _is_start(turn: Turn) -> bool:
    return isinstance(turn, Told) and turn.about is About.SYSTEM


def _node_to_dict(behaviour: Behaviour, number: int, parent: int | None) -> Event:
    flow = flow_over(behaviour)
    if isinstance(behaviour, Goal):
        kind = "agent" if isinstance(behaviour, AgentNode) else "goal"
    else:
        kind = flow.name if flow is not None else "skill" if isinstance(behaviour, SkillLeaf) else _OTHER
    event: Event = {"node": number, "parent": parent, "kind": kind, "name": behaviour.name}
    if isinstance(behaviour, Goal):
        event |= {"subgoal": behaviour.subgoal, "depth": behaviour.depth}
    if isinstance(behaviour, Parallel):
        event["policy"] = behaviour.parallel_policy.value
    return event


@cache
def _versions() -> Event:
    found: Event = {"python": platform.python_version()}
    for name in ("reactree_ros", "py_trees"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # run from its source
            found[name] = ""
    return found
