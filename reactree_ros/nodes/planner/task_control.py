"""What people can do with a task that runs: pause it, step it, say its next decision, tell it something, stop it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.srv import Hear, SayDecision
from std_srvs.srv import Trigger

from reactree_ros.errors import UserError
from reactree_ros.nodes.planner.reporter import id_of
from reactree_ros.nodes.planner.task import STOPPED, TaskQueue
from reactree_ros.nodes.waiting import settled
from reactree_ros.person.port import is_stop
from reactree_ros.view.steering import PAUSED, Steering


class TaskControl:
    """Offers ``~/pause``, ``~/resume``, ``~/step``, ``~/say`` and ``~/hear``."""

    def __init__(self, node: Node, queue: TaskQueue, *, halted: Callable[[], str], wake: Callable[[], None]) -> None:
        self._node, self._log, self._queue, self._halted, self._wake = node, node.get_logger(), queue, halted, wake
        self.paused = ""
        node.create_service(Trigger, "~/pause", lambda _, response: self._hold(PAUSED, response))
        node.create_service(Trigger, "~/resume", lambda _, response: self._hold("", response))
        node.create_service(Trigger, "~/step", self._step)
        node.create_service(Hear, "~/hear", self._hear)
        node.create_service(SayDecision, "~/say", self._say, callback_group=ReentrantCallbackGroup())

    def held(self) -> str:
        """Say why tasks hold: somebody paused them, or the world may not move; empty: they go on."""
        return self.paused or self._halted()

    def take_in(self, words: str) -> None:
        """Tell the running task what a person says; ``stop`` ends it even if it can take no words in now."""
        task = self._queue.running
        if task is None:
            raise UserError("no task runs that could take in what you say")
        self._log.info(f"goal {id_of(task.goal_handle)} hears {words!r}")
        if not is_stop(words):
            self._steering().tell(words)
            return
        with suppress(UserError):  # it has not begun, is on its way back, or has ended
            self._steering().tell(words)
        task.stop(*STOPPED)
        self._queue.dismiss()
        self._wake()

    def _steering(self) -> Steering:
        task = self._queue.running
        if task is None or task.steering is None:
            raise UserError("no task runs; there is nothing to steer")
        return task.steering

    def _hold(self, reason: str, response: Trigger.Response) -> Trigger.Response:
        self.paused = reason
        with suppress(UserError):  # none runs, or it is on its way back: it holds when it arrives
            steering = self._steering()
            steering.pause() if reason else steering.go_on()
        task = "no task runs; the next one" if self._queue.running is None else "the task"
        response.success, response.message = True, f"{task} {'holds until it is resumed' if reason else 'goes on'}"
        if not reason and (halted := self._halted()):
            response.message += f" when it may: {halted}"
        self._log.info(f"{'paused' if reason else 'resumed'}: {response.message}")
        return response

    def _step(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            self._steering().step()
        except UserError as error:
            response.message = str(error)
            return response
        self.paused = PAUSED
        response.success, response.message = True, "the task takes one step, then holds"
        return response

    async def _say(self, request: SayDecision.Request, response: SayDecision.Response) -> SayDecision.Response:
        try:
            said = self._steering().say(request.words)
        except UserError as error:
            response.message = str(error)
            return response
        self._wake()
        await settled(self._node, said)
        response.message = said.take()
        response.success = not response.message
        return response

    def _hear(self, request: Hear.Request, response: Hear.Response) -> Hear.Response:
        try:
            self.take_in(request.words)
        except UserError as error:
            response.message = str(error)
        response.success = not response.message
        return response
