"""Brings up planner, household bridge and inference node; with an instruction, carries it out and ends with 0 or 1.

The launch ends when one of the nodes does. All names of a robot are in `namespace`, except /diagnostics,
/parameter_events and /rosout: all nodes of a domain share these, and messages there name their node.
"""

from launch import LaunchDescription

from reactree_ros.nodes.launching import NodeArguments, describe, fields, robots_of_household
from reactree_ros.nodes.settings import BridgeSettings, HouseholdBridgeSettings
from reactree_ros.world.spec import WORLDS

OWN = {**fields(HouseholdBridgeSettings), **fields(BridgeSettings, "policy", "routine_skills", "house_map")}


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    bridge = NodeArguments("bridge_node", "household_bridge", OWN, WORLDS, "world")
    return describe(bridge, robots=robots_of_household)
