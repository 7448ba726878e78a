"""Worlds around that of a run: one with eyes for who sees nothing, and one that is remembered from run to run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.picture import Glance, Picture, PictureCheck
from reactree_ros.agent.skill import SkillCall
from reactree_ros.background.pending import Pending, asked, followed, mapped, where_late
from reactree_ros.llm.eyes import Eyes, Sight
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.memory.house_map import HouseMap
from reactree_ros.plugins.settings import Settings
from reactree_ros.world.port import Observation, Outcome, SharedWorld, World, team_of
from reactree_ros.world.wrappers import WorldWrapper

#: The skill by which something is looked at: it is asked where that is, too.
LOOK_AT = "look at"


class WorldWithEyes(WorldWrapper):
    """Says what is on the pictures that skills bring, and looks whether skills have done what they report.

    A skill that the eyes see undone ends with :attr:`Outcome.POSTCONDITION`. If they fail, or cannot see it, the
    observation says so and the run goes on, unless the check is necessary. Cancelling a skill cancels what is asked.
    """

    def __init__(self, inner: World, eyes: Eyes, checks: Mapping[str, PictureCheck]) -> None:
        super().__init__(inner)
        self._eyes, self._checks = eyes, checks

    def around(self, world: World) -> SharedWorld:
        return WorldWithEyes(world, self._eyes, self._checks)

    def execute(self, skill: str) -> Pending[Observation]:
        return followed(asked(self.inner.execute, skill), lambda seen: self._looked(skill, seen))

    def close(self) -> None:
        super().close()
        self._eyes.close()

    def _looked(self, skill: str, seen: Observation) -> Pending[Observation]:
        name, values = self._skill_and_values(skill)
        if seen.outcome is not Outcome.DONE:
            return Pending.ready(seen)
        if (check := self._checks.get(name)) is not None:
            sight = self._eyes.check(check, values, partial(self.inner.pictures, check.camera))
            return mapped(sight, lambda sight: self._judged(seen, skill, sight))
        asks = (*map(str, values.values()), "") if name == LOOK_AT else ("",)
        new = [number for number, one in enumerate(seen.pictures) if not one.words]
        return self._described(seen, [(number, thing) for number in new for thing in asks])

    def _skill_and_values(self, skill: str) -> tuple[str, Mapping[str, object]]:
        if self.household.skills and not self.household.says_text(skill):
            try:
                call = self.household.call(skill)
            except ParameterError:
                return "", {}
            return call.skill.name, call.values
        verb, thing = self.household.split_skill(skill)
        return verb, {"thing": thing}

    def _judged(self, seen: Observation, skill: str, sight: Sight) -> Observation:
        looked = replace(seen, pictures=_together(seen.pictures, sight.pictures), glances=sight.glances)
        if sight.holds:
            return looked
        said = self._eyes.told_of(sight)
        if sight.holds is None and not sight.check.necessary:
            return replace(looked, text=_and(seen.text, f"{said[:1].upper()}{said[1:]}."))
        undone = f"You tried to {skill}, but {said}."
        # What the skill reports to be seen now is not.
        return replace(looked, text=undone, outcome=Outcome.POSTCONDITION, seen=(), data={})

    def _described(self, seen: Observation, asks: Sequence[tuple[int, str]]) -> Pending[Observation]:
        if not asks:
            return Pending.ready(seen)
        (number, thing), *others = asks
        picture = seen.pictures[number]
        glance = self._eyes.where(thing, picture) if thing else self._eyes.caption(picture)
        return followed(glance, lambda said: self._described(self._with_words(seen, number, said), others))

    def _with_words(self, seen: Observation, number: int, glance: Glance) -> Observation:
        pictures, text = list(seen.pictures), seen.text
        pictures[number] = replace(
            pictures[number], words=" ".join(filter(None, (pictures[number].words, glance.answer)))
        )
        if why := self._eyes.once(glance):
            text = _and(text, f"Nobody could say what is on the picture: {why}.")
        return replace(seen, text=text, pictures=tuple(pictures), glances=(*seen.glances, glance))


def with_eyes(
    make: Callable[[Eyes | None], World], chosen: tuple[ModelSpec, Settings] | None, checks: Mapping[str, PictureCheck]
) -> World:
    if chosen is None:
        return make(None)
    eyes = Eyes.from_settings(*chosen)
    try:
        return WorldWithEyes(make(eyes), eyes, checks)
    except BaseException:
        eyes.close()
        raise


def _together(before: Sequence[Picture], looked_at: Sequence[Picture]) -> tuple[Picture, ...]:
    told = {one.id for one in looked_at}
    return (*(one for one in before if one.id not in told), *looked_at)


def _and(text: str, sentence: str) -> str:
    return f"{text.removesuffix('.')}. {sentence}"


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
        return followed(self.inner.reset(seed), self._with_remembered)

    def observe(self) -> Pending[Observation]:
        return followed(self.inner.observe(), self._with_remembered)

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        return mapped(self.inner.correct(correction), self._taken)

    def execute(self, skill: str) -> Pending[Observation]:
        return mapped(self.inner.execute(skill), self._taken)

    def _taken(self, observation: Observation) -> Observation:
        self._asks(lambda: self._take(observation))
        return observation

    def _with_remembered(self, seen: Observation) -> Pending[Observation]:
        goal, told = self._goal, Pending[Observation]()

        def work() -> Observation:
            self._take(seen)
            return replace(seen, remembered=self._map.remembered(goal))

        def without(late: Pending[Observation]) -> None:
            self._warn(TimeoutError(f"{self._map.path} did not answer within {PATIENCE:g} s"))
            late.succeed(seen)

        self._asks(work).add_done_callback(
            lambda done: told.succeed(seen if done.cancelled() or done.exception() else done.result())
        )
        where_late(told, PATIENCE, without)
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
