"""The robot of `reactree mcp --ros`: a planner node carries out instructions, and its bridge single skills."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import rclpy
from rcl_interfaces.srv import GetParameters
from rclpy.action import ActionClient
from rclpy.parameter import parameter_value_to_python
from rclpy.signals import SignalHandlerOptions
from reactree_interfaces.action import ExecuteTask

from reactree_doors.mcp.robot import LIMITED, Questions, Robot, lowered
from reactree_ros.agent.picture import Picture
from reactree_ros.background.pending import Pending, asked, followed, settle_as
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls, SentGoal, Waiting
from reactree_ros.nodes.heartbeat import Heartbeat, Lives
from reactree_ros.nodes.people.answer import bridges_of, check_node_name
from reactree_ros.nodes.people.view import LOOK_PERIOD, RecordFollower
from reactree_ros.nodes.planner.adapters import RosWorld
from reactree_ros.nodes.planner.execute_task import verdict_from
from reactree_ros.nodes.spinning import Spinner
from reactree_ros.plugins.settings import Settings
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import Verdict
from reactree_ros.world.port import Household, Observation, WorldError

T = TypeVar("T")

#: Longest wait for planner and bridge at the start, and for their answers later, in seconds.
FOUND, PATIENCE = 30.0, 10.0
#: Longest wait for the last events of a run whose result is there, in seconds.
LAST_EVENTS = 5.0


class RobotNode(RecordFollower):
    """Follows a planner, and takes its and its bridge's questions while the robot works for a client.

    Beside what :class:`RecordFollower` uses:

    Uses:
        ``PLANNER/execute_task`` (ExecuteTask) and ``PLANNER/get_parameters``; of the planner's bridge what
        :class:`reactree_ros.nodes.planner.adapters.RosWorld` uses.

    Publishes and subscribes to:
        ``heartbeat`` (Heartbeat) in the planner's namespace: a watchdog there cancels what this node leaves under way.
    """

    def __init__(self, planner: str, folder: Path, questions: Questions, **kwargs: Any) -> None:
        namespace, _, name = check_node_name(planner).rpartition("/")
        super().__init__(name, folder, name="mcp", desk=questions, namespace=namespace, **kwargs)
        self.heartbeat = Heartbeat(self)
        self.calls = Calls(self, patience=PATIENCE, lives=Lives(self))
        self.tasks = ActionClient(self, ExecuteTask, f"{name}/execute_task")
        self.parameters = self.create_client(GetParameters, f"{name}/get_parameters")
        self.runs: dict[bytes, RosRun] = {}  # by their goals
        self.bridge: Pending[str] = Pending()
        self._life: int | None = None  # of the planner, in the current run
        steady.every(self, LOOK_PERIOD, self.calls.watch)

    @property
    def planner(self) -> str:
        return self._planner

    def others(self) -> Path | None:
        """Return the record of a run that the planner carries out for somebody else; None if there is none."""
        copy, life = self._copies.get(self._current.stem) if self._current else None, self.calls.life(self._planner)
        if copy is None or self._course.ended or bytes(copy.goal_id.uuid) in self.runs:
            return None
        return copy.path if life is not None and life == self._life else None

    def steer(self, record: Path | None, command: str) -> None:
        if record is None:
            raise UserError("the run has not begun")
        self._want(record, command, "")

    def do(self, call: Callable[[], object]) -> None:
        """Have a function called in the node's executor, in order; from any thread."""
        self._handover.put(call)

    @property
    def _is_looked_at(self) -> bool:
        return True  # a desk that nobody staffs rejects questions

    def _begin(self, run: str, goal_id: Any) -> Any:
        self._life = None
        return super()._begin(run, goal_id)

    def _take(self, copy: Any, line: str) -> None:
        super()._take(copy, line)
        if (run := self.runs.get(bytes(copy.goal_id.uuid))) is not None:
            run.hear(copy.path, line)

    def _look(self) -> None:
        super()._look()
        self._life = self._life or self.calls.life(self._planner)
        if not self.bridge.done() and (found := bridges_of(self, self._planner)):
            if len(found) == 1:
                self.bridge.succeed(*found)
            else:
                named = ", ".join(sorted(found))
                self.bridge.fail(UserError(f"{self._planner} has several robots ({named}); clients can run one only"))

    def destroy_node(self) -> None:
        self.tasks.destroy()
        super().destroy_node()


class RosRun:
    """A run of the planner; see :class:`reactree_doors.mcp.robot.Run`."""

    def __init__(self, node: RobotNode, instruction: str, limits: Settings, take: Callable[[Event], None]) -> None:
        self.ended: Pending[Verdict] = Pending()
        self.record: Path | None = None
        self._node, self._instruction, self._limits, self._take = node, instruction, dict(limits), take
        self._result: Pending[Any] = Pending()
        self._result.add_done_callback(self._conclude)
        self._sent: SentGoal | None = None
        self._stopped = self._whole = False

    def cancel(self) -> None:
        """Stop it, also before it was accepted."""
        self._node.do(self._cancel)

    def pause(self) -> None:
        self._node.steer(self.record, "pause")

    def go_on(self) -> None:
        self._node.steer(self.record, "go on")

    # ------------------------------------------------------------------ in the node's executor

    def begin(self, household: Household) -> None:
        node = self._node
        if node.others() is not None:
            self._result.fail(_at_work(node))
            return
        request = GetParameters.Request(names=list(LIMITED))
        limits = node.calls.call(node.parameters, request, gone=WorldError, of=node.planner)

        def send(answer: Any) -> None:
            if (error := answer.exception()) is not None:
                self._result.fail(error)
                return
            values = map(parameter_value_to_python, answer.result().values)
            self._send(lowered(self._limits, dict(zip(LIMITED, values, strict=True)), household))

        limits.add_done_callback(send)

    def _send(self, limits: dict[str, Any]) -> None:
        node, name = self._node, f"{self._node.planner}/execute_task"
        goal = ExecuteTask.Goal(instruction=self._instruction, **limits)
        busy = f"{node.planner} rejected the goal: it is busy or not active"
        self._sent = sent = SentGoal(node.tasks, name, goal, rejected=busy, error=UserError)
        sent.end.add_done_callback(lambda end: settle_as(end, self._result))

        def send() -> None:
            if self._stopped:
                self._result.fail(UserError("it was stopped before it began"))
                return
            id = node.heartbeat.goal(name, self._result.done)
            node.runs[bytes(id.uuid)] = self
            self.ended.add_done_callback(lambda _: node.runs.pop(bytes(id.uuid), None))
            sent.send(id)

        waits = (name, f"{name}/_action/send_goal", node.tasks.server_is_ready, send, lambda: None, self._result)
        node.calls.wait(Waiting(*waits, gone=WorldError, node=node.planner))

    def _cancel(self) -> None:
        self._stopped = True
        if self._sent is not None:
            self._sent.cancel()

    def hear(self, record: Path, line: str) -> None:
        self.record = record
        try:
            event = json.loads(line)
            self._whole = event["e"] == "end"
        except (ValueError, TypeError, KeyError):
            self._node.get_logger().warning(f"a line of a record is {line[:60]!r}; it is left out", once=True)
            return
        self._take(event)
        if self._whole and self._result.done():
            self._settle()

    def _conclude(self, _: object) -> None:
        if self._whole or self.record is None or self._result.exception() is not None:
            self._settle()
        else:
            self._node.calls.later(LAST_EVENTS, self._settle)

    def _settle(self) -> None:
        settle_as(self._result, self.ended, verdict_from)


class RosRobot(Robot):
    """A robot behind a planner node and its bridge; every call returns at once.

    While the planner works for somebody else, no client's instruction or skill is carried out.
    """

    def __init__(self, node: RobotNode, questions: Questions) -> None:
        self.questions, self._node = questions, node
        questions.staffed = False
        self._run: RosRun | None = None
        self._open: set[Pending[Any]] = set()
        self._failed = ""
        self._world: RosWorld
        self.ready = self._in_node(lambda: followed(node.bridge, self._meet))

    def _meet(self, bridge: str) -> Pending[Household]:
        self._world = RosWorld(self._node, bridge, self._node.calls, self._node.heartbeat)
        return self._world.learn()

    @property
    def household(self) -> Household:
        return self._world.household

    def begin(self, instruction: str, limits: Settings, take: Callable[[Event], None]) -> RosRun:
        self._run = run = RosRun(self._node, instruction, limits, take)
        self._watch(run.ended)
        self._staff(run.ended)
        self._node.do(lambda: run.begin(self.household))
        return run

    def execute(self, skill: str) -> Pending[Observation]:

        def execute() -> Pending[Observation]:
            if self._node.others() is not None:
                raise _at_work(self._node)
            return followed(self._world.learn(), lambda _: self._world.execute(skill))

        return self._staff(self._in_node(execute))

    def observe(self) -> Pending[Observation]:
        return self._in_node(lambda: followed(self._world.learn(), lambda _: self._world.observe()))

    def pictures(self) -> Pending[Any]:
        return Pending.ready(list[Picture]())

    def at_rest(self) -> Pending[None]:
        return self._in_node(self._world.at_rest)

    def halted(self) -> str:
        return self._failed or self._world.halted()

    @property
    def record(self) -> Path | None:
        return self._run.record if self._run else None

    def stop_others(self) -> bool:
        record = self._node.others()
        if record is not None:
            self._node.steer(record, "cancel")
        return record is not None

    def fail(self, error: BaseException) -> None:
        self._failed = f"the ROS node of this server has ended: {error}"
        for one in list(self._open):
            one.fail(WorldError(self._failed))

    def _staff(self, work: Pending[T]) -> Pending[T]:
        self.questions.staffed = True

        def leave(_: object) -> None:
            self.questions.staffed = False

        work.add_done_callback(leave)
        return work

    def _in_node(self, ask: Callable[[], Pending[T]]) -> Pending[T]:
        asks: list[Pending[T]] = []
        outer: Pending[T] = Pending(on_cancel=lambda: self._node.do(lambda: [one.cancel() for one in asks]))

        def begin() -> None:
            if not outer.done():
                asks.append(asked(ask))
                asks[0].add_done_callback(lambda done: settle_as(done, outer))

        self._watch(outer)
        self._node.do(begin)
        return outer

    def _watch(self, pending: Pending[Any]) -> None:
        self._open.add(pending)
        pending.add_done_callback(self._open.discard)
        if self._failed:
            pending.fail(WorldError(self._failed))


def _at_work(node: RobotNode) -> UserError:
    return UserError(f"{node.planner} is at work for somebody else; wait for its end, or call `stop`, which ends that")


@contextmanager
def robot_of(planner: str) -> Iterator[RosRobot]:
    """Yield the robot of a planner node, which is followed in a thread."""
    rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
    try:
        with TemporaryDirectory() as folder:
            questions, over = Questions(), threading.Event()
            node = RobotNode(planner, Path(folder), questions)
            with Spinner(node, []) as spinner:
                robot = RosRobot(node, questions)

                def spin() -> None:
                    try:
                        spinner.spin_until(over.is_set)
                    except BaseException as error:
                        robot.fail(error)

                thread = threading.Thread(target=spin, name="ROS", daemon=True)
                thread.start()
                try:
                    _wait_for(robot, planner)
                    yield robot
                finally:
                    over.set()
                    thread.join()
    finally:
        rclpy.try_shutdown()


def _wait_for(robot: RosRobot, planner: str) -> None:
    try:
        robot.ready.result(FOUND)
    except TimeoutError:
        raise UserError(
            f"no planner {planner} with a bridge is there within {FOUND:g} s: start them, e.g. by `ros2 launch "
            "reactree_ros household.launch.py`, or name the planner with --planner-node"
        ) from None
    except WorldError as error:
        raise UserError(str(error)) from error
