"""Brings up planner, robot bridge and inference node; with an instruction, carries it out and ends with 0 or 1.

The robot starts its own nodes (Nav2, arm, detector), or this launch starts those that its configuration names under
`start`, as for `robot:=pyrobosim`. With `robots:=NAME=CONFIG,…` there are several robots, each with a bridge in a
namespace of its own. The launch ends when one of its nodes does. With `dry_run:=true` every goal is logged and none is
sent.
"""

from launch import LaunchDescription

from reactree_ros.nodes.launching import ROBOT, ROBOTS, NodeArguments, describe, fields, robots_of
from reactree_ros.nodes.settings import BridgeSettings, RobotBridgeSettings

OWN = {
    **fields(RobotBridgeSettings, "robot_config", "dry_run"),
    **fields(BridgeSettings, "policy", "routine_skills", "house_map"),
}


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return describe(NodeArguments("robot_bridge_node", "robot_bridge", OWN), own=[ROBOT, ROBOTS], robots=robots_of)
