"""The queue of tasks: one runs at a time, and the rule for a busy planner says what becomes of the other goals."""

from __future__ import annotations

from collections import deque
from typing import Any, Literal

from reactree_interfaces.action import ExecuteTask

from reactree_ros.nodes.planner.task import Task

#: Why a task ends that a newer goal replaces.
PREEMPTED = (ExecuteTask.Result.PREEMPTED, "a newer goal took over")


class TaskQueue:
    """Decides which goal runs, which goals wait, and which are rejected."""

    def __init__(self, on_busy: Literal["reject", "queue", "preempt"], size: int) -> None:
        self._preempts, self._size = on_busy == "preempt", {"reject": 0, "queue": size}.get(on_busy)
        self._waiting: deque[Any] = deque()
        self.running: Task | None = None
        self.closed = False

    def __len__(self) -> int:
        return len(self._waiting)

    def rejects(self) -> str:
        """Say why a further goal is rejected; empty: it is accepted."""
        if self.closed:
            return "shutting down"
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
