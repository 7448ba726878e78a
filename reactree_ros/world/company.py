"""Robots of one house of which each is a world of its own, which knows nothing of the others: they are told of here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from reactree_ros.background.pending import Pending, mapped
from reactree_ros.world.port import Observation, World
from reactree_ros.world.team import SharedWorld
from reactree_ros.world.wrappers import WorldWrapper


@dataclass
class _Whereabouts:
    """Where a robot was when it observed something last, and what it held then; nowhere before."""

    room: str = ""
    holds: tuple[str, ...] = ()


def accompanied(robots: Mapping[str, World]) -> dict[str, SharedWorld]:
    """Return robots that are told of one another: who looks around, or comes into a room, of those that are there.

    A robot is taken to be where it observed something last; one that drives has not arrived before it says so.

    Args:
        robots: Their worlds by name; what these observe tells in which room it was.
    """
    whereabouts = {name: _Whereabouts() for name in robots}
    return {name: _Accompanied(world, name, whereabouts) for name, world in robots.items()}


def is_here(robot: str, holds: tuple[str, ...]) -> str:
    """Say that another robot is in the room, and with what; after a space.

    Args:
        robot: Its name.
        holds: Names of what it holds.
    """
    return f" {robot} is here, too{''.join(f', with {name}' for name in holds)}."


class _Accompanied(WorldWrapper):
    """A robot that is told of the others.

    Args:
        inner: Its world.
        name: Its name.
        whereabouts: Where all of them are.
    """

    def __init__(self, inner: World, name: str, whereabouts: Mapping[str, _Whereabouts]) -> None:
        super().__init__(inner)
        self._name, self._whereabouts = name, whereabouts

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        """See :meth:`World.reset`."""
        return mapped(self.inner.reset(seed), self._told(looked=True))

    def observe(self) -> Pending[Observation]:
        """See :meth:`World.observe`."""
        return mapped(self.inner.observe(), self._told(looked=True))

    def execute(self, skill: str) -> Pending[Observation]:
        """See :meth:`World.execute`."""
        return mapped(self.inner.execute(skill), self._told(looked=False))

    def _told(self, *, looked: bool) -> Callable[[Observation], Observation]:
        def tell(observation: Observation) -> Observation:
            own, before = self._whereabouts[self._name], self._whereabouts[self._name].room
            own.room = next((seen.room for seen in observation.seen if seen.room), before)
            own.holds = tuple(
                self.household.name_of(seen.word, seen.instance) for seen in observation.seen if seen.held
            )
            if not own.room or not (looked or own.room != before):
                return observation
            others = [(name, one) for name, one in self._whereabouts.items() if one is not own]
            there = "".join(is_here(name, one.holds) for name, one in others if one.room == own.room)
            return replace(observation, text=observation.text + there) if there else observation

        return tell
