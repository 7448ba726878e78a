"""The base of the lifecycle nodes: it refuses impossible transitions; a failed one cancels what is in flight."""

from __future__ import annotations

import abc
import functools
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

from lifecycle_msgs.srv import ChangeState
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_srvs.srv import Trigger

N = TypeVar("N", bound="ManagedNode")
Transition = Callable[[N, LifecycleState], TransitionCallbackReturn]


def logged(transition: Transition[N]) -> Transition[N]:
    @functools.wraps(transition)
    def carry_out(node: N, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(node, state)
        except Exception:
            node.get_logger().error(f"{transition.__name__} failed: {traceback.format_exc()}")
            return TransitionCallbackReturn.ERROR

    return carry_out


class ManagedNode(LifecycleNode, abc.ABC):
    """A lifecycle node that refuses impossible transitions, at which rclpy would raise.

    Services:
        ``~/check`` (std_srvs/Trigger): whether everything that the node needs is there; the message says what is not.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        # Before what can be refused: since Kilted a shutdown destroys what was only half made, too.
        self.made = ExitStack()  # closes what it has made, at its end
        self.offers = False  # whether its endpoints are there; they stay after a cleanup: open requests are answered
        super().__init__(name, **kwargs)
        name = self.resolve_service_name("~/change_state")  # rclpy raises out of it, which would end the node
        service = next(one for one in self.services if one.srv_name == name)
        service.callback = functools.partial(self._considered, service.callback)

    def _considered(
        self,
        change: Callable[[ChangeState.Request, ChangeState.Response], ChangeState.Response],
        request: ChangeState.Request,
        response: ChangeState.Response,
    ) -> ChangeState.Response:
        try:
            return change(request, response)
        except RuntimeError as error:
            asked = request.transition.label or request.transition.id
            self.get_logger().warning(f"transition '{asked}' refused: {error}")
            response.success = False
            return response

    def _check(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.message = self.lacks()
        response.success = not response.message
        return response

    def lacks(self) -> str:
        """Say what the node lacks; empty if it has everything that it needs."""
        return ""

    def follow(self, transition: str) -> TransitionCallbackReturn:
        return TransitionCallbackReturn.SUCCESS

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            self.prepare()
        except Exception as error:  # also one of a plug-in's author
            self.get_logger().error(str(error) or type(error).__name__)
            return TransitionCallbackReturn.FAILURE
        if not self.offers:
            self.offer()
            self.create_service(Trigger, "~/check", self._check)  # last: who is answered on it reaches the others, too
            self.offers = True
        return self.follow("configure")

    @logged
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.follow("deactivate")
        self.begin_stop()
        return super().on_deactivate(state)

    @logged
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.follow("cleanup")
        self.release()
        return TransitionCallbackReturn.SUCCESS

    @logged
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.follow("shutdown")
        self.begin_stop()
        self.release()
        return TransitionCallbackReturn.SUCCESS

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.get_logger().error(f"the node could not leave the state '{state.label}'; it stops what is in flight")
        self.begin_stop()
        self.release()
        return TransitionCallbackReturn.SUCCESS

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make what the node hosts; what it raises is why the node cannot be configured."""

    @abc.abstractmethod
    def offer(self) -> None:
        """Make the endpoints; called once."""

    @abc.abstractmethod
    def begin_stop(self) -> None:
        """Cancel what is in flight."""

    def destroy_node(self) -> None:
        self.made.close()
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()  # it keeps the node in the graph as long as this object lives

    @abc.abstractmethod
    def release(self) -> None:
        """Release what the node hosts, as soon as nothing of that moves any more."""
