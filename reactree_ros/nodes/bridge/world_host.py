"""The world that a bridge hosts, with policy, time limit and routines; closed only when nothing of it moves."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactree_ros.background.pending import Pending, asked
from reactree_ros.episode.eyes import Remembering
from reactree_ros.errors import UserError
from reactree_ros.memory.house_map import HouseMap
from reactree_ros.nodes import steady
from reactree_ros.nodes.robot.robot_world import RobotWorld
from reactree_ros.nodes.settings import BridgeSettings
from reactree_ros.routine.skills import RoutineSkills, routines_in
from reactree_ros.world.port import World
from reactree_ros.world.skill_policy import SkillPolicy, Verdict, load_policy
from reactree_ros.world.wrappers import SkillTimeLimit, guarded, unwrapped


class WorldHost:
    """Holds one world at a time.

    Args:
        confirm: Asks a person; the answer is why a skill is refused; empty: it is approved.
        house: Says which house the world is.

    Attributes:
        active: Whether skills may be carried out.
        bare: The world as it was loaded.
        world: The same with policy, time limit and routines around it, and what is kept of its house.
    """

    def __init__(
        self,
        settings: BridgeSettings,
        log: Any,
        confirm: Callable[[str, str], Pending[str]],
        *,
        robot: str,
        house: Callable[[], str],
    ) -> None:
        self._settings, self._log, self._confirm, self._robot, self._house = settings, log, confirm, robot, house
        self._kept: tuple[str, HouseMap] | None = None  # the house, and what is kept of it
        self.active = False
        self.bare: World | None = None
        self.world: World | None = None
        self.policy: SkillPolicy | None = None
        self._leaving: list[_Leaving] = []
        self._rest: Pending[None] = Pending.ready(None)  # of the last stop

    @property
    def leaving(self) -> bool:
        return bool(self._leaving)

    def load_policy(self) -> None:
        self.policy = load_policy(self._settings.policy) if self._settings.policy else None

    def asks_person(self) -> bool:
        """Whether the policy wants a person's yes to some skills."""
        own = self.bare.rules.values() if self.bare else ()
        rules = self.policy.rules if self.policy else ()
        return Verdict.CONFIRM.value in own or any(rule.verdict is Verdict.CONFIRM for rule in rules)

    def take(self, world: World) -> None:
        """Host a world; the one before is closed."""
        try:
            hosted = self._around(world)
        except UserError:
            world.close()
            raise
        self.release()
        self.bare, self.world = world, hosted

    def _around(self, world: World) -> World:
        settings, policy = self._settings, self.policy
        limit = settings.skill_timeout
        hosted: World = SkillTimeLimit(world, limit, settings.stop_timeout, answer_seconds=limit)
        if (kept := self.kept()) is not None:
            hosted = Remembering(hosted, kept, robot=self._robot, feeds=not isinstance(unwrapped(world), RobotWorld))
        if policy is not None and not world.words and any(rule.object for rule in policy.rules):
            self._log.warning(f"{policy.where}: the world does not say its words: the objects are not checked")
        hosted = guarded(hosted, policy, self._confirm, self._log.warning)
        if settings.routine_skills:
            skills = hosted.household.skills
            hosted = RoutineSkills(hosted, routines_in(Path(settings.routine_skills), skills, hosted.names))
        return hosted

    def kept(self) -> HouseMap | None:
        """Return what is kept of the house, opened if it is not; None: nothing is kept."""
        if not self._settings.house_map:
            return None
        house = self._house()
        if self._kept is None or self._kept[0] != house:
            self._leave_map()
            self._kept = house, HouseMap(self._settings.house_map, house)
        return self._kept[1]

    def _leave_map(self) -> None:
        if self._kept is not None:
            self._kept[1].leave()
            self._kept = None

    def halted(self) -> str:
        """Say why nothing may move; empty if it may, or if there is no world."""
        return "" if self.bare is None else self.bare.halted()

    def stop(self) -> None:
        """Carry no more skills out, and begin to wait until nothing moves."""
        self.active = False
        if self.bare is not None:
            self._rest = asked(self.bare.at_rest)

    def at_rest(self) -> bool:
        """Whether nothing moves after the last :meth:`stop`, in no world."""
        return not self._leaving and self._rest.done()

    def release(self) -> None:
        """Close the world as soon as nothing of it moves any more, or after ``stop_timeout``."""
        if self.bare is not None:
            until = steady.now() + self._settings.stop_timeout
            self._leaving.append(_Leaving(self.bare, asked(self.bare.at_rest), until))
            self.bare = self.world = None
            self.close_what_rests()

    def close(self) -> None:
        """Close every world now, whatever moves."""
        self.release()
        self.close_what_rests(in_any_case=True)
        self._leave_map()

    def close_what_rests(self, *, in_any_case: bool = False) -> None:
        for one in list(self._leaving):
            if in_any_case or one.rest.done() or steady.now() > one.until:
                self._leaving.remove(one)
                try:
                    one.world.close()
                except Exception:  # an error of the world's author
                    self._log.error(f"the world could not be closed: {traceback.format_exc()}")


@dataclass(eq=False)
class _Leaving:
    world: World
    rest: Pending[None]
    until: float
