"""Working memory: what one run has seen where, shared by all of its agent nodes (paper, section 4.2)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from reactree_ros.agent.observation import PERHAPS, Seen


@dataclass(frozen=True)
class Sighting:
    """The latest sighting of one object.

    Attributes:
        word: The object's class in words, e.g. ``juice``.
        name: What it is called, e.g. ``juice 1``.
        room: The room it was in, e.g. ``kitchen 1``; None if the world has no rooms.
        place: The receptacle it was at, e.g. ``fridge 2``; None if it was seen from the middle of a room.
        ago: How long before this run it was seen, in words, by a map that is kept; empty: it was seen in this run.
    """

    word: str
    instance: int
    name: str
    room: str | None
    place: str | None
    held: bool
    robot: str  # which robot saw it; empty if there is only one
    ago: str = ""

    def sentence(self, robot: str = "") -> str:
        """Return the recorded wording: ``You saw juice 1 near fridge 2 in kitchen 1.``, for example."""
        if self.held and self.robot != robot:
            return f"{self.robot} is holding {self.name}."
        if self.held:
            return f"You are holding {self.name}."
        near = f" near {self.place}" if self.place is not None else ""
        inside = f" in {self.room}" if self.room is not None else ""
        before = f" That was {self.ago}, before this task." if self.ago else ""
        return f"You saw {self.name}{near}{inside}.{before}"


class WorkingMemory:
    """Where each object was last seen.

    The last sighting of an instance counts: room and place are those of the latest one, and its place in a recall
    answer is that of the first one. For one run and one thread.
    """

    def __init__(self) -> None:
        self._sightings: dict[str, dict[int, Sighting]] = {}  # dicts keep the order of first sighting
        self._likely: dict[str, dict[str, None]] = {}  # where to look for a word, as a map that is kept says

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
    ) -> None:
        """Notes that an object was seen, see :class:`Sighting`; without a name it is called by its word and number.

        Raises:
            ValueError: An empty word, room or place.
        """
        for what, text in (("word", word), ("room", room), ("place", place)):
            if text is not None and not text.strip():
                raise ValueError(f"{what} is empty: {text!r}")
        self._sightings.setdefault(word, {})[instance] = Sighting(
            word=word,
            instance=instance,
            name=name or f"{word} {instance}",
            room=room,
            place=place,
            held=held,
            robot=robot,
        )

    def remember(self, seen: Seen, *, name: str) -> None:
        """Notes where a thing was before this run, or is found at times; what was seen in this run counts more."""
        where = seen.place or seen.room
        if where is None:
            return
        self._likely.setdefault(seen.word, {}).setdefault(where)
        if PERHAPS not in seen.states:
            sighting = Sighting(seen.word, seen.instance, name, seen.room, seen.place, False, "", seen.states[-1])
            self._sightings.setdefault(seen.word, {}).setdefault(seen.instance, sighting)

    def missed(self, place: str, seen: Collection[str]) -> None:
        """Notes that a place was looked at where only these things are, so that the others are not there any more.

        What was seen in this run stays as it was told.
        """
        for known in self._sightings.values():
            gone = [number for number, one in known.items() if one.ago and one.place == place and one.name not in seen]
            for number in gone:
                del known[number]

    def likely(self, word: str) -> tuple[str, ...]:
        """The places and rooms where things of a class are found, as a map that is kept says, the likeliest first."""
        return tuple(self._likely.get(word, ()))

    def forget(self, word: str, instance: int) -> None:
        """Forgets an object that is not there any more; nothing happens where it was not known."""
        self._sightings.get(word, {}).pop(instance, None)

    def recall(self, word: str, robot: str = "") -> str:
        """Answers ``recall location of <word>`` in the recorded wording, instances in the order of first sighting."""
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
