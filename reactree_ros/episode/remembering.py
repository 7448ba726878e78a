"""A world whose house is remembered from run to run: what it shows goes to a kept map, and what that knows is told."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending, mapped, settle_as, where_late
from reactree_ros.memory.house_map import HouseMap
from reactree_ros.world.port import Observation, SharedWorld, World, team_of
from reactree_ros.world.wrappers import WorldWrapper

_log = logging.getLogger(__name__)
#: Longest wait for what the map knows, in seconds.
PATIENCE = 2.0


class Remembering(WorldWrapper):
    """Feeds a kept map with every observation, and tells of it where somebody looks around.

    A map that cannot be read or written, or takes longer than :data:`PATIENCE`, is said once in the log; the world goes
    on without it.
    """

    def __init__(self, inner: World, house_map: HouseMap, *, robot: str = "", feeds: bool = True) -> None:
        super().__init__(inner)
        self._map, self._robot, self._feeds = house_map, robot, feeds
        self._goal, self._failed = "", False

    def team(self) -> Mapping[str, SharedWorld]:
        return {
            name: Remembering(world, self._map, robot=name, feeds=self._feeds)
            for name, world in team_of(self.inner).items()
        }

    def attend(self, goal: str) -> None:
        self._goal = goal
        super().attend(goal)

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self._with_remembered(self.inner.reset(seed))

    def observe(self) -> Pending[Observation]:
        return self._with_remembered(self.inner.observe())

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        return mapped(self.inner.correct(correction), self._taken)

    def execute(self, skill: str) -> Pending[Observation]:
        return mapped(self.inner.execute(skill), self._taken)

    def _taken(self, observation: Observation) -> Observation:
        self._asks(lambda: self._take(observation))
        return observation

    def _with_remembered(self, seen: Pending[Observation]) -> Pending[Observation]:
        told: Pending[Observation] = Pending(on_cancel=seen.cancel)

        def look_up(observation: Observation) -> None:
            goal = self._goal

            def work() -> Observation:
                self._take(observation)
                return replace(observation, remembered=self._map.remembered(goal))

            def without(late: Pending[Observation]) -> None:
                self._warn(TimeoutError(f"{self._map.path} did not answer within {PATIENCE:g} s"))
                late.succeed(observation)

            self._asks(work).add_done_callback(
                lambda done: told.succeed(observation if done.cancelled() or done.exception() else done.result())
            )
            where_late(told, PATIENCE, without)

        seen.add_done_callback(
            lambda done: (
                settle_as(done, told) if done.cancelled() or done.exception() is not None else look_up(done.result())
            )
        )
        return told

    def _take(self, observation: Observation) -> None:
        if self._feeds:
            self._map.take(observation, self.household.name_of, robot=self._robot)

    def _asks(self, work: Callable[[], object]) -> Pending[Observation]:
        pending: Pending[Observation] = self._map.do(work)  # type: ignore[arg-type]
        pending.add_done_callback(lambda done: None if done.cancelled() else self._warn(done.exception()))
        return pending

    def _warn(self, error: BaseException | None) -> None:
        if error is not None and not self._failed:
            self._failed = True
            _log.warning("what is seen is not kept: %s", error)
