"""Robots that fail, around worlds of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from reactree_ros.background.pending import Pending
from reactree_ros.world.port import Observation, RobotGone, SharedWorld, World, team_of
from reactree_ros.world.wrappers import WorldWrapper

T = TypeVar("T")


class Failing(WorldWrapper):
    """A robot that is gone after it was asked so many things.

    Args:
        inner: The robot.
        asked: How many; None: it stays.
        reason: Why it is gone.
    """

    def __init__(self, inner: World, asked: int | None, reason: str = "its battery is empty") -> None:
        super().__init__(inner)
        self._left, self._reason = asked, reason

    def _ask(self, ask: Callable[[], Pending[T]]) -> Pending[T]:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                return Pending.failed(RobotGone(self._reason))
        return ask()

    def observe(self) -> Pending[Observation]:
        return self._ask(self.inner.observe)

    def available_skills(self) -> Pending[Sequence[str]]:
        return self._ask(self.inner.available_skills)

    def execute(self, skill: str) -> Pending[Observation]:
        return self._ask(lambda: self.inner.execute(skill))


class FailingTeam(WorldWrapper):
    """A world whose robots fail.

    Args:
        inner: The world.
        asked: After how many questions each is gone; None: it stays.
    """

    def __init__(self, inner: World, asked: Sequence[int | None]) -> None:
        super().__init__(inner)
        self._asked = asked

    def team(self) -> Mapping[str, SharedWorld]:
        robots = team_of(self.inner).items()
        return {name: Failing(robot, asked) for (name, robot), asked in zip(robots, self._asked, strict=True)}
