"""Search memory: what one run has searched, in which order and when, and what it has not looked into yet."""

from __future__ import annotations

from collections.abc import Collection

from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import GONE, Observation, Outcome, Seen
from reactree_ros.agent.told import Searched, ToldSearched, told_searched

#: The verbs of skills by which a place is searched.
GO_TO, OPEN = "go to", "open"
#: States of what has an inside.
_DOOR = {"OPEN", "CLOSED"}


class SearchMemory:
    """Which places were searched, and which are known that were not, shared by all agent nodes of a run.

    A place is searched when an observation shows its inside, when a robot arrives at it and it is not closed, and when
    it is opened, also where nothing is to be seen then. What has an inside is known by its state, open or closed; a
    thing that can be carried is none. For one run and one thread.

    Args:
        household: Of the world, for names and verbs.
        carried: Words of things that can be carried, as far as the world knows them.
    """

    def __init__(self, household: Household, carried: Collection[str]) -> None:
        self._household, self._carried = household, frozenset(carried)
        self._insides: dict[str, str | None] = {}  # the room of each, in the order of first sighting
        self._searched: dict[str, Searched] = {}  # the latest last

    def see(self, observation: Observation) -> None:
        """Take in which places with an inside an observation shows."""
        for seen in observation.seen:
            if GONE in seen.states:
                self._insides.pop(self._name(seen), None)
            elif not seen.held and seen.word not in self._carried and _DOOR & set(seen.states):
                self._insides.setdefault(self._name(seen), seen.room)

    def did(self, skill: str, observation: Observation, *, robot: str = "", step: int) -> ToldSearched | None:
        """Take in what came of a skill; returns what is to be told then, None where it was no search.

        Args:
            skill: What was done.
            observation: What came of it.
            robot: Who did it; empty where there is only one.
            step: Which of the run's steps it was, from 1.
        """
        verb, name = self._household.split_skill(skill)
        rooms = {seen.room for seen in observation.seen}
        if verb == GO_TO and name in rooms:
            return self.of_room(name, robot=robot)
        place = observation.looked_into or (name if self._shows(verb, name, observation) else "")
        if not place:
            return None
        room = next((seen.room for seen in observation.seen), self._insides.get(place))
        before = self._searched.pop(place, None)
        self._searched[place] = Searched(place, room, robot, step)
        # Who goes there and opens the door has searched it once.
        again = None if before is None or (verb == OPEN and before.step == step - 1) else before
        return self._told(room, robot=robot, again=again, step=step)

    def _shows(self, verb: str, name: str, observation: Observation) -> bool:
        """Whether an observation shows what is at a place that a robot went to or opened."""
        if observation.outcome is not Outcome.DONE or verb not in (GO_TO, OPEN):
            return False
        itself = next((seen for seen in observation.seen if self._name(seen) == name), None)
        if itself is not None and itself.word in self._carried:
            return False
        if verb == OPEN:
            return name in self._insides
        closed = itself is not None and "CLOSED" in itself.states
        return not closed and any(seen.place == name for seen in observation.seen if not seen.held)

    def of_room(self, room: str | None, *, robot: str = "") -> ToldSearched | None:
        """Say what was searched in a room and what was not; None where nothing was searched there."""
        return self._told(room, robot=robot) if any(one.room == room for one in self._searched.values()) else None

    def of_all(self, *, robot: str = "") -> ToldSearched | None:
        """Say what was searched and what was not, wherever it is; None where nothing was searched."""
        if not self._searched:
            return None
        return told_searched(tuple(self._searched.values()), self._unsearched(), robot=robot)

    def _told(self, room: str | None, *, robot: str, again: Searched | None = None, step: int = 0) -> ToldSearched:
        searched = [one for one in self._searched.values() if one.room == room]
        left = [one for one in self._unsearched() if one[1] == room]
        return told_searched(searched, left, robot=robot, again=again, step=step)

    def _unsearched(self) -> list[tuple[str, str | None]]:
        return [(place, room) for place, room in self._insides.items() if place not in self._searched]

    def _name(self, seen: Seen) -> str:
        return self._household.name_of(seen.word, seen.instance)
