"""pyrobosim in its own process, driven by requests: ``python -m reactree_lab.worlds.pyrobosim.player``.

Its categories are class attributes, its random numbers numpy's global ones, and its motion threads only end by
themselves. So each world has its own process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reactree_lab.worlds.pyrobosim.tasks import LOADER
from reactree_lab.worlds.running import serve
from reactree_ros.files.read_back import read_yaml

if TYPE_CHECKING:
    from pyrobosim.core.robot import Robot
    from pyrobosim.core.room import Room
    from pyrobosim.core.world import World
    from pyrobosim.planning.actions import ExecutionResult, TaskAction
    from pyrobosim.utils.pose import Pose

#: Robot actions, by pyrobosim's names.
ACTIONS = ("navigate", "pick", "place", "detect", "open", "close")
#: Status of a motion that pyrobosim itself ended with an error.
BROKEN = "BROKEN"
#: Time between two checks for a cancel while a robot waits before a passage, in seconds.
_LET_IN_PERIOD = 0.01


class _Clock:
    time = staticmethod(time.time)

    @staticmethod
    def sleep(seconds: float) -> None:
        if not getattr(threading.current_thread(), "hurries", False):
            time.sleep(seconds)


class _Motion(threading.Thread):
    """A robot's action, in a thread; it hurries if the factor is negative.

    Attributes:
        status: Its final status.
        message: pyrobosim's message.
        before: The passage that the robot waits to enter; empty for none.
    """

    def __init__(self, player: Player, robot: Robot, action: TaskAction, realtime_factor: float, asks: bool) -> None:
        super().__init__(daemon=True)
        self.hurries = realtime_factor < 0
        self.status, self.message, self.before = BROKEN, "", ""
        self._player, self._robot, self._action, self._factor = player, robot, action, realtime_factor
        self._asks, self._is_in = asks, threading.Event()

    def run(self) -> None:
        robot = self._robot
        if self._asks:  # each step of a drive sets the pose
            vars(robot)["set_pose"] = self._step
        try:
            result = self._player.perform(robot, self._action, self._factor)
            self.status, self.message = result.status.name, result.message or ""
        except Exception as error:  # any error of pyrobosim
            self.message = " ".join(f"{type(error).__name__}: {error}".split())
            robot.executing_action = robot.executing_nav = False
            if robot.path_executor is not None:
                robot.path_executor.reset_state()
        finally:
            vars(robot).pop("set_pose", None)

    def _step(self, pose: Pose) -> None:
        """Set the robot's pose; wait before a passage until let in. A cancelled robot stays where it is."""
        from pyrobosim.core.hallway import Hallway

        robot = self._robot
        at = None if robot.world is None else robot.world.get_location_from_pose(pose, prev_location=robot.location)
        if isinstance(at, Hallway) and at is not robot.location:
            self._is_in.clear()
            self.before = at.name
            while not self._is_in.wait(_LET_IN_PERIOD):
                if robot.path_executor is None or robot.path_executor.cancel_execution:
                    return
            self.before = ""
        type(robot).set_pose(robot, pose)

    def let_in(self, passage: str) -> None:
        if self.before == passage:
            self._is_in.set()

    def cancel(self) -> None:
        """Cancel it. Repeat until it ends, because pyrobosim forgets a cancel before the motion has begun."""
        if self._robot.path_executor is not None:
            self._robot.path_executor.cancel_execution = True


class Player:
    def __init__(self) -> None:
        self._world: World | None = None
        self._motions: dict[str, _Motion] = {}
        from pyrobosim.navigation import execution
        from pyrobosim.planning import actions

        logging.disable(logging.CRITICAL)  # its results contain everything, too
        execution.time = actions.time = _Clock()

    def load(
        self, file: str, document: Mapping[str, Any], metadata: Mapping[str, Any], seed: int, failures: float
    ) -> dict[str, Any]:
        """Start a world; return its fixed contents and its things.

        Args:
            file: Its file; empty takes the document.
            document: The content of such a file.
            metadata: Categories in addition to those of its files.
            seed: Seed of random events.
            failures: Share of failing actions; 0 keeps the file's.
        """
        import numpy

        self._let_go()
        numpy.random.seed(seed)
        said = read_yaml(Path(file), LOADER)[0] if file else document
        world = _build(dict(said), Path(file).parent if file else None, metadata)
        for index, robot in enumerate(world.robots):
            robot.partial_obs_objects = True
            if failures:
                _let_fail(robot, failures, seed + index)
        self._world = world
        return _description(world)

    def begin(self, robot: str, kind: str, target: str, realtime_factor: float, asks: bool) -> dict[str, Any]:
        """Start an action of a robot: navigate to a target, pick one, or place, detect, open or close at its place.

        If it asks, it stops before each passage until :meth:`let_in`.
        """
        from pyrobosim.planning.actions import TaskAction

        if robot in self._motions and self._motions[robot].is_alive():
            raise RuntimeError(f"{robot} is still at something else")
        # pyrobosim would split a name with a space in it.
        where = {"target_location": self._entity(target)} if kind == "navigate" else {"object": target or None}
        motion = _Motion(self, self._robot(robot), TaskAction(kind, robot=robot, **where), realtime_factor, asks)
        self._motions[robot] = motion
        motion.start()
        return {}

    def wait(self, robot: str, seconds: float) -> dict[str, Any]:
        motion = self._motions[robot]
        motion.join(seconds)
        if motion.is_alive():
            return {"ended": False, "at": _name_of(self._robot(robot).location), "before": motion.before}
        return {"ended": True, "status": motion.status, "message": motion.message, "state": self.state(robot)}

    def let_in(self, robot: str, passage: str) -> dict[str, Any]:
        self._motions[robot].let_in(passage)
        return {}

    def cancel(self, robot: str) -> dict[str, Any]:
        if robot in self._motions and self._motions[robot].is_alive():
            self._motions[robot].cancel()
        return {}

    def state(self, robot: str) -> dict[str, Any]:
        from pyrobosim.core.locations import ObjectSpawn

        one = self._robot(robot)
        pose, at = one.get_pose(), one.location
        room = _room_of(at)
        seen = [obj for obj in one.last_detected_objects if isinstance(obj.parent, ObjectSpawn)]
        return {
            "pose": [pose.x, pose.y, pose.get_yaw()],
            "at": _name_of(at),
            "room": "" if room is None else room.name,
            "held": "" if one.manipulated_object is None else one.manipulated_object.name,
            "battery": one.battery_level,
            "detected": [[obj.name, obj.parent.name] for obj in seen],
            "open": _doors(one),
        }

    def truth(self) -> dict[str, Any]:
        from pyrobosim.core.locations import ObjectSpawn

        world = self._loaded()
        return {obj.name: obj.parent.name if isinstance(obj.parent, ObjectSpawn) else "" for obj in world.objects}

    def perform(self, robot: Robot, action: TaskAction, realtime_factor: float) -> ExecutionResult:
        from pyrobosim.core.hallway import Hallway
        from pyrobosim.planning.actions import ExecutionResult, ExecutionStatus

        if action.type == "pick" and action.object is None:  # works around an error of pyrobosim
            return ExecutionResult(ExecutionStatus.INVALID_ACTION, "there is nothing named to be picked up")
        result = robot.execute_action(action, realtime_factor)
        if action.type in ("open", "close") and result.is_success() and isinstance(robot.location, Hallway):
            for one in self._loaded().robots:  # a road map keeps a passage's first state
                if one.path_planner is not None:
                    one.reset_path_planner()
        return result

    def _robot(self, name: str) -> Robot:
        robot = self._loaded().get_robot_by_name(name)
        if robot is None:
            raise RuntimeError(f"there is no robot {name}")
        return robot

    def _entity(self, name: str) -> object:
        entity = self._loaded().get_entity_by_name(name)
        if entity is None:
            raise RuntimeError(f"there is no {name}")
        return entity

    def _loaded(self) -> World:
        if self._world is None:
            raise RuntimeError("no world is loaded")
        return self._world

    def _let_go(self) -> None:
        """End all motion in the previous world, as far as possible."""
        for robot in [] if self._world is None else self._world.robots:
            robot.stop_sensor_threads()
            if robot.path_executor is not None:
                robot.path_executor.abort_execution = robot.path_executor.cancel_execution = True
        self._world, self._motions = None, {}


def _build(said: dict[str, Any], folder: Path | None, metadata: Mapping[str, Any]) -> World:
    from pyrobosim.core.locations import Location
    from pyrobosim.core.objects import Object
    from pyrobosim.core.world import World
    from pyrobosim.core.yaml_utils import WorldYamlLoader

    world = World(**said.get("params", {}))  # it forgets all categories
    Location.metadata.data.update(metadata.get("locations", {}))
    Object.metadata.data.update(metadata.get("objects", {}))
    return WorldYamlLoader().from_yaml(said, folder, world)


def _let_fail(robot: Robot, share: float, seed: int) -> None:
    from pyrobosim.planning.actions import ExecutionOptions

    for number, kind in enumerate(ACTIONS):
        before = robot.action_execution_options.get(kind, ExecutionOptions())
        robot.action_execution_options[kind] = ExecutionOptions(
            before.delay, 1 - share, len(ACTIONS) * seed + number, before.battery_usage
        )


def _doors(robot: Robot) -> dict[str, bool]:
    from pyrobosim.core.hallway import Hallway

    room, closed = _room_of(robot.location), robot.get_known_closed_hallways()
    here = [robot.location] if isinstance(robot.location, Hallway) else []
    passages = {hallway.name: hallway not in closed for hallway in (here if room is None else room.hallways)}
    locations = [] if room is None else room.locations
    return passages | {spawn.name: location.is_open for location in locations for spawn in location.children}


def _name_of(at: Any) -> str:
    from pyrobosim.core.hallway import Hallway
    from pyrobosim.core.locations import ObjectSpawn

    return at.name if isinstance(at, ObjectSpawn | Hallway) else ""


def _room_of(at: Any) -> Room | None:
    from pyrobosim.core.locations import Location, ObjectSpawn
    from pyrobosim.core.room import Room

    if isinstance(at, ObjectSpawn):
        at = at.parent
    if isinstance(at, Location):
        at = at.parent
    return at if isinstance(at, Room) else None


def _description(world: World) -> dict[str, Any]:
    return {
        "rooms": [
            {"name": room.name, "pose": [room.pose.x, room.pose.y], "outline": _outline(room)} for room in world.rooms
        ],
        "places": [
            {
                "name": spawn.name,
                "furniture": location.name,
                "category": location.category,
                "part": spawn.name.removeprefix(f"{location.name}_") if len(location.children) > 1 else "",
                "room": location.parent.name,
                "open": location.is_open,
                "locked": location.is_locked,
                "pose": [spawn.pose.x, spawn.pose.y],
                "outline": _outline(spawn),
            }
            for location in world.locations
            for spawn in location.children
        ],
        "hallways": [
            {
                "name": hallway.name,
                "rooms": [hallway.room_start.name, hallway.room_end.name],
                "open": hallway.is_open,
                "locked": hallway.is_locked,
            }
            for hallway in world.hallways
        ],
        "things": [{"name": thing.name, "category": thing.category} for thing in world.objects],
    }


def _outline(entity: Any) -> list[list[float]]:
    exterior = getattr(entity.polygon, "exterior", None)
    return [] if exterior is None else [[x, y] for x, y, *_ in list(exterior.coords)[:-1]]


if __name__ == "__main__":
    serve(Player)
