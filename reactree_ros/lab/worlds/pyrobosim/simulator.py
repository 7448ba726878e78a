"""The process that has a world of pyrobosim, behind bounds, for all robots in that world."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from reactree_ros.lab.worlds.pyrobosim.scene import Description
from reactree_ros.lab.worlds.pyrobosim.tasks import Source
from reactree_ros.world.line_process import LineProcess, Spare
from reactree_ros.world.port import WorldError

#: How long one question to the process waits for a motion to end, in seconds.
GLANCE = 0.005


class Simulator(LineProcess):
    """One process for one world at a time.

    Raises:
        WorldError: It cannot be started.
    """

    name = "the process of pyrobosim"
    module = "reactree_ros.lab.worlds.pyrobosim.player"
    answer_limit = 60.0


#: The one that no world has.
SPARE = Spare(Simulator)


@dataclass(frozen=True)
class Body:
    """How a robot is.

    Attributes:
        pose: Where it is: x and y in metres, yaw in radians.
        at: Name of what it stands at; empty: at nothing.
        room: Name of the room it is in; empty between rooms.
        held: Name of what it holds; empty: nothing.
        battery: Its charge, from 0 to 100.
        detected: What it detected last, with the place of each.
        open: Which doors it sees are open, by the names of places and hallways.
    """

    pose: tuple[float, float, float]
    at: str
    room: str
    held: str
    battery: float
    detected: tuple[tuple[str, str], ...]
    open: dict[str, bool]

    @classmethod
    def read(cls, state: dict[str, Any]) -> Body:
        """Read what the process tells."""
        x, y, yaw = state.pop("pose")
        detected = tuple((thing, place) for thing, place in state.pop("detected"))
        return cls(pose=(x, y, yaw), detected=detected, **state)


@dataclass(frozen=True)
class UnderWay:
    """How far a motion is that goes on.

    Attributes:
        at: Name of the place or passage that the robot is at or in; empty: none.
        before: Name of the passage that it stands before until it is let in; empty: none.
    """

    at: str
    before: str


@dataclass(frozen=True)
class Ended:
    """How a motion has ended.

    Attributes:
        status: Name of pyrobosim's status, or ``BROKEN`` where it raised an error.
        message: What it says.
        body: How the robot is now.
    """

    status: str
    message: str
    body: Body


class House:
    """A world of pyrobosim that one or several robots of ours are in; from any thread.

    Args:
        source: Where it is written down.
        realtime_factor: How many seconds pass in it for each of ours; negative: as fast as can be.
        failures: Share of what the robots do that fails; 0: as its file says.
    """

    def __init__(self, source: Source, *, realtime_factor: float = -1.0, failures: float = 0.0) -> None:
        self._source, self._factor, self._failures = source, realtime_factor, failures
        self._lock = threading.Lock()
        self._simulator: Simulator | None = None
        self._description: Description | None = None
        self._left = False
        self.beginnings = 0  # how often it was brought to its start

    def begin(self, seed: int) -> None:
        """Bring it to its start.

        Raises:
            WorldError: The process does not start, or pyrobosim cannot build the world.
        """
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
        """Return what is in it; brings it to its start where nobody has.

        Raises:
            WorldError: It is gone.
        """
        with self._lock:
            return self._description or self._load(seed)

    def start(self, robot: str, kind: str, target: str = "", *, asks: bool = False) -> None:
        """Let a robot do something, as pyrobosim calls it.

        Args:
            robot: Its name.
            kind: What it does.
            target: With what, or where.
            asks: Whether it stops before each passage until it is let in.

        Raises:
            WorldError: The process is gone.
        """
        self._ask("begin", robot, kind, target, self._factor, asks)

    def progress(self, robot: str) -> Ended | UnderWay:
        """Tell how what a robot does has ended; how far it is where it has not, after a little waiting.

        Raises:
            WorldError: The process is gone.
        """
        told = self._ask("wait", robot, GLANCE)
        if not told["ended"]:
            return UnderWay(told["at"], told["before"])
        return Ended(told["status"], told["message"], Body.read(told["state"]))

    def let_in(self, robot: str, passage: str) -> None:
        """Let a robot into the passage that it stands before.

        Raises:
            WorldError: The process is gone.
        """
        self._ask("let_in", robot, passage)

    def cancel(self, robot: str) -> None:
        """Let what a robot does end; to be said until it has.

        Raises:
            WorldError: The process is gone.
        """
        self._ask("cancel", robot)

    def body(self, robot: str) -> Body:
        """Tell how a robot is.

        Raises:
            WorldError: The process is gone.
        """
        return Body.read(self._ask("state", robot))

    def truth(self) -> dict[str, str]:
        """Tell the place of each thing; empty where it is held.

        Raises:
            WorldError: The process is gone.
        """
        return self._ask("truth")

    def stop(self, why: str) -> WorldError:
        """Let nothing move any more, because of an emergency; returns the error that says so."""
        with self._lock:
            if self._simulator is None:
                return WorldError(why)
            if not self._simulator.lost:
                self._simulator.lost = why
                self._simulator.kill()
            return WorldError(self._simulator.lost)

    def check(self) -> None:
        """Look whether it is there.

        Raises:
            WorldError: It is gone.
        """
        if self._simulator is not None and self._simulator.lost:
            raise WorldError(self._simulator.lost)

    def leave(self) -> None:
        """Give the process back, so that the next episode begins with it."""
        with self._lock:
            if self._simulator is not None:
                SPARE.give_back(self._simulator)
            self._simulator, self._left = None, True

    def kill(self) -> None:
        """Let the process end, whatever it is at."""
        if (simulator := self._simulator) is not None:
            simulator.stop()

    def _ask(self, *request: object) -> dict[str, Any]:
        with self._lock:
            if self._simulator is None:
                raise WorldError("the world of pyrobosim was closed" if self._left else "it has not begun yet")
            return self._simulator.ask(*request)
