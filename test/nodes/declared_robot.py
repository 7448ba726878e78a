"""A robot whose servers and topics are all that a `robot.yaml` names, each of its real type, and a base that drives.

    python declared_robot.py ROBOT_YAML [--without drives] [--behave SERVER=BEHAVIOUR,…] [--arm-seconds S]
        [--state FILE] [--journal FILE] [--ros-args …]

An action or a service behaves as those of robot_servers.py do. Whoever it waits for says again and again what is waited
for; a topic among ``silent`` says nothing, and nobody hears one that is published on. The battery is full. Without
drives, the base does as `cmd_vel` says: navigation.py is what says it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice, repeat
from pathlib import Path
from typing import Any

from geometry_msgs.msg import Pose2D, PoseStamped
from navigation import aim, drives
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from robot_servers import Journal, Robot, StateFile, behaviours

from reactree_ros.agent.parameters import Named
from reactree_ros.nodes import steady
from reactree_ros.nodes.robot.goal_templates import compiled, names_of, resolve
from reactree_ros.nodes.robot.mapped_skill import MappedCall, MappedSkill
from reactree_ros.nodes.spinning import run_node
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.robot.map_file import load_map
from reactree_ros.world.skill_policy import Range

#: How many messages on a topic are published at once: a queue takes as many.
AT_ONCE = 5


def mapped(config: RobotConfig) -> dict[str, MappedSkill]:
    return {one.name: MappedSkill(config.skills[one.name], one.name, one) for one in config.declared}


def driving(config: RobotConfig) -> dict[str, str]:
    calls = [call for one in mapped(config).values() for call in one.calls if call.entry.kind == "action"]
    return {call.entry.server: call.entry.type for call in calls if drives(call.type)}


def _wanted(call: MappedCall) -> dict[str, Any]:
    """Return what a result or a message has by which a call went well."""

    def one(wanted: Any) -> Any:
        if isinstance(wanted, Range):
            ends = [end for end in (wanted.above, wanted.below) if abs(end) < float("inf")]
            return sum(ends) / 2 if len(ends) == 2 else ends[0] + (1 if ends[0] == wanted.above else -1)
        return wanted[0] if isinstance(wanted, list) else wanted

    return {path: one(wanted) for path, wanted in call.entry.success.items()}


class DeclaredRobot(Robot):
    def __init__(
        self, config: RobotConfig, *, drives: bool = True, journal: Journal | None = None, **kwargs: Any
    ) -> None:
        super().__init__(nav=False, arm=False, button=False, **kwargs)
        self.blind, self.silent = True, set[str]()
        self._journal = journal or Journal(None)
        self._says: list[tuple[str, Any, Iterator[Any]]] = []
        self._config, self._drives, self._offered = config, drives, set[str]()
        self._holding: list[Future] = []
        self.cancelled_at = 0.0
        self.heard: dict[str, Any] = {}  # subscriptions, by topic
        document = load_map(config.map)
        self._names = [one.name for one in (*document.receptacles, *document.rooms, *document.expected)]
        for skill in mapped(config).values():
            for call in skill.calls:
                self._offer(skill, call)
        self._pose = None if config.pose is None else self.create_publisher(PoseStamped, config.pose.topic, 10)
        if (battery := config.battery) is not None:
            full = battery.least + 1 if battery.charge is None else battery.charge.until
            kind = resolve("message", battery.type, "battery")
            told = repeat(compiled(kind, {battery.field: float(full)}, "battery")({}))
            self._says.append((battery.topic, self.create_publisher(kind, battery.topic, 10), told))

    def _offer(self, skill: MappedSkill, call: MappedCall) -> None:
        entry = call.entry
        if entry.kind == "wait_for":
            told = cycle(list(self._messages(skill, call)))
            self._says.append((entry.server, self.create_publisher(call.type, entry.server, 10), told))
        if entry.server in self._offered:
            return
        self._offered.add(entry.server)
        if entry.kind == "publish":
            self.hear(entry.server, call.type)
        elif entry.kind == "service":
            answer = partial(self._answer, entry.server, partial(self._came, skill, call))
            self.create_service(call.type, entry.server, answer, callback_group=self._group)
        elif entry.kind == "action" and (self._drives or not drives(call.type)):
            self.serve(entry.server, call.type, partial(self._act, call, partial(self._came, skill, call)))

    def hear(self, topic: str, kind: Any) -> None:
        self.heard[topic] = self.create_subscription(kind, topic, partial(self._hear, topic), 10)

    def unhear(self, topic: str) -> Any:
        subscription = self.heard.pop(topic)
        self.destroy_subscription(subscription)
        return subscription.msg_type

    def _hear(self, topic: str, message: Any) -> None:
        self._journal.heard(topic, message)
        self.say(f"{topic}: heard")

    def _cancel(self, server: str, handle: Any) -> Any:
        self.cancelled_at = steady.now()
        return super()._cancel(server, handle)

    def _messages(self, skill: MappedSkill, call: MappedCall) -> Iterator[Any]:
        fill = compiled(call.type, _wanted(call), call.entry.server, names_of(skill.skill))
        each = skill.skill.parameters.items()
        for name in self._names:
            yield fill({what: name if isinstance(one, Named) else one.example() for what, one in each})

    def _came(self, skill: MappedSkill, call: MappedCall, part: str) -> Any:
        returned = {
            path: skill.skill.returns[name].example() for name, path in getattr(call.entry, "result", {}).items()
        }
        return compiled(getattr(call.type, part), _wanted(call) | returned, call.entry.server)({})

    async def _act(self, call: MappedCall, came: Any, handle: Any) -> Any:
        result, server, moves = came("Result"), call.entry.server, drives(call.type)
        with self._journal.goal(server, handle.request):
            if moves:
                at = aim(handle.request, Pose2D(x=self.x, y=self.y, theta=self.yaw))
                self.goal = (at.x, at.y, at.theta)
            if await self._ended(server, handle, result, moving=moves, seconds=self.arm_seconds):
                return result
            self.goal = None
        return result if getattr(result, "error_code", 0) else call.type.Result()

    @property
    def process(self) -> int:
        """What its lines in the journal say of where it is."""
        return os.getpid()

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def release(self) -> None:
        for answer in self._holding:
            answer.set_result(None)
        self._holding.clear()

    async def _answer(self, server: str, came: Any, request: Any, response: Any) -> Any:
        self._journal.heard(server, request)
        behaviour = self.behave[server].pop(0) if self.behave[server] else "succeed"
        self.say(f"{server}: {behaviour}")
        if behaviour in ("hold", "deaf"):
            self._holding.append(future := Future())
            await future
        return response if behaviour == "fail" else came("Response")

    def _tick(self) -> None:
        super()._tick()
        if self._pose is not None:
            message = PoseStamped()
            message.header.frame_id, message.header.stamp = "map", self.get_clock().now().to_msg()
            message.pose.position.x, message.pose.position.y = float(self.x), float(self.y)
            message.pose.orientation.z, message.pose.orientation.w = math.sin(self.yaw / 2), math.cos(self.yaw / 2)
            self._pose.publish(message)
        for topic, publisher, messages in self._says:
            for message in islice(messages, AT_ONCE) if topic not in self.silent else ():
                publisher.publish(message)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("config", type=Path)
    parser.add_argument("--without", default="")
    parser.add_argument("--behave", action="append", default=[])
    parser.add_argument("--arm-seconds", type=float, default=0.0)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--journal", type=Path)
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    of = {"state": None if options.state is None else StateFile(options.state), "journal": Journal(options.journal)}
    config, acts = load_robot(options.config), {"drives": not options.without, "arm_seconds": options.arm_seconds}
    run_node(lambda: DeclaredRobot(config, behave=behaviours(options.behave), **acts, **of))


if __name__ == "__main__":
    main()
