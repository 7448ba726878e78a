"""Configures and activates lifecycle nodes, one after the other, and ends with 0, or with 1 where one of them fails.

A planner can be waited for, so that what follows does not begin before it is there.

The launch could do this itself, but `launch_ros` goes by transition events, of which the first can be lost
(ros2/rcl#1166: it then waits for ever), and leaves a traceback where it is stopped while a node starts.
"""

from __future__ import annotations

import argparse
import sys
import time

import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.srv import ModelReady

from reactree_ros.nodes.spinning import Spinner, interruptible

#: Longest wait for a service of a node that is there, in seconds.
DISCOVERY = 5.0
#: Time between two looks at a model that is loading, in seconds.
LOOK_PERIOD = 0.5
#: How often activation is tried: a model may become ready right after it was tried.
TRIES = 3
ACTIVE, FAILED, INTERRUPTED = 0, 1, 130
TRANSITIONS = ((Transition.TRANSITION_CONFIGURE, "configured"), (Transition.TRANSITION_ACTIVATE, "activated"))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="+", help="names of the nodes, relative to this one's namespace")
    parser.add_argument("--planner", default="", help="name of a planner, which only has to be there")
    parser.add_argument("--timeout", type=float, default=60.0, help="longest wait for a node to be there, in seconds")
    parser.add_argument(
        "--load-timeout", type=float, default=1800.0, help="longest wait for a language model, in seconds"
    )
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    with interruptible() as asked:
        sys.exit(_bring_up(options.nodes, options.planner, options.timeout, options.load_timeout, asked))


def _bring_up(names: list[str], planner: str, timeout: float, load_timeout: float, asked: list[int]) -> int:
    node = rclpy.create_node("bring_up")
    with Spinner(node, asked) as spinner:
        for name in names:
            client = node.create_client(ChangeState, f"{name}/change_state")
            if not spinner.spin_until(client.service_is_ready, seconds=timeout):
                return INTERRUPTED if asked else _failed(f"there is no node '{name}' within {timeout:g} s")
            for transition, done in TRANSITIONS:
                for _ in range(TRIES):
                    answer = client.call_async(ChangeState.Request(transition=Transition(id=transition)))
                    if not spinner.spin_until(answer.done):
                        return INTERRUPTED
                    if answer.result().success:
                        break
                    why = "it says itself why"
                    if transition == Transition.TRANSITION_ACTIVATE:
                        why = _obstacle(node, name, spinner, load_timeout)
                    if why:
                        return INTERRUPTED if asked else _failed(f"'{name}' could not be {done}; {why}")
                else:
                    return _failed(f"'{name}' could not be {done}; it says itself why")
        if planner:
            action = ActionClient(node, ExecuteTask, f"{planner}/execute_task")
            there = spinner.spin_until(action.server_is_ready, seconds=timeout)
            action.destroy()
            if not there:
                return INTERRUPTED if asked else _failed(f"there is no planner '{planner}' within {timeout:g} s")
    return ACTIVE


def _obstacle(node: Node, name: str, spinner: Spinner, timeout: float) -> str:
    """Wait for a node's language model; says what stands in the way of activation; empty: nothing does."""
    client = node.create_client(ModelReady, f"{name}/ready")
    if not spinner.spin_until(client.service_is_ready, seconds=DISCOVERY):
        return "it says itself why"
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        call = client.call_async(ModelReady.Request())
        if not spinner.spin_until(call.done):
            return "interrupted"
        answer = call.result()
        if answer.state != ModelReady.Response.LOADING:
            return "" if answer.state == ModelReady.Response.READY else answer.message
        spinner.spin_until(lambda: False, seconds=LOOK_PERIOD)
    return f"its language model was not loaded within {timeout:g} s"


def _failed(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)  # noqa: T201
    return FAILED


if __name__ == "__main__":
    main()
