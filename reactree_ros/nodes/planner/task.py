"""A task: a goal of the planner while it is carried out, and what a goal asks for."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import RecordPart
from reactree_interfaces.srv import ReadRecord, ResetWorld

from reactree_ros.agent.budget import LIMITS
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.episode.going_on import WayBack
from reactree_ros.episode.run_spec import RunSpec, surroundings
from reactree_ros.errors import UserError
from reactree_ros.llm.spec import as_trained
from reactree_ros.nodes import steady
from reactree_ros.nodes.messages import named_values
from reactree_ros.nodes.planner.adapters import Introduction
from reactree_ros.nodes.settings import PLANNER, TaskSettings
from reactree_ros.planners.spec import Planner, planner
from reactree_ros.record.reader import Record, read_record
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import EpisodeEnd, verdict_of
from reactree_ros.record.writer import RecordFile, encoded
from reactree_ros.tree.options import RunOptions, TreeOptions
from reactree_ros.view.steering import Steering

#: A late or slow subscriber gets the last ten parts, and asks for those before.
QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: Longest part in one message, in bytes.
LONGEST = 1 << 18
#: Records that are kept: the run's, and the last one's, whose end a subscriber may not have heard yet.
KEPT = 2


class RecordTopic:
    """Publishes records in parts on ``~/record``, and reads from the last ones on ``~/read_record``.

    A part that is too long for a message is only announced, so that no picture waits in a queue ten times.
    """

    def __init__(self, node: Node) -> None:
        self._publisher = node.create_publisher(RecordPart, "~/record", QOS)
        node.create_service(ReadRecord, "~/read_record", self._read)
        self._records: dict[str, bytearray] = {}
        self._latest = RecordPart()  # the current record, and how far it is published

    def begin(self, goal_id: Any) -> Callable[[Event, bytes], None]:
        self.publish(unheard=True)

        def write(event: Event, line: bytes) -> None:
            if event["e"] == "run":
                self._latest = RecordPart(run=event["id"], goal_id=goal_id)
                self._records[event["id"]] = bytearray()
                for run in list(self._records)[:-KEPT]:
                    del self._records[run]
            self._records[self._latest.run] += line + b"\n"

        return write

    def publish(self, *, unheard: bool = False) -> None:
        """Publish the new events, if somebody hears them; ``unheard``: also if nobody does.

        What is published for nobody costs as much; who comes later gets the next part, and asks for those before.
        """
        if not unheard and not self._publisher.get_subscription_count():
            return
        record, begin = self._records.get(self._latest.run, b""), self._latest.begin
        if len(record) == begin:
            return
        told = len(record) - begin <= LONGEST
        data = record[begin:].decode("ascii") if told else ""
        place = begin if told else len(record)
        self._publisher.publish(RecordPart(run=self._latest.run, goal_id=self._latest.goal_id, begin=place, data=data))
        self._latest.begin = len(record)

    def _read(self, request: ReadRecord.Request, response: ReadRecord.Response) -> ReadRecord.Response:
        record = self._records.get(request.run)
        response.found = record is not None
        if record is not None:
            response.data = record[request.begin : request.begin + LONGEST].decode("ascii")
        return response


#: Error codes of ExecuteTask.action by how an episode ended; what is not here is a result, not an error.
ERROR_CODES = {
    EpisodeEnd.MODEL_GONE.value: ExecuteTask.Result.MODEL_GONE,
    EpisodeEnd.TOO_SLOW.value: ExecuteTask.Result.TOO_SLOW,
    EpisodeEnd.WORLD_GONE.value: ExecuteTask.Result.WORLD_UNAVAILABLE,
    EpisodeEnd.MEMORY_GONE.value: ExecuteTask.Result.MEMORY_GONE,
    EpisodeEnd.HELD.value: ExecuteTask.Result.HELD,
    EpisodeEnd.BUG.value: ExecuteTask.Result.BUG,
}
#: Error code and message of tasks that are stopped before their end.
CANCELED = (ExecuteTask.Result.CANCELED, "canceled")
STOPPED = (ExecuteTask.Result.CANCELED, "a person has stopped it")
DEACTIVATED = (ExecuteTask.Result.SHUTDOWN, "the planner was deactivated")
SHUTDOWN = (ExecuteTask.Result.SHUTDOWN, "the planner was shut down")
#: Fields of a goal's result that are the episode's.
_OF_AN_EPISODE = (
    *("end", "gsr", "ssr", "decisions", "steps", "agent_nodes", "questions", "max_depth", "seconds", "model_seconds"),
    *("branches", "branches_done", "undone", "untouched", "unmet"),
    *("prompt_tokens", "cached_tokens", "output_tokens", "reasoning_tokens", "cost", "cost_uncached"),
    *("replies", "attempts", "refused_attempts", "repeated_attempts", "refused_tokens"),
)
#: Options that a goal overrides, unless they are 0.
_OF_A_GOAL = (*LIMITS, "max_depth", "seed")


class Task:
    """A goal that is being carried out."""

    def __init__(self, goal_handle: Any) -> None:
        self.goal_handle = goal_handle
        self.episode: Episode | None = None  # None before it begins
        self.way: WayBack | None = None  # brings a resumed run to its place; None: the run is new
        self.steering: Steering | None = None  # lets a person pause it and say decisions
        self.ended: Pending[None] = Pending()  # settled when the episode has ended
        self.stopped: tuple[int, str] | tuple[()] = ()  # error code and message, if it is to stop before its end
        self.asked: Pending[Any] | None = None  # an open question to the bridge outside of the episode
        self.asked_until = 0.0  # when it is given up, in seconds (:func:`steady.now`)
        self.record: RecordFile | None = None
        self.unsaved = ""  # why there is no record although the settings ask for one
        self.feedbacks = 0  # how many were sent

    @property
    def returning(self) -> bool:
        return self.way is not None and not self.way.arrived

    def interrupt(self) -> None:
        if self.way is not None and self.returning:
            self.way.give_up()
        if self.episode is not None:
            self.episode.interrupt()

    def writing(self, topic: RecordTopic, folder: str) -> dict[str, Any]:
        shown = topic.begin(self.goal_handle.goal_id)
        try:
            self.record = RecordFile(Path(folder) / f"{time.time_ns()}.jsonl") if folder else None
        except UserError as error:
            self.unsaved = str(error)
        takers = [shown] if self.record is None else [self.record.write, shown]

        def write(event: Event) -> None:
            line = encoded(event)
            for take in takers:
                take(event, line)

        return {"write": write} | ({} if self.record is None else {"flush": self.record.flush})

    def stop(self, code: int, message: str) -> None:
        self.stopped = self.stopped or (code, message)
        self.asked_until = 0.0

    def give_up_late_question(self) -> None:
        if self.asked is not None and steady.now() > self.asked_until:
            self.asked.cancel()

    def saved_to(self) -> str:
        """Return where the record is; empty: there is none."""
        if problem := self.unsaved or (self.record.problem if self.record is not None else ""):
            raise UserError(problem)
        return "" if self.record is None else str(self.record.path)

    def counts(self) -> dict[str, object]:
        if self.episode is None:
            return {}
        context = self.episode.context
        return {
            "decisions": f"{context.budget.decisions} of {context.budget.max_decisions}",
            "steps": f"{context.budget.steps} of {context.budget.max_steps}",
            "agent nodes": len(context.nodes),
            "works on": context.nodes[-1].subgoal if context.nodes else "nothing yet",
        }

    def failed(self, code: int = ExecuteTask.Result.NONE, message: str = "") -> ExecuteTask.Result:
        ends = {error: end for end, error in ERROR_CODES.items()}
        end = EpisodeEnd.INTERRUPTED.value if self.stopped else ends.get(code, "")
        verdict = verdict_of({"end": end, "message": message})
        code, message = self.stopped or (code, verdict.because or message)
        return ExecuteTask.Result(
            verdict=verdict.judgement.word, end=end, gsr=-1.0, ssr=-1.0, error_code=code, message=message
        )


def result_of(result: EpisodeResult, **more: Any) -> ExecuteTask.Result:
    """Return what came of an episode as a goal's result; what is unknown is -1."""
    verdict = result.verdict
    told = {"success": verdict.whole, "achieved": verdict.achieved, "claimed": verdict.claimed}
    msg = ExecuteTask.Result(verdict=verdict.judgement.word, goal=named_values(result.goal), **told, **more)
    for name in _OF_AN_EPISODE:
        value = getattr(result, name)
        setattr(msg, name, type(getattr(msg, name))(-1 if value is None else value))
    return msg


def asked_for(goal: ExecuteTask.Goal) -> str:
    if goal.resume:
        return f"to go on with {goal.resume}"
    if goal.instruction.strip():
        return repr(goal.instruction.strip())
    return f"the instruction of task {goal.task_id}" if goal.task_id >= 0 else "the instruction of the bridge's task"


def record_of(goal: ExecuteTask.Goal) -> Record:
    also = ("instruction", "planner", "max_depth", "seed", "working_memory")
    given = [name for name in also if getattr(goal, name)] + (["task_id"] if goal.task_id != -1 else [])
    if given:
        raise UserError(f"resume: the run's own {given[0]} counts; leave {', '.join(given)} out")
    return read_record(goal.resume)


def limits_of(goal: ExecuteTask.Goal) -> dict[str, Any]:
    return {name: getattr(goal, name) for name in LIMITS if getattr(goal, name)}


def spec_of_goal(
    goal: ExecuteTask.Goal,
    settings: TaskSettings,
    *,
    task: ResetWorld.Response | None = None,
    model: Introduction | None = None,
    world: Mapping[str, Any] | None = None,
    memory: str = "",
) -> RunSpec:
    if goal.task_id < -1:
        raise UserError(f"task_id is {goal.task_id}; it must be one of the tasks of the bridge's world, or -1")
    if goal.working_memory > ExecuteTask.Goal.WORKING_MEMORY_OFF:
        raise UserError(f"working_memory is {goal.working_memory}; it must be one of the constants (0, 1, 2)")
    model = model or Introduction()
    chosen = planner(as_trained(goal.planner or settings.planner, model.trained_for) or PLANNER)
    values = {name: getattr(settings, name) for name in RunOptions.model_fields}
    values |= {name: getattr(goal, name) for name in _OF_A_GOAL if getattr(goal, name)}
    task_id = goal.task_id if task is None else task.task_id
    return RunSpec(
        instruction=goal.instruction.strip() or ("" if task is None else task.instruction.strip()),
        task_id=None if task_id < 0 else task_id,
        task_name=(task.task_name if task else "") or "instruction",
        planner=chosen.name,
        working_memory=remembers(goal, settings, chosen),
        options=TreeOptions(**values),
        memory=memory,
        person=True,  # it is asked about corrections, too
        **surroundings(world, model.settings, where="the bridge"),
    ).decided_by(model.trained_for)


def remembers(goal: ExecuteTask.Goal, settings: TaskSettings, chosen: Planner) -> bool:
    remember = chosen.working_memory or settings.working_memory
    if goal.working_memory != ExecuteTask.Goal.WORKING_MEMORY_DEFAULT:
        remember = goal.working_memory == ExecuteTask.Goal.WORKING_MEMORY_ON
    return remember and chosen.spec.remembers


#: Why a task ends that a newer goal replaces.
PREEMPTED = (ExecuteTask.Result.PREEMPTED, "a newer goal took over")


class TaskQueue:
    """Decides which goal runs, which goals wait, and which are rejected."""

    def __init__(self, on_busy: Literal["reject", "queue", "preempt"], size: int) -> None:
        self._preempts, self._size = on_busy == "preempt", {"reject": 0, "queue": size}.get(on_busy)
        self._waiting: deque[Any] = deque()
        self.running: Task | None = None
        self.closed: tuple[int, str] | tuple[()] = (0, "the planner is not active")  # why no goal is taken

    def __len__(self) -> int:
        return len(self._waiting)

    def rejects(self) -> str:
        """Say why a further goal is rejected; empty: it is accepted."""
        if self.closed:
            return self.closed[1]
        if self.running is None or self._size is None or len(self) < self._size:
            return ""
        return f"{len(self)} goals wait" if self._size else "a task runs"

    def turn(self) -> str:
        """Say when a further goal has its turn; empty: at once."""
        return "" if self.running is None else " and takes over" if self._preempts else f" behind {len(self) + 1}"

    def add(self, goal_handle: Any) -> None:
        self._waiting.append(goal_handle)
        if self.running is None:
            self.next()
        elif self._preempts:
            self.running.stop(*PREEMPTED)

    def next(self) -> None:
        self.running = None
        if self._waiting and not self.closed:
            self.running = Task(self._waiting.popleft())
            if self._waiting and self._preempts:
                self.running.stop(*PREEMPTED)
            self.running.goal_handle.execute()

    def withdraw(self, goal_handle: Any) -> None:
        if goal_handle in self._waiting:
            self._waiting.remove(goal_handle)
            goal_handle.execute()

    def dismiss(self) -> None:
        while self._waiting:
            self._waiting.popleft().execute()
