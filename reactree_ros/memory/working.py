"""What one run knows, shared by all of its agent nodes: where things were seen, which places were searched.

Working memory is the paper's (section 4.2).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import GONE, PERHAPS, Observation, Outcome, Seen
from reactree_ros.agent.turns import Place, Searched, ToldSearched, told_searched

#: The verbs of skills by which a place is searched.
GO_TO, OPEN = "go to", "open"
#: States of what has an inside.
_DOOR = {"OPEN", "CLOSED"}


@dataclass(frozen=True)
class Sighting:
    word: str  # the object's class in words, e.g. ``juice``
    instance: int
    name: str  # what it is called, e.g. ``juice 1``
    room: str | None  # the room it was in, e.g. ``kitchen 1``; None if the world has no rooms
    place: str | None  # the receptacle it was at, e.g. ``fridge 2``; None if it was seen from the middle of a room
    held: bool = False
    robot: str = ""  # which robot saw it; empty if there is only one
    ago: str = ""  # how long before this run, in words, by a map that is kept; empty: it was seen in this run

    def sentence(self, robot: str = "") -> str:
        """Return the recorded wording: ``You saw juice 1 near fridge 2 in kitchen 1.``, for example."""
        if self.held:
            holder = "You are" if self.robot == robot else f"{self.robot} is"
            return f"{holder} holding {self.name}."
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
        sighting = Sighting(word, instance, name or f"{word} {instance}", room, place, held, robot)
        self._sightings.setdefault(word, {})[instance] = sighting

    def remember(self, seen: Seen, *, name: str) -> None:
        """Note where a thing was before this run, or is found at times; what was seen in this run counts more."""
        where = seen.place or seen.room
        if where is None:
            return
        self._likely.setdefault(seen.word, {}).setdefault(where)
        if PERHAPS not in seen.states:
            sighting = Sighting(seen.word, seen.instance, name, seen.room, seen.place, ago=seen.states[-1])
            self._sightings.setdefault(seen.word, {}).setdefault(seen.instance, sighting)

    def missed(self, place: str, seen: Collection[str]) -> None:
        """Note that a place was looked at where only these things are, so that the others are not there any more."""
        for known in self._sightings.values():
            gone = [number for number, one in known.items() if one.ago and one.place == place and one.name not in seen]
            for number in gone:
                del known[number]

    def likely(self, word: str) -> tuple[str, ...]:
        return tuple(self._likely.get(word, ()))

    def forget(self, word: str, instance: int) -> None:
        self._sightings.get(word, {}).pop(instance, None)

    def recall(self, word: str, robot: str = "") -> str:
        """Answer ``recall location of <word>`` in the recorded wording, instances in the order of first sighting."""
        known = self._sightings.get(word)
        if not known:
            return f"You have not seen {word} before."
        return " ".join(sighting.sentence(robot) for sighting in known.values())

    def sightings(self, word: str) -> tuple[Sighting, ...]:
        return tuple(self._sightings.get(word, {}).values())

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self._sightings)


class SearchMemory:
    """Which places were searched, and which are known that were not, shared by all agent nodes of a run.

    A place is searched when an observation shows its inside, when a robot arrives at it and it is not closed, and when
    it is opened, also if nothing is to be seen then. What has an inside is known by its state, open or closed; a
    thing that can be carried is no place. For one run and one thread.
    """

    def __init__(self, household: Household, carried: Collection[str]) -> None:
        self._household, self._carried = household, frozenset(carried)
        self._insides: dict[str, Place] = {}  # by name, in the order of first sighting
        self._searched: dict[str, Searched] = {}  # by name, the latest last

    def see(self, observation: Observation) -> None:
        for seen in observation.seen:
            place = self._place(seen)
            if GONE in seen.states:
                self._insides.pop(place.name, None)
            elif not seen.held and seen.word not in self._carried and _DOOR & set(seen.states):
                self._insides.setdefault(place.name, place)

    def did(self, skill: str, observation: Observation, *, robot: str = "", step: int) -> ToldSearched | None:
        """Note what came of a skill; return what is to be told then, None if it was no search."""
        verb, name = self._household.split_skill(skill)
        if verb == GO_TO and any(seen.room == name for seen in observation.seen):
            return self.of_room(name, robot=robot)
        place = self._searched_place(verb, name, observation)
        if place is None:
            return None
        before = self._searched.pop(place.name, None)
        self._searched[place.name] = Searched(place, robot, step)
        # Who arrives where a door is open and opens it once more has searched once.
        again = None if before is not None and verb == OPEN and before.step == step - 1 else before
        return self._told(place.room, robot=robot, again=again, step=step)

    def _searched_place(self, verb: str, name: str, observation: Observation) -> Place | None:
        # of which the observation shows what is there
        known = {place.name: place for place in map(self._place, observation.seen)} | self._insides
        into, room = observation.looked_into, next((seen.room for seen in observation.seen), None)
        if into is not None:
            return known.get(into, Place(into, room))
        if observation.outcome is not Outcome.DONE or verb not in (GO_TO, OPEN):
            return None
        place = known.get(name, Place(name, room))
        if place.word in self._carried or verb == OPEN:
            return self._insides.get(name)
        closed = any("CLOSED" in seen.states for seen in observation.seen if self._place(seen).name == name)
        there = any(seen.place == name for seen in observation.seen if not seen.held)
        return place if there and not closed else None

    def of_room(self, room: str | None, *, robot: str = "") -> ToldSearched | None:
        return self._told(room, robot=robot) if self._in(room) else None

    def of_all(self, *, robot: str = "") -> ToldSearched | None:
        searched = tuple(self._searched.values())
        return told_searched(searched, self._unsearched(), robot=robot) if searched else None

    def _told(self, room: str | None, *, robot: str, again: Searched | None = None, step: int = 0) -> ToldSearched:
        left = [place for place in self._unsearched() if place.room == room]
        return told_searched(self._in(room), left, robot=robot, again=again, step=step)

    def _in(self, room: str | None) -> list[Searched]:
        return [one for one in self._searched.values() if one.place.room == room]

    def _unsearched(self) -> list[Place]:
        return [place for name, place in self._insides.items() if name not in self._searched]

    def _place(self, seen: Seen) -> Place:
        return Place(self._household.name_of(seen.word, seen.instance), seen.room, seen.word, seen.instance)
