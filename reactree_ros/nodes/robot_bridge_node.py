"""The robot bridge: hosts a real robot, by its own action servers and services and a semantic map."""

from __future__ import annotations

from typing import Any

from reactree_ros.nodes.bridge import Bridge
from reactree_ros.nodes.parameters import declare
from reactree_ros.nodes.robot_world import RobotWorld
from reactree_ros.nodes.spinning import run_node
from reactree_ros.world.port import World
from reactree_ros.world.robot_config import load_robot


class RobotBridgeNode(Bridge):
    """Hosts a robot; its endpoints are those of :class:`reactree_ros.nodes.bridge.Bridge`.

    Uses:
        the action servers and services that ``robot_config`` names, one for each skill.

    Subscribes to:
        ``/tf`` and ``/tf_static``; and, where ``robot_config`` names them, to the topics of detections
        (vision_msgs/Detection3DArray; best effort), of the map (std_msgs/String with its YAML; transient local) and of
        the emergency stop (any type; reliable).

    Parameters:
        ``robot_config``, ``dry_run``, ``server_timeout``, and those of every bridge; read when the node is configured.
    """

    def __init__(self, name: str = "robot_bridge", **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            kwargs: Passed on to :class:`rclpy.lifecycle.LifecycleNode`.
        """
        super().__init__(name, **kwargs)
        declare(self, "robot_config", "", "which ROS action or service carries out which skill; a file like robot.yaml")
        declare(self, "dry_run", False, "log every goal and send none")
        declare(
            self,
            "server_timeout",
            5.0,
            "how long a robot's server may be away, or take to accept a goal, in seconds",
            between=(0.1, 600.0),
        )

    def load(self) -> World:
        """Check the robot's configuration against the types that it names, and make its clients."""
        file = self.string("robot_config")
        return RobotWorld(
            self,
            load_robot(file),
            where=file,
            dry_run=self.get_parameter("dry_run").value,
            server_timeout=self.get_parameter("server_timeout").value,
            stop_timeout=self.get_parameter("stop_timeout").value,
        )


def main() -> None:
    """Run the node."""
    run_node(RobotBridgeNode)


if __name__ == "__main__":
    main()
