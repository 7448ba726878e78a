"""Has a robot charge by itself where its battery is low, before that stops everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import steady
from reactree_ros.nodes.robot.robot_topics import Battery
from reactree_ros.robot.config import ChargeEntry
from reactree_ros.world.port import Observation, Outcome

#: Time before a skill that failed is tried again, in seconds; after so many tries a person has to see to it.
AGAIN, TRIES = 10.0, 3


class Charging:
    """Carries out the skill by which a robot charges when its battery is low, and has tasks hold until it is full.

    Args:
        battery: The battery.
        entry: What is done; None: nothing.
        begin: Carries a skill out, whatever the battery's level.
    """

    def __init__(
        self, battery: Battery, entry: ChargeEntry | None, begin: Callable[[str], Pending[Observation]], log: Any
    ) -> None:
        self._battery, self._entry, self._begin, self._log = battery, entry, begin, log
        self._needed = self._charges = False
        self._underway: Pending[Observation] | None = None
        self._tries, self._again_at, self._failed = 0, 0.0, ""

    def reason(self) -> str:
        """Say why nothing else may begin; empty if it may."""
        if self._entry is None or not (self._needed or self._underway):
            return ""
        now = f"'{self._entry.skill}' is next"
        if self._underway is not None:
            now = f"'{self._entry.skill}' is carried out"
        elif self._charges:
            now = f"it is charged up to {self._entry.until:g}"
        elif self._failed:
            now = self._failed.rstrip(".")
        return f"the battery is at {self._battery.level:.3g}: {now}"

    def emergency(self) -> str:
        """Say that a person has to have the robot charged; empty if it does so itself."""
        return self.reason() if self._tries >= TRIES else ""

    def look(self, *, active: bool, free: bool) -> None:
        """Go on; to be called regularly.

        Args:
            active: Whether the robot may do anything at all.
            free: Whether nothing else is under way or in the way.
        """
        entry, level = self._entry, self._battery.level
        if entry is None:
            return
        if not self._needed and level < entry.below:
            self._log.warning(f"the battery is at {level:.3g}: '{entry.skill}' is carried out, and tasks hold")
            self._needed, self._charges, self._tries, self._again_at, self._failed = True, False, 0, 0.0, ""
        elif self._needed and level >= entry.until:
            self._log.info(f"the battery is at {level:.3g}: tasks go on")
            self._needed, self._tries = False, 0
        if self._underway is not None:
            self._follow(self._underway, active=active)
        elif self._needed and not self._charges and active and free and self._may_try():
            self._battery.charges = True
            self._underway = self._begin(entry.skill)

    def _may_try(self) -> bool:
        return self._tries < TRIES and steady.now() >= self._again_at

    def _follow(self, underway: Pending[Observation], *, active: bool) -> None:
        if not active:
            underway.cancel()
        if not underway.done():
            return
        self._underway, self._battery.charges = None, False
        if underway.cancelled():
            return
        try:
            seen = underway.take()
        except Exception as error:
            self._fail(str(error) or type(error).__name__)
            return
        self._charges = seen.outcome is Outcome.DONE
        if seen.outcome not in (Outcome.DONE, Outcome.HALTED):  # what was halted goes on when it may
            self._fail(seen.text)

    def _fail(self, reason: str) -> None:
        self._failed, self._tries, self._again_at = reason, self._tries + 1, steady.now() + AGAIN
        self._log.error(f"the robot does not charge: {reason}")

    def close(self) -> None:
        """Stop what is under way."""
        if self._underway is not None:
            self._underway.cancel()
