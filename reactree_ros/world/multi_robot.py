"""Several robots in one house, each behind a world of its own: here each learns which others are in its room."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from reactree_ros.background.pending import Pending, mapped
from reactree_ros.world.port import Observation, World
from reactree_ros.world.team import SharedWorld
from reactree_ros.world.wrappers import WorldWrapper


@dataclass
class _Position:
    room: str = ""
    holds: tuple[str, ...] = ()


def with_teammates(robots: Mapping[str, World]) -> dict[str, SharedWorld]:
    """Return robots that see one another: an observation names the others in the room.

    A robot counts as being where it observed something last; one that drives has not arrived before it says so.
    """
    positions = {name: _Position() for name in robots}
    return {name: _WithTeammates(world, name, positions) for name, world in robots.items()}


def teammate_here(robot: str, holds: tuple[str, ...]) -> str:
    """Say that another robot is in the room, and with what; after a space."""
    return f" {robot} is here, too{''.join(f', with {name}' for name in holds)}."


class _WithTeammates(WorldWrapper):
    def __init__(self, inner: World, name: str, positions: Mapping[str, _Position]) -> None:
        super().__init__(inner)
        self._name, self._positions = name, positions

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return mapped(self.inner.reset(seed), self._added(looked=True))

    def observe(self) -> Pending[Observation]:
        return mapped(self.inner.observe(), self._added(looked=True))

    def execute(self, skill: str) -> Pending[Observation]:
        return mapped(self.inner.execute(skill), self._added(looked=False))

    def _added(self, *, looked: bool) -> Callable[[Observation], Observation]:
        def add(observation: Observation) -> Observation:
            own, before = self._positions[self._name], self._positions[self._name].room
            own.room = next((seen.room for seen in observation.seen if seen.room), before)
            own.holds = tuple(
                self.household.name_of(seen.word, seen.instance) for seen in observation.seen if seen.held
            )
            if not own.room or not (looked or own.room != before):
                return observation
            others = [(name, one) for name, one in self._positions.items() if one is not own]
            there = "".join(teammate_here(name, one.holds) for name, one in others if one.room == own.room)
            return replace(observation, text=observation.text + there) if there else observation

        return add
