"""Runs planner, bridge and inference node in one process, where the planner calls the others without the middleware.

A decision takes less time; in exchange, a node that dies or computes for long takes the others with it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from rclpy.utilities import remove_ros_args

from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.nodes.spinning import run_nodes

#: What may run beside the planner: the nodes' scripts, with their modules in this folder and their classes.
OTHERS = {
    "inference_node": ("inference.inference_node", "InferenceNode"),
    "bridge_node": ("bridge.bridge_node", "BridgeNode"),
    "robot_bridge_node": ("robot.robot_bridge_node", "RobotBridgeNode"),
}


def make(names: Sequence[str]) -> list[Any]:
    """Make the nodes of these scripts, and a planner; the planner is the first, and so the first one to stop."""
    modules = [(import_module(f"{__package__}.{module}"), kind) for module, kind in map(OTHERS.__getitem__, names)]
    others = [getattr(module, kind)() for module, kind in modules]
    return [PlannerNode(beside=others), *others]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("beside", nargs="*", choices=OTHERS, help="the nodes beside the planner")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    run_nodes(lambda: make(options.beside))


if __name__ == "__main__":
    main()
