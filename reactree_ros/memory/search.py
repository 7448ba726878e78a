"""Search memory: what one run has searched, in which order and when, and what it has not looked into yet."""

from __future__ import annotations

from collections.abc import Collection

from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import GONE, Observation, Outcome, Seen
from reactree_ros.agent.turns import Place, Searched, ToldSearched, told_searched

#: The verbs of skills by which a place is searched.
GO_TO, OPEN = "go to", "open"
#: States of what has an inside.
_DOOR = {"OPEN", "CLOSED"}


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
        """Take in which places with an inside an observation shows."""
        for seen in observation.seen:
            place = self._place(seen)
            if GONE in seen.states:
                self._insides.pop(place.name, None)
            elif not seen.held and seen.word not in self._carried and _DOOR & set(seen.states):
                self._insides.setdefault(place.name, place)

    def did(self, skill: str, observation: Observation, *, robot: str = "", step: int) -> ToldSearched | None:
        """Take in what came of a skill; returns what is to be told then, None if it was no search."""
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
        """Return the place of which an observation shows what is there; None if it shows none."""
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
        """Say what was searched in a room and what was not; None if nothing was searched there."""
        return self._told(room, robot=robot) if self._in(room) else None

    def of_all(self, *, robot: str = "") -> ToldSearched | None:
        """Say what was searched and what was not, wherever it is; None if nothing was searched."""
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
