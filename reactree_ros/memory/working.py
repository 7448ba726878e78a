"""Working memory: what one run has seen where, shared by all of its agent nodes (paper, section 4.2)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Sighting:
    """The latest sighting of one object.

    Attributes:
        word: The object's class in words, e.g. ``juice``.
        instance: Its number within the class.
        name: What it is called, e.g. ``juice 1``.
        room: The room it was in, e.g. ``kitchen 1``; None where the world has no rooms.
        place: The receptacle it was at, e.g. ``fridge 2``; None if it was seen from the middle of a room.
        held: Whether the agent held it.
        robot: Which robot saw it; empty where there is only one.
        order: Running number of the sighting; sightings and looks into receptacles are counted together, from 0.
        time: When it was seen, in seconds of the caller's clock.
    """

    word: str
    instance: int
    name: str
    room: str | None
    place: str | None
    held: bool
    robot: str
    order: int
    time: float

    def sentence(self, robot: str = "") -> str:
        """Return the recorded wording: ``You saw juice 1 near fridge 2 in kitchen 1.``, for example.

        Args:
            robot: Who is told; what another robot holds is not held by it.
        """
        if self.held and self.robot != robot:
            return f"{self.robot} is holding {self.name}."
        if self.held:
            return f"You are holding {self.name}."
        near = f" near {self.place}" if self.place is not None else ""
        inside = f" in {self.room}" if self.room is not None else ""
        return f"You saw {self.name}{near}{inside}."


@dataclass(frozen=True)
class Look:
    """The latest look into a receptacle.

    Attributes:
        order: Running number, counted together with the sightings.
        time: When, in seconds of the caller's clock.
    """

    order: int
    time: float


class WorkingMemory:
    """Where each object was last seen, in which order and when, and which receptacles were looked into.

    The last sighting of an instance counts: room and place are those of the latest one, and its place in a recall
    answer is that of the first one. For one run and one thread.
    """

    def __init__(self) -> None:
        self._sightings: dict[str, dict[int, Sighting]] = {}  # dicts keep the order of first sighting
        self._visited: dict[str, Look] = {}
        self._order = itertools.count()

    def see(
        self,
        word: str,
        instance: int,
        *,
        name: str = "",
        room: str | None,
        place: str | None,
        held: bool = False,
        robot: str = "",
        time: float,
    ) -> None:
        """Notes that an object was seen.

        Args:
            word: The object's class in words, e.g. ``juice``.
            instance: Its number within the class, e.g. 1.
            name: What it is called; empty: word and number, e.g. ``juice 1``.
            room: The room, e.g. ``kitchen 1``, or None where the world has no rooms.
            place: The receptacle, e.g. ``fridge 2``, or None.
            held: Whether the agent holds it.
            robot: Which robot saw it; empty where there is only one.
            time: When, in seconds of the caller's clock.

        Raises:
            ValueError: an empty word or place, or a time that is not finite.
        """
        _check_text(word=word)
        if room is not None:
            _check_text(room=room)
        if place is not None:
            _check_text(place=place)
        _check_time(time)
        self._sightings.setdefault(word, {})[instance] = Sighting(
            word=word,
            instance=instance,
            name=name or f"{word} {instance}",
            room=room,
            place=place,
            held=held,
            robot=robot,
            order=next(self._order),
            time=time,
        )

    def forget(self, word: str, instance: int) -> None:
        """Forgets an object that is not there any more; nothing happens where it was not known."""
        self._sightings.get(word, {}).pop(instance, None)

    def looked_into(self, receptacle: str, *, time: float) -> None:
        """Notes that a receptacle was looked into, e.g. ``fridge 1``; `time` in seconds of the caller's clock.

        Raises:
            ValueError: an empty name, or a time that is not finite.
        """
        _check_text(receptacle=receptacle)
        _check_time(time)
        self._visited.pop(receptacle, None)  # the latest look comes last
        self._visited[receptacle] = Look(order=next(self._order), time=time)

    def recall(self, word: str, robot: str = "") -> str:
        """Answers ``recall location of <word>`` in the recorded wording, instances in the order of first sighting.

        Args:
            word: The class, in words.
            robot: Who asks; empty where there is only one.
        """
        known = self._sightings.get(word)
        if not known:
            return f"You have not seen {word} before."
        return " ".join(sighting.sentence(robot) for sighting in known.values())

    def sightings(self, word: str) -> tuple[Sighting, ...]:
        """The latest sighting of every known instance of a class, in the order of first sighting."""
        return tuple(self._sightings.get(word, {}).values())

    @property
    def words(self) -> tuple[str, ...]:
        """The classes of which anything was seen, in the order of first sighting."""
        return tuple(self._sightings)

    @property
    def visited(self) -> Mapping[str, Look]:
        """Receptacles that were looked into with their latest look, the latest last; a read-only live view."""
        return MappingProxyType(self._visited)

    def clear(self) -> None:
        """Forgets everything, as at the start of a run."""
        self._sightings.clear()
        self._visited.clear()
        self._order = itertools.count()


def _check_text(**named: str) -> None:
    for name, value in named.items():
        if not value.strip():
            raise ValueError(f"{name} is empty: {value!r}")


def _check_time(time: float) -> None:
    if not math.isfinite(time):
        raise ValueError(f"time must be a finite number of seconds, not {time}")
