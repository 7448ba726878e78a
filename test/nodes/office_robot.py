"""The robot of config/robots/office.yaml in its office: servers and topics of real types, an elevator and a printer.

The arm does only what it can do from where the robot stands: it reaches what lies at the place before it, an elevator
takes the robot to the floor whose button is pressed in it, and no path leads from one floor to another. What the robot
has done is kept for the test.
"""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import Any

from diagnostic_msgs.msg import KeyValue
from geometry_msgs.msg import PoseStamped
from nav2_msgs.action import BackUp, DockRobot, DriveOnHeading, DummyBehavior, NavigateToPose
from robot_servers import LATCHED, Robot
from sensor_msgs.msg import BatteryState
from std_msgs.msg import Bool, Int32, String
from std_srvs.srv import Trigger

from reactree_ros.robot.map_file import load_map

OFFICE = Path(__file__).parents[2] / "config/robots/office.yaml"
#: How far the arm reaches from where the robot stands for a place, in metres.
REACH = 1.0
#: How long a battery and a pack of paper last, and how long a full charge takes, in seconds.
BATTERY_LASTS, PACK_LASTS, CHARGE_TAKES = 2700.0, 800.0, 600.0
NO_PATH, OUT_OF_REACH, NOT_THERE = 208, 7, 903


class OfficeRobot(Robot):
    """The robot; ``lies`` says at which place each thing is, or who has it, ``paper`` how many seconds that lasts."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(arm=False, button=False, **kwargs)
        document = load_map(OFFICE.parent / "office_map.yaml")
        self._floors = {room.name: room.floor for room in document.rooms}
        self._places = {one.name: one for one in document.receptacles}
        self._doors = [name for name in self._places if "DOOR" in document.properties_of(name)]
        self.lies = {one.name: one.at for one in document.expected}
        names = [*self._places, *self.lies, *(person.name for person in document.persons)]
        self._names = re.compile("|".join(sorted(map(re.escape, names), key=len, reverse=True)))
        self.blind, self.x, self.y = True, 1.0, 1.0
        self.holds, self.docked, self.dockings, self.level = "", False, 0, 0.9
        self.said, self.poured, self.wiped = list[str](), list[str](), dict[str, float]()
        self.paper, self.refills = 600.0, 0
        self.serve("arm", DummyBehavior, self._command)
        self.serve("dock_robot", DockRobot, self._to_dock)
        self.serve("drive_on_heading", DriveOnHeading, partial(self._heading, sign=1.0))
        self.serve("backup", BackUp, partial(self._heading, sign=-1.0))
        self.create_service(Trigger, "camera/take", self._picture)
        self.create_subscription(String, "speech", lambda msg: self.said.append(msg.data), 10)
        self._pose = self.create_publisher(PoseStamped, "/pose", 10)
        self._battery = self.create_publisher(BatteryState, "/battery", 10)
        self._door_state = self.create_publisher(KeyValue, "door_state", 10)
        self._latched = {
            topic: self.create_publisher(kind, topic, LATCHED)
            for topic, kind in (("gripper/holding", Bool), ("charging", Bool), ("/doors/office_204", Bool))
        }
        self._sheets = self.create_publisher(Int32, "/printer/sheets", LATCHED)
        self._published: dict[str, Any] = {}
        self._tell()

    # ------------------------------------------------------------------ what is where

    @property
    def floor(self) -> int:
        """The floor on which it is: each has its part of the map."""
        return 0 if self.y > 10 else 2

    def _reaches(self, place: str) -> bool:
        at = self._places[place].approach
        return math.hypot(at.x - self.x, at.y - self.y) <= REACH

    def pass_time(self, seconds: float) -> None:
        """Let the printer print and the battery empty or fill for a while."""
        self.paper = max(0.0, self.paper - seconds)
        by = seconds / CHARGE_TAKES if self.docked else -seconds / BATTERY_LASTS
        self.level = min(1.0, max(0.0, self.level + by))

    # ------------------------------------------------------------------ goals

    async def _navigate(self, handle: Any) -> NavigateToPose.Result:
        at = handle.request.pose.pose.position
        if (at.y > 10) != (self.y > 10):
            handle.abort()
            return NavigateToPose.Result(error_code=NO_PATH)
        self.docked = False
        return await super()._navigate(handle)

    async def _heading(self, handle: Any, *, sign: float) -> Any:
        ahead = sign * handle.request.target.x
        self.docked, self.x, self.y = (
            False,
            self.x + ahead * math.cos(self.yaw),
            self.y + ahead * math.sin(self.yaw),
        )
        handle.succeed()
        return (DriveOnHeading if sign > 0 else BackUp).Result()

    async def _to_dock(self, handle: Any) -> DockRobot.Result:
        dock, result = self._places["charging dock"].approach, DockRobot.Result(success=True)
        if self.floor != self._floors["corridor 1"]:
            handle.abort()
            return DockRobot.Result(success=False, error_code=NOT_THERE)
        self.goal = (dock.x, dock.y, dock.yaw)
        if await self._ended("dock_robot", handle, result, moving=True):
            self.docked, self.dockings = True, self.dockings + 1
        return result

    async def _command(self, handle: Any) -> DummyBehavior.Result:
        words = handle.request.command.data
        verb, _, rest = words.partition(" ")
        if not self._can(verb, self._names.findall(rest)):
            handle.abort()
            return DummyBehavior.Result(error_code=OUT_OF_REACH, error_msg="out of reach")
        result = DummyBehavior.Result()
        if await self._ended("arm", handle, result):
            self._do(verb, self._names.findall(rest), rest.rpartition(" ")[2])
            self._tell()
            self.say(f"arm: {words}")
        return result

    def _can(self, verb: str, names: list[str]) -> bool:
        """Whether the arm can do that from where the robot is."""
        if verb == "grip":
            return not self.holds and self._reaches(self.lies[names[0]])
        if verb == "press":
            return any(self._reaches(name) for name in self._places if name.endswith("elevator"))
        if verb in ("place", "pour", "hand") and names[0] != self.holds:
            return False
        return verb == "hand" or self._reaches(names[-1])

    def _do(self, verb: str, names: list[str], last: str) -> None:
        if verb == "grip":
            self.holds = names[0]
            del self.lies[self.holds]
        elif verb in ("place", "hand"):
            self.lies[self.holds], self.holds = names[1], ""
            if names[1] == "paper tray":
                self.paper, self.refills = self.paper + PACK_LASTS, self.refills + 1
        elif verb == "pour":
            self.poured.append(names[1])
        elif verb == "wipe":
            self.wiped[names[0]] = float(last)
        elif verb == "press":
            floors = {2: "corridor elevator", 0: "lobby elevator"}
            at = self._places[floors[int(last)]].approach
            self.x, self.y, self.docked = at.x, at.y, False

    def _picture(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        response.success, response.message = True, "pictures/1.png"
        return response

    # ------------------------------------------------------------------ what it says

    def _tick(self) -> None:
        super()._tick()
        msg = PoseStamped()
        msg.header.frame_id = "map"
        msg.pose.position.x, msg.pose.position.y = self.x, self.y
        msg.pose.orientation.z, msg.pose.orientation.w = math.sin(self.yaw / 2), math.cos(self.yaw / 2)
        self._pose.publish(msg)
        self._battery.publish(BatteryState(percentage=self.level))
        for name in self._doors:
            self._door_state.publish(KeyValue(key=name, value="open"))
        self._tell()

    def _tell(self) -> None:
        """Publish what has changed on the latched topics."""
        now = {"gripper/holding": bool(self.holds), "charging": self.docked, "/doors/office_204": True}
        for topic, value in now.items():
            if self._published.get(topic) != value:
                self._latched[topic].publish(Bool(data=value))
        if self._published.get("sheets") != (sheets := math.ceil(self.paper / 10)):
            self._sheets.publish(Int32(data=sheets))
        self._published = {**now, "sheets": sheets}
