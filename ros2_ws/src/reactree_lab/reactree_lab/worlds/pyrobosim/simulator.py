"""The process with a world of pyrobosim, with time limits, for all robots in that world."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from reactree_lab.worlds.pyrobosim.scene import Description
from reactree_lab.worlds.pyrobosim.tasks import Source
from reactree_lab.worlds.running import LineProcess, Spare
from reactree_ros.world.port import WorldError

#: How long one request to the process waits for a motion to end, in seconds.
GLANCE = 0.005


class Simulator(LineProcess):
    name = "the process of pyrobosim"
    module = "reactree_lab.worlds.pyrobosim.player"
    answer_limit = 60.0


#: The process that no world uses.
SPARE = Spare(Simulator)


@dataclass(frozen=True)
class Body:
    pose: tuple[float, float, float]  # its pose: x and y in metres, yaw in radians
    at: str  # name of its place; empty for none
    room: str  # name of its room; empty between rooms
    held: str  # name of the held thing; empty for none
    battery: float  # its charge, from 0 to 100
    detected: tuple[tuple[str, str], ...]  # the last detected things, with the place of each
    open: dict[str, bool]  # whether visible doors are open, by the names of places and hallways

    @classmethod
    def read(cls, state: dict[str, Any]) -> Body:
        x, y, yaw = state.pop("pose")
        detected = tuple((thing, place) for thing, place in state.pop("detected"))
        return cls(pose=(x, y, yaw), detected=detected, **state)


@dataclass(frozen=True)
class UnderWay:
    at: str  # name of the robot's place or passage; empty for none
    before: str  # name of the passage that it waits to enter; empty for none


@dataclass(frozen=True)
class Ended:
    status: str  # name of pyrobosim's status, or ``BROKEN`` if it raised an error
    message: str
    body: Body  # the robot's state now


class House:
    """A world of pyrobosim with one or several of our robots. Thread-safe."""

    def __init__(self, source: Source, *, realtime_factor: float = -1.0, failures: float = 0.0) -> None:
        self._source, self._factor, self._failures = source, realtime_factor, failures
        self._lock = threading.Lock()
        self._simulator: Simulator | None = None
        self._description: Description | None = None
        self._left = False
        self.beginnings = 0  # number of starts so far

    def begin(self, seed: int) -> None:
        with self._lock:
            self._load(seed)

    def _load(self, seed: int) -> Description:
        if self._left:
            raise WorldError("the world of pyrobosim was closed")
        if self._simulator is None or not self._simulator.usable:
            self._simulator = SPARE.borrow()
        source = self._source
        told = self._simulator.ask(
            "load", source.file, dict(source.document), dict(source.metadata), seed, self._failures
        )
        self._description = Description.read(told)
        self.beginnings += 1
        return self._description

    def description(self, seed: int = 0) -> Description:
        with self._lock:
            return self._description or self._load(seed)

    def start(self, robot: str, kind: str, target: str = "", *, asks: bool = False) -> None:
        """Start a robot's action, by pyrobosim's name; with ``asks`` it stops before passages until let in."""
        self._ask("begin", robot, kind, target, self._factor, asks)

    def progress(self, robot: str) -> Ended | UnderWay:
        """Return the end of a robot's action or, after a short wait, its progress."""
        told = self._ask("wait", robot, GLANCE)
        if not told["ended"]:
            return UnderWay(told["at"], told["before"])
        return Ended(told["status"], told["message"], Body.read(told["state"]))

    def let_in(self, robot: str, passage: str) -> None:
        self._ask("let_in", robot, passage)

    def cancel(self, robot: str) -> None:
        self._ask("cancel", robot)

    def body(self, robot: str) -> Body:
        return Body.read(self._ask("state", robot))

    def truth(self) -> dict[str, str]:
        return self._ask("truth")

    def stop(self, why: str) -> WorldError:
        with self._lock:
            if self._simulator is None:
                return WorldError(why)
            if not self._simulator.lost:
                self._simulator.lost = why
                self._simulator.kill()
            return WorldError(self._simulator.lost)

    def check(self) -> None:
        if self._simulator is not None and self._simulator.lost:
            raise WorldError(self._simulator.lost)

    def leave(self) -> None:
        with self._lock:
            if self._simulator is not None:
                SPARE.give_back(self._simulator)
            self._simulator, self._left = None, True

    def kill(self) -> None:
        if (simulator := self._simulator) is not None:
            simulator.stop()

    def _ask(self, *request: object) -> dict[str, Any]:
        with self._lock:
            if self._simulator is None:
                raise WorldError("the world of pyrobosim was closed" if self._left else "it has not begun yet")
            return self._simulator.ask(*request)
