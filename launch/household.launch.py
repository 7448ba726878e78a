"""Brings up planner, household bridge and inference node; with an instruction, carries it out and ends with 0 or 1.

The launch ends when one of the nodes does. Everything of a robot is in `namespace`, but for /diagnostics,
/parameter_events and /rosout, which all nodes of a domain share by convention; what is said there names its node.
"""

from launch import LaunchDescription

from reactree_ros.nodes.launching import BridgeProcess, describe

ARGUMENTS = [
    ("instruction", "", "what to do; empty: wait for goals (or, with task_id, the task's instruction)"),
    ("world", "virtualhome", "virtualhome (on scene graphs), virtualhome_unity (its simulator) or ai2thor"),
    ("house", "", "a shipped house (apartment, villa; empty: the first) or a file of `reactree house`"),
    ("tasks", "", "a task file in the WAH-NL schema, instead of a house; for ai2thor, ALFRED trials (file or folder)"),
    ("task_id", "-1", "task of the file (of ALFRED trials, its position from 0); -1: the first"),
    ("scene", "", "for ai2thor, instead of tasks: a scene, e.g. FloorPlan10"),
    ("host", "127.0.0.1", "where VirtualHome's simulator listens; where the bridge listens for AI2-THOR's"),
    ("port", "0", "its port; 0: VirtualHome's 8080, a free one for AI2-THOR"),
    ("executable", "", "the simulator's executable; empty: VirtualHome runs already, ai2thor downloads its own"),
    ("display", "", "X display of the simulator, e.g. :0"),
    ("headless", "false", "AI2-THOR without a display (CloudRendering)"),
    ("start_simulator", "true", "start AI2-THOR; false: one that runs connects to host and port"),
    ("pictures", "false", "publish what the agent's camera sees on ~/image, after each skill"),
]
BRIDGE = BridgeProcess("bridge_node", "household_bridge", [name for name, _, _ in ARGUMENTS if name != "instruction"])


def generate_launch_description() -> LaunchDescription:
    """Describe the launch."""
    return describe(ARGUMENTS, BRIDGE)
