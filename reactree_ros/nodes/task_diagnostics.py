"""What the planner says of its tasks on ``/diagnostics``."""

from __future__ import annotations

from collections.abc import Callable

from rclpy.node import Node

from reactree_ros.nodes.diagnostics import ERROR, OK, WARN, Diagnostics, Report
from reactree_ros.nodes.reporter import id_of
from reactree_ros.nodes.task import ERROR_CODES, asked_for
from reactree_ros.nodes.task_control import TaskControl
from reactree_ros.nodes.task_queue import TaskQueue
from reactree_ros.nodes.task_server import TaskServer


class TaskDiagnostics:
    """Reports the task that runs, the last one, why tasks hold, and which of the other nodes are silent.

    Args:
        node: The planner.
        queue: The tasks.
        server: Knows how the last one ended.
        control: Knows why they hold.
        living: Whether each of the nodes lives that the planner uses, by name.
    """

    def __init__(
        self,
        node: Node,
        queue: TaskQueue,
        server: TaskServer,
        control: TaskControl,
        living: Callable[[], dict[str, bool]],
    ) -> None:
        self._queue, self._server, self._control, self._living = queue, server, control, living
        Diagnostics(node, "task", self._report)

    def _report(self) -> Report:
        task, last, held, living = self._queue.running, self._server.last, self._control.held(), self._living()
        values: dict[str, object] = {
            "goal": "none" if task is None else id_of(task.goal_handle),
            "task": "none" if task is None else asked_for(task.goal_handle.request),
            **({} if task is None else task.counts()),
            "goals that wait": len(self._queue),
            "last goal": "none yet" if last is None else f"{last.end or 'not begun'}; {last.message}".rstrip("; "),
            **{name: "lives" if lives else "silent" for name, lives in living.items()},
            "held because": held or "it is not",
        }
        if silent := [name for name, lives in living.items() if not lives]:
            return Report(WARN, f"silent: {', '.join(silent)}", values)
        if held:
            return Report(WARN, f"held: {held}", values)
        if task is None and last is not None and last.error_code in ERROR_CODES.values():
            return Report(ERROR, f"the last task ended by an error: {last.message}", values)
        return Report(OK, "waits for a goal" if task is None else "carries a task out", values)
