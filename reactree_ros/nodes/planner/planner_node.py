"""The planner node: carries out instructions by a growing behaviour tree that people can watch, steer and cancel."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.composites import Sequence
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.node import Node

from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.spec import memory
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.diagnostics import ERROR, OK, STALE, WARN, Diagnostics, Report
from reactree_ros.nodes.heartbeat import Heartbeat, Lives
from reactree_ros.nodes.lifecycle import ManagedNode, logged
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.nodes.people.ros_person import RosPerson
from reactree_ros.nodes.planner.adapters import RosLanguageModel, RosTeam, RosWorld
from reactree_ros.nodes.planner.reporter import Reporter, TaskTree, id_of
from reactree_ros.nodes.planner.task import DEACTIVATED, ERROR_CODES, SHUTDOWN, TaskQueue, asked_for
from reactree_ros.nodes.planner.task_runner import LAST_SCORE, TaskControl, TaskRunner
from reactree_ros.nodes.planner.triggers import Triggers
from reactree_ros.nodes.settings import PlannerNodeSettings, TaskSettings
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import Wake

#: Time between two looks after calls to bridge and inference node, feedback, and who watches, in seconds.
LOOK_PERIOD = 0.1


def task_tree(root: Behaviour, node: Node) -> TaskTree:
    """Make the tree of a planner node; without py_trees_ros, one that sends no snapshots, after a warning."""
    try:
        from reactree_ros.nodes.planner.shown_tree import ShownTree
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if not package.startswith("py_trees_ros"):  # or the package of its interfaces
            raise
        node.get_logger().warning(
            f"{package} is not installed: no snapshots are sent, so no viewer and no py-trees-tree-watcher can show "
            "the tree; tasks are carried out all the same (sudo apt install ros-$ROS_DISTRO-py-trees-ros)"
        )
        return TaskTree(root)
    return ShownTree(root)


class PlannerNode(ManagedNode):
    """Carries out instructions, one task at a time; docs/reference/ros.md lists its endpoints.

    Args:
        beside: Nodes of the same process; the planner calls them directly.
    """

    def __init__(self, name: str = "reactree_planner", *, beside: Iterable[Any] = (), **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        self._opened, self._released = ExitStack(), False  # closes the memory; whether it is to be closed
        self._memory: EpisodicMemory | None = None
        self._triggers: Triggers | None = None
        self._rest: Pending[None] = Pending.ready(None)
        self._beside = tuple(beside)
        self.made.callback(self._opened.close)
        declare(self, PlannerNodeSettings)
        declare(self, TaskSettings, read_only=False)
        self._settings = settings = settings_of(self, PlannerNodeSettings)
        settings_of(self, TaskSettings)  # an unknown planner is reported at the start
        self._queue = TaskQueue(settings.on_busy, settings.queue_size)
        self.heartbeat = Heartbeat(self)
        bridges = [f"{robot}/{settings.bridge}" for robot in settings.names] or [settings.bridge]
        self._bridges = {name: self.resolve_topic_name(name) for name in bridges}
        self._others = {**self._bridges, settings.inference: self.resolve_topic_name(settings.inference)}
        self._lives = Lives(self, silence=settings.silence, others=self._others)
        Diagnostics(self, "task", self._report)

    def prepare(self) -> None:
        if self._queue.running is not None:
            raise UserError("the last task has not ended yet; configure again later")
        self._opened.close()
        self._released, self._memory = False, None
        if self._settings.triggers and self._triggers is None:
            self._triggers = Triggers(self, self._settings.triggers, active=lambda: not self._queue.closed)
            self.made.callback(self._triggers.close)
        if self._settings.memory:
            named = memory(self._settings.memory)
            named.prepare()  # loading the embedder now, not in the first task
            self._memory = named.open()
            self._opened.callback(self._memory.close)

    def offer(self) -> None:
        settings = self._settings
        self._calls = Calls(self, patience=settings.server_timeout, lives=self._lives, beside=self._beside)
        self._wake = Wake(self, self._tick)
        self._world: RosWorld | RosTeam
        if settings.names:
            self._world = RosTeam(self, settings.bridge, settings.names, self._calls, self.heartbeat)
        else:
            self._world = RosWorld(self, settings.bridge, self._calls, self.heartbeat)
        self._world.follow(self._wake.trigger)
        self._control = TaskControl(self, self._queue, halted=self._world.halted, wake=self._wake.trigger)
        self._person = RosPerson(self, self.heartbeat, self._control.take_in)
        self._reporter = Reporter(self, task_tree(Sequence(self.get_name(), memory=True), self))
        self.made.callback(self._reporter.close)
        self._runner = TaskRunner(
            self,
            self._queue,
            world=self._world,
            model=RosLanguageModel(self, settings.inference, self._calls),
            person=self._person,
            memory_name=memory(settings.memory).absolute() if settings.memory else "",
            control=self._control,
            reporter=self._reporter,
            wake=self._wake.trigger,
        )
        steady.every(self, 1.0 / settings.tick_rate, self._tick)
        steady.every(self, LOOK_PERIOD, self._look_after)
        self.made.callback(self._world.close)  # after what follows: else its action client keeps the node in the graph
        self.made.callback(self._leave)
        self.made.callback(self._runner.close)

    @logged
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._calls.patience, self._runner.memory, self._queue.closed = self._settings.server_timeout, self._memory, ()
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self._queue.closed = DEACTIVATED
        return super().on_deactivate(state)

    def lacks(self) -> str:
        silent = [name for name, full in self._others.items() if not self._lives.living(full)]
        return f"silent: {', '.join(silent)}" if silent else ""

    def _tick(self) -> None:
        if self._queue.running is not None:
            self._runner.tick(self._queue.running)

    def _look_after(self) -> None:
        self._calls.watch()
        self._reporter.feed_back()
        self._reporter.look_for_watchers(show=self._queue.running is None)
        if self._released and self._queue.running is None:  # a task remembers at its end
            self._opened.close()

    def _report(self) -> Report:
        if not self.offers:
            return Report(STALE, "not active")
        task, last, held = self._queue.running, self._runner.last, self._control.held()
        values: dict[str, object] = {
            "goal": "none" if task is None else id_of(task.goal_handle),
            "task": "none" if task is None else asked_for(task.goal_handle.request),
            **({} if task is None else task.counts()),
            "goals that wait": len(self._queue),
            "last goal": "none yet" if last is None else f"{last.end or 'not begun'}; {last.message}".rstrip("; "),
            **{name: "lives" if self._lives.living(full) else "silent" for name, full in self._others.items()},
            "held because": held or "it is not",
            **({} if self._triggers is None else self._triggers.status()),
        }
        if self._queue.closed:
            return Report(STALE, "not active", values)
        if lack := self.lacks():
            return Report(WARN, lack, values)
        if held:
            return Report(WARN, f"held: {held}", values)
        if task is None and last is not None and last.error_code in ERROR_CODES.values():
            return Report(ERROR, f"the last task ended by an error: {last.message}", values)
        return Report(OK, "waits for a goal" if task is None else "carries a task out", values)

    def begin_stop(self) -> None:
        self._queue.closed = self._queue.closed or SHUTDOWN
        if not self.offers:
            return
        self._calls.patience = min(self._calls.patience, LAST_SCORE)
        try:
            if self._queue.running is not None:
                self._queue.running.stop(*self._queue.closed)
                self._tick()
        finally:
            self._world.stop()
            self._rest = self._world.at_rest()
        self._queue.dismiss()

    def stopped(self) -> bool:
        living = any(map(self._lives.living, self._bridges.values()))
        return self._queue.running is None and (self._rest.done() or not living)

    def release(self) -> None:
        self._released = True

    def _leave(self) -> None:
        if any(map(self._lives.has_died, self._bridges.values())):
            self._world.leave()


def main() -> None:
    run_node(PlannerNode)


if __name__ == "__main__":
    main()
