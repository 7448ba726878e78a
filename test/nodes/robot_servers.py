"""A robot in a house of five rooms: servers that behave like Nav2 and an arm, a switch, tf and detections.

    python robot_servers.py [--speed M_PER_S] [--behave SERVER=BEHAVIOUR,…] [--without nav,arm,button]
        [--arm-seconds S] [--state FILE] [--ros-args …]

Behaviours of a server, one for each goal in turn, then `succeed`:

    succeed   do it
    abort:N   end with the error code N
    quit      end without a word, as a server does that is shut down
    hold      accept the goal, move, and never end it; a cancel stops it
    deaf      the same, but a cancel does not stop it
    stubborn  like hold, but the first cancel is refused
    reject    do not accept the goal
    fail      end with success, but report a failure in the result

It prints a line for everything that happens. The house is that of config/semantic_map.yaml.

Without nav the base drives as `cmd_vel` says (geometry_msgs/Twist, in the map's frame), and stands where that has been
silent for 0.3 s, as a real base does; navigation.py is what says it. With a state file a house and a base that are
started again are as they were left, and whoever reads it sees where the base is and when it moved last, also where the
network is gone.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from geometry_msgs.msg import TransformStamped, Twist
from nav2_msgs.action import DockRobot, DummyBehavior, NavigateToPose
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, qos_profile_sensor_data
from rclpy.task import Future
from rclpy.utilities import remove_ros_args
from std_msgs.msg import Bool
from std_srvs.srv import SetBool, Trigger
from tf2_ros import StaticTransformBroadcaster, TransformBroadcaster
from vision_msgs.msg import Detection3D, Detection3DArray, ObjectHypothesisWithPose

from reactree_ros.nodes import steady
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot.mapped_skill import plain
from reactree_ros.nodes.spinning import run_node
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.poses import Pose

MAP = Path(__file__).parents[2] / "config/semantic_map.yaml"
PERIOD = 0.05
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: How far the camera sees, in metres.
SIGHT = 1.6
#: Where the camera is in the robot's frame.
CAMERA = (0.2, 0.0, 0.5)
#: What of the base a state file has.
KEPT = ("x", "y", "yaw", "moved_at", "metres")
#: For how long a base follows a velocity that it was told, in seconds.
VELOCITY_LASTS = 0.3


class House:
    def __init__(self) -> None:
        document = load_map(MAP)
        self.places = {entry.name: entry for entry in document.receptacles}
        self._classes = {word: name for name, word in document.objects.classes.items()}
        self.put_back()

    def put_back(self) -> None:
        self.objects = {"apple": (9.6, 1.0, 0.9), "pudding": (7.6, 3.1, 0.8), "cup": (7.3, 2.9, 0.8)}
        self.open = set[str]()
        self.held = ""

    def visible(self, x: float, y: float) -> dict[str, tuple[float, float, float]]:
        return {
            name: at
            for name, at in self.objects.items()
            if name != self.held and math.hypot(at[0] - x, at[1] - y) <= SIGHT and not self._shut_away(at)
        }

    def _shut_away(self, at: tuple[float, float, float]) -> bool:
        fridge = self.places["fridge 1"].pose
        return "fridge 1" not in self.open and math.hypot(at[0] - fridge.x, at[1] - fridge.y) < 0.3

    def do(self, verb: str, name: str, where: str) -> None:
        thing = self._classes.get(name.rpartition(" ")[0], "")
        if verb == "pick up":
            self.held = thing
        elif verb == "put down":
            pose, size = self.places[where].pose, self.places[where].size
            self.objects[thing] = (pose.x, pose.y + 0.2, pose.z + size[2])
            self.held = ""
        elif verb == "open":
            self.open.add(name)
        elif verb == "close":
            self.open.discard(name)


class StateFile:
    """What outlasts the robot's process: where the base is, when it moved last, and the house."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        return json.loads(self._path.read_text()) if self._path.exists() else {}

    def write(self, **state: Any) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps(state))
        new.replace(self._path)


class Journal:
    """What a robot's servers and topics were asked for, and when that ended: lines of JSON from several processes."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def note(self, server: str, **said: Any) -> None:
        """Write a line, with the time of the monotonic clock, which all processes share."""
        if self._path is not None:
            with self._path.open("a") as file:
                line = {"at": steady.now(), "server": server, "process": os.getpid(), **said}
                file.write(json.dumps(line, default=plain) + "\n")

    def heard(self, server: str, message: Any) -> None:
        self.note(server, heard=message)

    @contextmanager
    def goal(self, server: str, goal: Any) -> Iterator[None]:
        self.note(server, begins=goal)
        try:
            yield
        finally:
            self.note(server, ends=True)

    def read(self) -> list[dict[str, Any]]:
        written = self._path.read_text() if self._path is not None and self._path.exists() else ""
        return [json.loads(line) for line in written.splitlines()]


class Robot(Node):
    def __init__(
        self,
        name: str = "robot",
        *,
        speed: float = 20.0,  # in metres per second
        behave: dict[str, list[str]] | None = None,
        frame: str = "camera_link",  # in which the camera reports
        nav: bool = True,
        arm: bool = True,
        button: bool = True,
        body: bool = True,
        arm_seconds: float = 0.0,  # how long the arm moves for a command
        state: StateFile | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name, **kwargs)
        self.house = House()
        self.behave = defaultdict(list, behave or {})
        self.speed, self.frame = speed, frame
        self.x, self.y, self.yaw = 2.5, 2.0, 0.0
        self.arm_seconds, self._state = arm_seconds, state
        self.moved_at, self.metres = 0.0, 0.0
        self._velocity, self._told = Twist(), float("-inf")
        if state is not None:
            self._restore(state.read())
        self.goal: tuple[float, float, float] | None = None
        self.log: list[str] = []
        self.switched: list[bool] = []
        self.blind = False
        self.drift = (0.0, 0.0)  # how far localization is off, in metres
        self._running: list[tuple[Any, Future]] = []
        self.heartbeat = Heartbeat(self)
        self._tf, self._static = TransformBroadcaster(self), StaticTransformBroadcaster(self)
        self._seen = self.create_publisher(Detection3DArray, "detections", qos_profile_sensor_data)
        if button:
            self.create_publisher(Bool, "/emergency_stop", LATCHED).publish(Bool(data=False))
        self._group = ReentrantCallbackGroup()
        self.servers: list[ActionServer] = []
        if nav:
            self.serve("navigate_to_pose", NavigateToPose, self._navigate)
        if arm:
            self.serve("arm", DummyBehavior, self._command)
            self.serve("gripper", DockRobot, self._dock)
            self.create_service(SetBool, "switch", self._switch)
            self.create_service(Trigger, "put_back", self._put_back)
        if body and not nav:
            self.create_subscription(Twist, "cmd_vel", self._drive, 1)
        shares_tf = self.resolve_topic_name("/tf") == "/tf"
        self._own = f"{self.get_namespace()}/".lstrip("/") if shares_tf else ""  # begins the names of its frames
        self._stamped(self._static, f"{self._own}base_link", f"{self._own}camera_link", *CAMERA)
        if body:
            self.create_timer(PERIOD, self._tick)

    def serve(self, name: str, kind: Any, execute: Callable[[Any], Any]) -> None:
        self.servers.append(
            ActionServer(
                self,
                kind,
                name,
                execute_callback=execute,
                goal_callback=lambda goal: self._consider(name),
                cancel_callback=lambda handle: self._cancel(name, handle),
                callback_group=self._group,
            )
        )

    def say(self, text: str) -> None:
        self.log.append(text)
        print(text, flush=True)  # noqa: T201

    # ------------------------------------------------------------------ goals

    def _consider(self, server: str) -> GoalResponse:
        if self.behave[server][:1] == ["reject"]:
            self.behave[server].pop(0)
            self.say(f"rejected: {server}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _cancel(self, server: str, handle: Any) -> CancelResponse:
        for one, future in self._running:
            if one == handle and future.stubborn:
                future.stubborn = False
                self.say(f"cancel refused: {server}")
                return CancelResponse.REJECT
        self.say(f"cancel: {server}")
        return CancelResponse.ACCEPT

    async def _ended(
        self, server: str, handle: Any, result: Any, *, moving: bool = False, seconds: float = 0.0
    ) -> bool:
        behaviour = self.behave[server].pop(0) if self.behave[server] else "succeed"
        self.say(f"{server}: {behaviour}")
        if behaviour.startswith("abort"):
            result.error_code, result.error_msg = int(behaviour.partition(":")[2]), "as told"
        if behaviour == "quit" or behaviour.startswith("abort"):
            handle.abort()
            return False
        waiting = behaviour in ("hold", "deaf", "stubborn")
        if waiting or moving or seconds:
            future = Future()
            future.until = steady.now() + seconds
            future.deaf, future.stubborn, future.forever = behaviour == "deaf", behaviour == "stubborn", waiting
            self._running.append((handle, future))
            await future
            self._running = [one for one in self._running if one[1] is not future]
            if future.result() == "canceled":
                handle.canceled()
                self.goal = None
                self.say(f"stopped: {server}")
                return False
        handle.succeed()
        return behaviour != "fail"

    async def _navigate(self, handle: Any) -> NavigateToPose.Result:
        pose, result = handle.request.pose, NavigateToPose.Result()
        assert pose.header.frame_id == "map"
        at, turn = pose.pose.position, pose.pose.orientation
        self.goal = (at.x, at.y, 2 * math.atan2(turn.z, turn.w))
        self.say(f"navigates to {at.x:.1f} {at.y:.1f}")
        if await self._ended("navigate_to_pose", handle, result, moving=True):
            self.say(f"has arrived at {at.x:.1f} {at.y:.1f}")
        return result

    async def _command(self, handle: Any) -> DummyBehavior.Result:
        result, words = DummyBehavior.Result(), handle.request.command.data
        verb, rest = " ".join(words.split()[:2]), " ".join(words.split()[2:])
        if verb not in ("pick up", "put down"):
            verb, _, rest = words.partition(" ")
        name, _, where = rest.partition(" on " if verb == "put down" else " at ")
        if await self._ended("arm", handle, result, seconds=self.arm_seconds):
            self.house.do(verb, name, where)
            if self._state is not None:  # before anybody is told
                self._keep(self._state)
            self.say(f"arm: {words}")
        return result

    async def _dock(self, handle: Any) -> DockRobot.Result:
        """Behave like an arm with an action of its own: a name, a pose and what to do with it."""
        result, goal = DockRobot.Result(success=True), handle.request
        if await self._ended("gripper", handle, result):
            self.house.do(goal.dock_type, goal.dock_id, "")
            at = goal.dock_pose.pose.position
            self.say(f"gripper: {goal.dock_type} {goal.dock_id} {goal.dock_pose.header.frame_id} {at.x:.2f} {at.y:.2f}")
        else:
            result.success = False
        return result

    def _switch(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        behaviour = self.behave["switch"].pop(0) if self.behave["switch"] else "succeed"
        response.success, response.message = behaviour == "succeed", behaviour
        self.switched.append(request.data)
        return response

    def _put_back(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self.house.put_back()
        response.success = True
        return response

    # ------------------------------------------------------------------ the body

    def _restore(self, state: dict[str, Any]) -> None:
        if state:
            for name in KEPT:
                setattr(self, name, state[name])
            self.house.objects = {name: tuple(at) for name, at in state["objects"].items()}
            self.house.open, self.house.held = set(state["open"]), state["held"]

    def _keep(self, state: StateFile) -> None:
        house = {"objects": self.house.objects, "open": sorted(self.house.open), "held": self.house.held}
        state.write(**{name: getattr(self, name) for name in KEPT}, **house)

    def _drive(self, velocity: Twist) -> None:
        self._velocity, self._told = velocity, steady.now()

    def _tick(self) -> None:
        at = (self.x, self.y)
        self._move()
        if (self.x, self.y) != at:
            self.moved_at = steady.now()
            self.metres += math.hypot(self.x - at[0], self.y - at[1])
        if self._state is not None:
            self._keep(self._state)
        for handle, future in list(self._running):
            canceled = handle.is_cancel_requested and not future.deaf
            over = self.goal is None and steady.now() >= future.until
            if not future.done() and (canceled or (over and not future.forever)):
                future.set_result("canceled" if canceled else "done")
            elif isinstance(handle.request, NavigateToPose.Goal):
                handle.publish_feedback(NavigateToPose.Feedback(distance_remaining=float(self._left())))
        x, y = self.x + self.drift[0], self.y + self.drift[1]
        self._stamped(self._tf, "map", f"{self._own}base_link", x, y, 0.0, self.yaw)
        if not self.blind:
            self.see(self.house.visible(self.x, self.y))

    def _left(self) -> float:
        return 0.0 if self.goal is None else math.hypot(self.goal[0] - self.x, self.goal[1] - self.y)

    def _move(self) -> None:
        if steady.now() - self._told < VELOCITY_LASTS:
            self.x += PERIOD * self._velocity.linear.x
            self.y += PERIOD * self._velocity.linear.y
            self.yaw += PERIOD * self._velocity.angular.z
        left, step = self._left(), self.speed * PERIOD
        held = any(future.forever for _, future in self._running)
        if self.goal is None or (held and left <= step):
            return
        share = min(1.0, step / left) if left else 1.0
        self.x += share * (self.goal[0] - self.x)
        self.y += share * (self.goal[1] - self.y)
        self.yaw = self.goal[2]
        if share == 1.0 and not held:
            self.goal = None

    def see(self, objects: dict[str, tuple[float, float, float]], *, frame: str = "", score: float = 0.9) -> None:
        msg = Detection3DArray()
        seen_from = frame or self.frame
        msg.header.frame_id = self._own + seen_from
        msg.header.stamp = self.get_clock().now().to_msg()
        for name, at in objects.items():
            one = ObjectHypothesisWithPose()
            one.hypothesis.class_id, one.hypothesis.score = name, float(score)
            if seen_from == "camera_link":
                ahead, left = Pose.upright("map", self.x, self.y, yaw=self.yaw).seen_from_above(Pose("map", *at))
                at = (ahead - CAMERA[0], left - CAMERA[1], at[2] - CAMERA[2])
            place = one.pose.pose.position
            place.x, place.y, place.z = map(float, at)
            msg.detections.append(Detection3D(results=[one]))
        self._seen.publish(msg)

    def _stamped(self, to: Any, parent: str, child: str, x: float, y: float, z: float, yaw: float = 0.0) -> None:
        msg = TransformStamped()
        msg.header.frame_id, msg.child_frame_id = parent, child
        msg.header.stamp = self.get_clock().now().to_msg()
        where, turn = msg.transform.translation, msg.transform.rotation
        where.x, where.y, where.z = float(x), float(y), float(z)
        turn.z, turn.w = math.sin(yaw / 2), math.cos(yaw / 2)
        to.sendTransform(msg)

    # ------------------------------------------------------------------ the end

    def begin_stop(self) -> None:
        """Nothing to stop."""

    def stopped(self) -> bool:
        return True

    def destroy_node(self) -> None:
        for server in self.servers:
            server.destroy()
        super().destroy_node()


def behaviours(texts: Sequence[str]) -> dict[str, list[str]]:
    return {server: list.split(",") for server, _, list in (text.partition("=") for text in texts)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--speed", type=float, default=20.0)
    parser.add_argument("--behave", action="append", default=[])
    parser.add_argument("--without", default="")
    parser.add_argument("--arm-seconds", type=float, default=0.0)
    parser.add_argument("--state", type=Path)
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    only = {part: part not in options.without.split(",") for part in ("nav", "arm", "button")}
    state = None if options.state is None else StateFile(options.state)
    own = {"speed": options.speed, "arm_seconds": options.arm_seconds, "state": state}
    run_node(lambda: Robot(behave=behaviours(options.behave), **own, **only))


if __name__ == "__main__":
    main()
