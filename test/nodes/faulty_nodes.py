"""A node as a process of its own that comes to an end in an unusual way when SIGUSR1 comes.

    python faulty_nodes.py (raise | task | exit | lose) NODE [--ros-args …]

NODE: robot_bridge, planner, held_bridge or held_inference. raise: a callback raises, and raises again each time; task:
the same in a task of the executor; exit: a callback calls `sys.exit`; lose: ROS is shut down.
"""

from __future__ import annotations

import signal
import sys

import rclpy
from held_nodes import held_bridge, held_inference
from rclpy.node import Node

from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.nodes.robot.robot_bridge_node import RobotBridgeNode
from reactree_ros.nodes.spinning import run_node

NODES = {
    "robot_bridge": RobotBridgeNode,
    "planner": PlannerNode,
    "held_bridge": held_bridge,
    "held_inference": held_inference,
}
faults: list[int] = []


def fail() -> None:
    raise RuntimeError("a fault of the test")


def strike(node: Node) -> None:
    if faults and sys.argv[1] == "raise":
        fail()
    if faults and sys.argv[1] == "task":
        node.executor.create_task(fail)
        return
    if faults and sys.argv[1] == "exit":
        sys.exit(3)
    if faults:
        rclpy.try_shutdown()


def make() -> Node:
    node = NODES[sys.argv[2]]()
    node.create_timer(0.02, lambda: strike(node))
    signal.signal(signal.SIGUSR1, lambda number, frame: faults.append(number))
    return node


if __name__ == "__main__":
    run_node(make)
