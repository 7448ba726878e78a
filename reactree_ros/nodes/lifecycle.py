"""What the lifecycle nodes share: an impossible transition is refused, and one that fails stops what is in flight."""

from __future__ import annotations

import abc
import functools
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from lifecycle_msgs.srv import ChangeState
from rclpy._rclpy_pybind11 import RCLError
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_srvs.srv import Trigger

N = TypeVar("N", bound="ManagedNode")
Transition = Callable[[N, LifecycleState], TransitionCallbackReturn]


class ManagedNode(LifecycleNode, abc.ABC):
    """A lifecycle node that nobody brings down by asking for a transition.

    Services:
        ``~/check`` (std_srvs/Trigger): whether everything that the node needs is there; the message says what is not.

    Args:
        name: Its name.
        kwargs: Passed on to :class:`rclpy.lifecycle.LifecycleNode`.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        service = self._service_change_state  # rclpy raises out of it, and has no other way to it
        service.callback = functools.partial(self._considered, service.callback)
        self.create_service(Trigger, "~/check", self._check)

    def _considered(
        self,
        change: Callable[[ChangeState.Request, ChangeState.Response], ChangeState.Response],
        request: ChangeState.Request,
        response: ChangeState.Response,
    ) -> ChangeState.Response:
        """Carry a transition out that somebody asks for, or refuse it where the state has no such one."""
        try:
            return change(request, response)
        except RCLError as error:
            asked = request.transition.label or request.transition.id
            _, state = self._state_machine.current_state
            self.get_logger().warning(f"transition '{asked}' refused: the node is {state} ({error})")
            response.success = False
            return response

    def _check(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.message = self.lacks()
        response.success = not response.message
        return response

    def lacks(self) -> str:
        """Say what the node needs and is not there; empty where it has everything."""
        return ""

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop what is in flight and release what is held; the node can then be configured anew."""
        self.get_logger().error(f"the node could not leave the state '{state.label}'; it stops what is in flight")
        self.begin_stop()
        self.release()
        return TransitionCallbackReturn.SUCCESS

    def destroy_node(self) -> None:
        """Release the endpoints, those of rclpy's state machine, too: as long as they are there, so is the node."""
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()

    @abc.abstractmethod
    def begin_stop(self) -> None:
        """Cancel what is in flight."""

    @abc.abstractmethod
    def release(self) -> None:
        """Release what the node hosts, as soon as nothing of that moves any more."""


def told(transition: Transition[N]) -> Transition[N]:
    """Log what a transition raises, which rclpy swallows, and let it fail."""

    @functools.wraps(transition)
    def carry_out(node: N, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(node, state)
        except Exception:
            node.get_logger().error(f"{transition.__name__} failed: {traceback.format_exc()}")
            return TransitionCallbackReturn.ERROR

    return carry_out
