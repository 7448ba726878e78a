"""The server of ``~/execute_task``: takes goals in, and ends each with its result."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.action import ExecuteTask

from reactree_ros.errors import UserError
from reactree_ros.nodes.planner.reporter import id_of
from reactree_ros.nodes.planner.task import CANCELED, SHUTDOWN, STOPPED, Task, TaskQueue, asked_for
from reactree_ros.nodes.qos import FEEDBACK
from reactree_ros.record.verdict import Judgement
from reactree_ros.world.port import WorldError


class TaskServer:
    """Accepts, rejects and cancels goals, and reports how each ended."""

    def __init__(
        self,
        node: Node,
        queue: TaskQueue,
        carry_out: Callable[[Task], Awaitable[ExecuteTask.Result]],
        *,
        wake: Callable[[], None],
        ended: Callable[[Task, str], None],
    ) -> None:
        self._log, self._queue, self._carry_out = node.get_logger(), queue, carry_out
        self._wake, self._tell = wake, ended
        self.last: ExecuteTask.Result | None = None
        self._action = ActionServer(
            node,
            ExecuteTask,
            "~/execute_task",
            execute_callback=self._execute,
            goal_callback=self._consider,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancel,
            callback_group=ReentrantCallbackGroup(),
            result_timeout=60,
            feedback_pub_qos_profile=FEEDBACK,
        )

    def close(self) -> None:
        self._action.destroy()

    def _consider(self, goal: ExecuteTask.Goal) -> GoalResponse:
        if why := self._queue.rejects():
            self._log.warning(f"goal rejected: {why}; {asked_for(goal)}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accepted(self, goal_handle: Any) -> None:
        self._log.info(f"goal {id_of(goal_handle)} accepted{self._queue.turn()}: {asked_for(goal_handle.request)}")
        self._queue.add(goal_handle)
        self._wake()

    def _cancel(self, goal_handle: Any) -> CancelResponse:
        if (task := self._with_turn(goal_handle)) is not None:
            task.stop(*CANCELED)
            self._wake()
        else:
            self._queue.withdraw(goal_handle)
        return CancelResponse.ACCEPT

    def _with_turn(self, goal_handle: Any) -> Task | None:
        task = self._queue.running
        return task if task is not None and task.goal_handle is goal_handle else None

    async def _execute(self, goal_handle: Any) -> ExecuteTask.Result:
        task = self._with_turn(goal_handle)
        if task is None:
            return self._without_turn(goal_handle)
        try:
            result = await self._result_of(task)
            result.feedbacks = task.feedbacks
        finally:
            self._queue.running = None
        if goal_handle.is_cancel_requested:
            goal_handle.canceled()
        elif result.success and not result.error_code:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        self._end(task, result)
        self._queue.next()
        return result

    async def _result_of(self, task: Task) -> ExecuteTask.Result:
        try:
            return await self._carry_out(task)
        except UserError as error:
            return task.failed(ExecuteTask.Result.INVALID_GOAL, str(error) or type(error).__name__)
        except WorldError as error:
            return task.failed(ExecuteTask.Result.WORLD_UNAVAILABLE, str(error) or type(error).__name__)
        except Exception as error:
            self._log.error(traceback.format_exc())
            return task.failed(ExecuteTask.Result.BUG, f"{type(error).__name__}: {error}")

    def _without_turn(self, goal_handle: Any) -> ExecuteTask.Result:
        task, canceled = Task(goal_handle), goal_handle.is_cancel_requested
        goal_handle.canceled() if canceled else goal_handle.abort()
        task.stop(*(CANCELED if canceled else SHUTDOWN if self._queue.closed else STOPPED))
        result = task.failed()
        self._end(task, result)
        return result

    def _end(self, task: Task, result: ExecuteTask.Result) -> None:
        asked = repr(task.episode.instruction) if task.episode else asked_for(task.goal_handle.request)
        reached = f"{Judgement[result.verdict.upper()].words.lower()} ({result.end or 'not begun'})"
        took = f"{result.decisions} decisions, {result.steps} steps, {result.seconds:.1f} s"
        why = f"; {result.message}" if result.message else ""
        self._log.info(f"goal {id_of(task.goal_handle)} ended: {reached}, {asked}; {took}{why}")
        self.last = result
        self._tell(task, f"{reached}: {asked}{why}")
