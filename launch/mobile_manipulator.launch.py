"""Brings up planner, robot bridge and inference node; with an instruction, carries it out and ends with 0 or 1.

The robot's own nodes (Nav2, its arm, its detector) are started by the robot. The launch ends when one of its nodes
does. With `dry_run:=true` every goal is logged and none is sent.
"""

from launch import LaunchDescription

from reactree_ros.nodes.launching import BridgeProcess, describe

ARGUMENTS = [
    ("instruction", "", "what to do; empty: wait for goals"),
    ("robot_config", "", "which ROS action or service carries out which skill; a file like config/robot.yaml"),
    ("dry_run", "false", "log every goal and send none"),
]
BRIDGE = BridgeProcess("robot_bridge_node", "robot_bridge", ("robot_config", "dry_run"))


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return describe(ARGUMENTS, BRIDGE)
