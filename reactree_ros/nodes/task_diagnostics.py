"""What the planner says of its tasks on ``/diagnostics``."""

from __future__ import annotations

from collections.abc import Mapping

from reactree_interfaces.action import ExecuteTask

from reactree_ros.nodes.diagnostics import ERROR, OK, WARN, Report
from reactree_ros.nodes.reporter import id_of
from reactree_ros.nodes.task import ERROR_CODES, asked_for
from reactree_ros.nodes.task_queue import TaskQueue


def report_of(
    queue: TaskQueue,
    last: ExecuteTask.Result | None,
    held: str,
    living: Mapping[str, bool],
    triggers: Mapping[str, str],
) -> Report:
    """Return the state of a planner.

    Args:
        queue: The tasks.
        last: Result of the task that ended last.
        held: Why tasks hold; empty: they go on.
        living: Whether each of the nodes lives that the planner uses, by name.
        triggers: How each trigger is, in words.
    """
    task = queue.running
    values: dict[str, object] = {
        "goal": "none" if task is None else id_of(task.goal_handle),
        "task": "none" if task is None else asked_for(task.goal_handle.request),
        **({} if task is None else task.counts()),
        "goals that wait": len(queue),
        "last goal": "none yet" if last is None else f"{last.end or 'not begun'}; {last.message}".rstrip("; "),
        **{name: "lives" if lives else "silent" for name, lives in living.items()},
        "held because": held or "it is not",
        **triggers,
    }
    if silent := [name for name, lives in living.items() if not lives]:
        return Report(WARN, f"silent: {', '.join(silent)}", values)
    if held:
        return Report(WARN, f"held: {held}", values)
    if task is None and last is not None and last.error_code in ERROR_CODES.values():
        return Report(ERROR, f"the last task ended by an error: {last.message}", values)
    return Report(OK, "waits for a goal" if task is None else "carries a task out", values)
