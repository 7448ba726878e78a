"""Triggers of a robot: what starts an instruction by itself, a condition, a time or a schedule; and when it is due."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, time, timedelta
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, FiniteFloat

from reactree_ros.agent.budget import LIMITS
from reactree_ros.plugins.settings import did_you_mean
from reactree_ros.robot.map_file import Document

#: The days of the week, in the order of :meth:`datetime.weekday`.
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Positive = Annotated[FiniteFloat, Field(gt=0)]


def _as_written(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value // 60:02d}:{value % 60:02d}"
    return value


class TriggerEntry(Document):
    """What starts an instruction by itself. One of `when`, `at` and `every` says when."""

    instruction: Annotated[str, Field(min_length=1, max_length=2000)]
    when: str = ""  # name of a condition: each time when it begins to hold
    # where it still holds so many seconds after the instruction ended, that starts again; 0: it does not
    again: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    # a time of day such as `"08:00"`, or once, such as `"2026-12-24 18:00"`; by the node's clock, in the machine's time
    # zone
    at: Annotated[str, BeforeValidator(_as_written)] = ""
    # the days of the week for a time of day; empty: every day
    days: list[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]] = Field(default_factory=list)
    every: Positive | None = None  # each time after so many seconds
    # what the run may take, as in a goal, e.g. `{max_seconds: 600}`; the planner's parameters say the rest
    limits: dict[str, Annotated[FiniteFloat, Field(gt=0, le=1e9)]] = Field(default_factory=dict)

    def faults(self) -> Iterator[str]:
        if sum(map(bool, (self.when, self.at, self.every))) != 1:
            yield "say one of when, at and every"
        if self.again and not self.when:
            yield "again is for a trigger with when; leave it out"
        if self.days and not self.at:
            yield "days are for a trigger with at; leave them out"
        if self.at and isinstance(_moment(self.at), datetime) and self.days:
            yield f"days are for a time of day, and '{self.at}' is one day; leave them out"
        for name, value in self.limits.items():
            if name not in LIMITS:
                yield f"limits: '{name}' is not a limit; {did_you_mean(name, LIMITS)}"
            if name not in ("max_seconds", "max_cost") and value % 1:
                yield f"limits: {name} is {value:g}; it must be a whole number"

    @property
    def occasion(self) -> str:
        days = f" ({', '.join(self.days)})" if self.days else ""
        return f"when {self.when}" if self.when else f"at {self.at}{days}" if self.at else f"every {self.every:g} s"


def _moment(at: str) -> time | datetime:
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}", at):
            hour, minute = map(int, at.split(":"))
            return time(hour, minute)
        if "-" in at and (moment := datetime.fromisoformat(at)).tzinfo is None:
            return moment
    except ValueError:
        pass
    raise ValueError(f'at: \'{at}\' is not a time; write it like "08:00" or "2026-12-24 18:00"')


class Occasions:
    """Says when a trigger is due; times are seconds since 1970."""

    def __init__(self, entry: TriggerEntry, now: float) -> None:
        self._entry = entry
        self._held: bool | None = None  # whether its condition held when that was known last
        self._again: float | None = None  # when it is due again although nothing has changed
        self._begin(now)

    def _begin(self, now: float) -> None:
        self._looked, self.next = now, self._after(now)

    def due(self, now: float, holds: bool | None = None) -> bool:
        """Whether it is due now, but not again for the same occasion; nobody may know whether its condition holds."""
        if now < self._looked:
            self._begin(now)
            self._again = None
        self._looked = now
        if self._entry.when:
            return self._newly(now, holds)
        if self.next is None or now < self.next:
            return False
        self.next = self._after(now)
        return True

    def _newly(self, now: float, holds: bool | None) -> bool:
        if holds is None:
            return False
        new = holds and not self._held
        again = holds and self._again is not None and now >= self._again
        self._held = holds
        if new or again or not holds:
            self._again = None
        return new or again

    def ended(self, now: float, *, stopped: bool) -> None:
        """Note the end of what it started; stopped by a person, it waits for a new occasion."""
        if stopped:
            self._again = None
        elif self._entry.again:
            self._again = now + self._entry.again

    def refused(self, now: float, seconds: float) -> None:
        """Note a refusal of what it started: with a condition that still holds it is due again after a time."""
        if self._entry.when:
            self._again = now + seconds

    def _after(self, now: float) -> float | None:
        entry = self._entry
        if entry.every:
            return now + entry.every
        if not entry.at:
            return None
        moment = _moment(entry.at)
        if isinstance(moment, datetime):
            return moment.timestamp() if moment.timestamp() > now else None
        today = datetime.fromtimestamp(now).date()
        days = (datetime.combine(today + timedelta(days=ahead), moment) for ahead in range(8))
        wanted = [day for day in days if not entry.days or DAYS[day.weekday()] in entry.days]
        return next((day.timestamp() for day in wanted if day.timestamp() > now), None)


def limits_of(entry: TriggerEntry) -> Mapping[str, int | float]:
    """Return the limits of a trigger as the fields of a goal hold them."""
    return {
        name: float(value) if name in ("max_seconds", "max_cost") else int(value)
        for name, value in entry.limits.items()
    }
