"""A navigation server apart from the base: it hears by tf where that is, and says by `cmd_vel` how it is to drive.

    python navigation.py [--speed M_PER_S] [--ros-args …]

It behaves like Nav2's: a newer goal takes over, a cancel stops it. The base is robot_servers.py without nav.
"""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

from geometry_msgs.msg import Pose2D, Twist
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from tf2_msgs.msg import TFMessage

from reactree_ros.nodes import steady
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.spinning import run_node

PERIOD = 0.025
#: Where it has arrived, in metres and radians.
NEAR, TURNED = 0.05, 0.05
#: The rest of a way is driven in this time, in seconds: it comes in slowly.
SLOWLY = 0.1


class Navigation(Node):
    """Drives the base.

    Args:
        speed: Metres per second.
    """

    def __init__(self, *, speed: float, **kwargs: Any) -> None:
        super().__init__("navigation", **kwargs)
        self._speed = speed
        self._at: Pose2D | None = None
        self._goal: tuple[Any, Future] | None = None
        self.heartbeat = Heartbeat(self)
        self._velocity = self.create_publisher(Twist, "cmd_vel", 1)
        self.create_subscription(TFMessage, "/tf", self._hear, 10)
        self._server = ActionServer(
            self,
            NavigateToPose,
            "navigate_to_pose",
            execute_callback=self._navigate,
            cancel_callback=lambda handle: CancelResponse.ACCEPT,
            callback_group=ReentrantCallbackGroup(),
        )
        steady.every(self, PERIOD, self._tick)

    def _hear(self, msg: TFMessage) -> None:
        for transform in msg.transforms:
            if transform.child_frame_id == "base_link":
                at, turn = transform.transform.translation, transform.transform.rotation
                self._at = Pose2D(x=at.x, y=at.y, theta=2 * math.atan2(turn.z, turn.w))

    async def _navigate(self, handle: Any) -> NavigateToPose.Result:
        self._end("preempted")
        ended = Future()
        self._goal = handle, ended
        await ended
        {"arrived": handle.succeed, "canceled": handle.canceled, "preempted": handle.abort}[ended.result()]()
        return NavigateToPose.Result()

    def _end(self, how: str) -> None:
        if self._goal is not None:
            (_, ended), self._goal = self._goal, None
            ended.set_result(how)
            self._velocity.publish(Twist())

    def _tick(self) -> None:
        if self._goal is None or self._at is None:
            return
        handle, _ = self._goal
        if handle.is_cancel_requested:
            self._end("canceled")
            return
        pose = handle.request.pose.pose
        x, y = pose.position.x - self._at.x, pose.position.y - self._at.y
        yaw = 2 * math.atan2(pose.orientation.z, pose.orientation.w) - self._at.theta
        turn, left = math.atan2(math.sin(yaw), math.cos(yaw)), math.hypot(x, y)
        if left < NEAR and abs(turn) < TURNED:
            self._end("arrived")
            return
        speed = min(self._speed, left / SLOWLY)
        velocity = Twist()
        if left:
            velocity.linear.x, velocity.linear.y = speed * x / left, speed * y / left
        velocity.angular.z = turn / SLOWLY
        self._velocity.publish(velocity)
        handle.publish_feedback(NavigateToPose.Feedback(distance_remaining=left))

    def begin_stop(self) -> None:
        """Let the base stand."""
        self._end("preempted")

    def stopped(self) -> bool:
        """Whether the base is not driven any more."""
        return self._goal is None

    def destroy_node(self) -> None:
        """Release the server."""
        self._server.destroy()
        super().destroy_node()


def main() -> None:
    """Run the node."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--speed", type=float, default=5.0)
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    run_node(lambda: Navigation(speed=options.speed))


if __name__ == "__main__":
    main()
