"""A navigation server apart from the base: it hears by tf where that is, and says by `cmd_vel` how it is to drive.

    python navigation.py [--speed M_PER_S] [--also NAME=TYPE,…] [--journal FILE] [--ros-args …]

It behaves like Nav2's: a newer goal takes over, a cancel stops it. The base is robot_servers.py without nav, or
declared_robot.py. ``--also`` names further actions that drive, such as ``backup=nav2_msgs/action/BackUp``.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from geometry_msgs.msg import Pose2D, Twist
from nav2_msgs.action import BackUp, NavigateToPose
from rclpy.action import ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from robot_servers import Journal
from tf2_msgs.msg import TFMessage

from reactree_ros.nodes import steady
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot.goal_templates import resolve
from reactree_ros.nodes.spinning import run_node

PERIOD = 0.025
#: Where it has arrived, in metres and radians.
NEAR, TURNED = 0.05, 0.05
#: The rest of a way is driven in this time, in seconds: it comes in slowly.
SLOWLY = 0.1


def drives(kind: Any) -> bool:
    """Whether the base drives for what is of a type."""
    return hasattr(kind, "Goal") and not {"pose", "target"}.isdisjoint(kind.Goal.get_fields_and_field_types())


def aim(goal: Any, at: Pose2D) -> Pose2D:
    """Return where a goal of an action that drives is, seen from where the base is."""
    stamped = goal.pose if hasattr(goal, "pose") else goal.target
    if hasattr(stamped, "pose"):
        assert stamped.header.frame_id == "map"
        pose = stamped.pose
        turn = 2 * math.atan2(pose.orientation.z, pose.orientation.w)
        return Pose2D(x=pose.position.x, y=pose.position.y, theta=turn)
    ahead = -goal.target.x if isinstance(goal, BackUp.Goal) else goal.target.x
    return Pose2D(x=at.x + ahead * math.cos(at.theta), y=at.y + ahead * math.sin(at.theta), theta=at.theta)


class Navigation(Node):
    """Drives the base, at a speed in metres per second, also by further actions."""

    def __init__(
        self, *, speed: float, also: Mapping[str, Any] | None = None, journal: Journal | None = None, **kwargs: Any
    ) -> None:
        super().__init__("navigation", **kwargs)
        self._speed, self._journal = speed, journal or Journal(None)
        self._at: Pose2D | None = None
        self._aim: Pose2D | None = None
        self._goal: tuple[Any, Future] | None = None
        self.heartbeat = Heartbeat(self)
        self._velocity = self.create_publisher(Twist, "cmd_vel", 1)
        self.create_subscription(TFMessage, "/tf", self._hear, 10)
        group = ReentrantCallbackGroup()
        self._servers = [
            ActionServer(
                self,
                kind,
                name,
                execute_callback=partial(self._navigate, name, kind),
                cancel_callback=lambda handle: CancelResponse.ACCEPT,
                callback_group=group,
            )
            for name, kind in {"navigate_to_pose": NavigateToPose, **(also or {})}.items()
        ]
        steady.every(self, PERIOD, self._tick)

    def _hear(self, msg: TFMessage) -> None:
        for transform in msg.transforms:
            if transform.child_frame_id == "base_link":
                at, turn = transform.transform.translation, transform.transform.rotation
                self._at = Pose2D(x=at.x, y=at.y, theta=2 * math.atan2(turn.z, turn.w))

    async def _navigate(self, name: str, kind: Any, handle: Any) -> Any:
        self._end("preempted")
        ended = Future()
        self._goal, self._aim = (handle, ended), None
        with self._journal.goal(name, handle.request):
            await ended
        how, result = ended.result(), kind.Result()
        {"arrived": handle.succeed, "canceled": handle.canceled, "preempted": handle.abort}[how]()
        if hasattr(result, "success"):
            result.success = how == "arrived"
        return result

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
        if self._aim is None:
            self._aim = aim(handle.request, self._at)
        x, y = self._aim.x - self._at.x, self._aim.y - self._at.y
        yaw = self._aim.theta - self._at.theta
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
        if isinstance(handle.request, NavigateToPose.Goal):
            handle.publish_feedback(NavigateToPose.Feedback(distance_remaining=left))

    def begin_stop(self) -> None:
        self._end("preempted")

    def stopped(self) -> bool:
        return self._goal is None

    def destroy_node(self) -> None:
        for server in self._servers:
            server.destroy()
        super().destroy_node()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--speed", type=float, default=5.0)
    parser.add_argument("--also", default="")
    parser.add_argument("--journal", type=Path)
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    given = (one.partition("=") for one in options.also.split(",") if one)
    also = {name: resolve("action", kind, "--also") for name, _, kind in given}
    run_node(lambda: Navigation(speed=options.speed, also=also, journal=Journal(options.journal)))


if __name__ == "__main__":
    main()
