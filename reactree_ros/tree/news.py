"""What robots of a run tell one another while they are at work: where they have looked, and what they saw there."""

from __future__ import annotations

from collections.abc import Callable

from reactree_ros.agent.observation import Observation

#: The state of what nobody can look into.
_CLOSED = "CLOSED"


class News:
    """What the robots of a run have observed, in order, of which each agent node is told what others observed since."""

    def __init__(self, name_of: Callable[[str, int], str]) -> None:
        self._name_of = name_of
        self._observed: list[tuple[str, Observation]] = []

    @property
    def count(self) -> int:
        """How many observations there were."""
        return len(self._observed)

    def add(self, robot: str, observation: Observation) -> None:
        """Take an observation of a robot in."""
        self._observed.append((robot, observation))

    def since(self, count: int, robot: str, is_wanted: Callable[[str], bool]) -> str:
        """Say what robots but one have observed since there were so many observations, each sentence after a space."""
        told = dict[str, None]()
        for other, observation in self._observed[count:]:
            if other != robot:
                told |= dict.fromkeys(self._sentences(other, observation, is_wanted))
        return "".join(told)

    def _sentences(self, robot: str, observation: Observation, is_wanted: Callable[[str], bool]) -> list[str]:
        sentences = []
        for seen in observation.seen:
            name = self._name_of(seen.word, seen.instance)
            if name == seen.place and _CLOSED not in seen.states:
                sentences.append(f" {robot} has looked at {name}.")
            elif is_wanted(seen.word) and seen.place and seen.room:
                sentences.append(f" {robot} saw {name} near {seen.place} in {seen.room}.")
        return sentences
