"""Configures and activates lifecycle nodes, one after the other, and ends with 0, or with 1 where one of them fails.

The launch could do this itself, but `launch_ros` goes by transition events, of which the first can be lost
(ros2/rcl#1166: it then waits for ever), and leaves a traceback where it is stopped while a node starts.
"""

from __future__ import annotations

import argparse
import sys

import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.utilities import remove_ros_args

from reactree_ros.nodes.spinning import Spinner, interruptible

ACTIVE, FAILED, INTERRUPTED = 0, 1, 130
TRANSITIONS = ((Transition.TRANSITION_CONFIGURE, "configured"), (Transition.TRANSITION_ACTIVATE, "activated"))


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="+", help="names of the nodes, relative to this one's namespace")
    parser.add_argument("--timeout", type=float, default=60.0, help="longest wait for a node to be there, in seconds")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    with interruptible() as asked:
        sys.exit(_bring_up(options.nodes, options.timeout, asked))


def _bring_up(names: list[str], timeout: float, asked: list[int]) -> int:
    node = rclpy.create_node("bring_up")
    with Spinner(node, asked) as spinner:
        for name in names:
            client = node.create_client(ChangeState, f"{name}/change_state")
            if not spinner.spin_until(client.service_is_ready, seconds=timeout):
                return INTERRUPTED if asked else _failed(f"there is no node '{name}' within {timeout:g} s")
            for transition, done in TRANSITIONS:
                answer = client.call_async(ChangeState.Request(transition=Transition(id=transition)))
                if not spinner.spin_until(answer.done):
                    return INTERRUPTED
                if not answer.result().success:
                    return _failed(f"'{name}' could not be {done}; it says itself why")
    return ACTIVE


def _failed(reason: str) -> int:
    print(f"error: {reason}", file=sys.stderr)  # noqa: T201
    return FAILED


if __name__ == "__main__":
    main()
