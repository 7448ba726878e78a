"""What a field of a message should hold: a value, one of several, a number within bounds, or what a template says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.text import shortened_line
from reactree_ros.errors import UserError
from reactree_ros.nodes.robot.goal_templates import Values, described, filler, is_number, reader
from reactree_ros.robot.config import Wanted
from reactree_ros.world.skill_policy import Range


class Field:
    """A field of a result or a message, and what it should hold.

    Raises:
        UserError: There is no such field, or it never holds that.

    Attributes:
        path: Of the field.
    """

    def __init__(self, kind: Any, path: str, wanted: Wanted, where: str, names: Mapping[str, type]) -> None:
        self.path = path
        self.read, slot = reader(kind, path, where, counted=True)
        at = f"{where}: field '{path}'"
        self._range = wanted if isinstance(wanted, Range) else None
        if self._range is not None and not is_number(slot):
            raise UserError(f"{at}: {described(slot)} is no number; above and below are of numbers")
        several = wanted if isinstance(wanted, list) else [wanted]
        self._fillers = [] if self._range is not None else [filler(slot, one, at, names) for one in several]

    def wanted(self, values: Values) -> Holds:
        """Return what it should hold for the values of one skill.

        Raises:
            NoValue: A template names something that the skill does not have.
        """
        return Holds(self._range or tuple(fill(values) for fill in self._fillers))


@dataclass(frozen=True)
class Holds:
    """What a value should be."""

    wanted: Range | Sequence[Any]  # the numbers that it may be, or the values

    def __call__(self, value: Any) -> bool:
        """Whether a value is as it should be."""
        return (
            self.wanted.has(value) if isinstance(self.wanted, Range) else any(_same(value, one) for one in self.wanted)
        )

    def in_words(self) -> str:
        """Say what a value should be."""
        if not isinstance(self.wanted, Range):
            return " or ".join(map(told, self.wanted))
        return " and ".join(f"{side} {bound:g}" for side, bound in self.wanted if math.isfinite(bound))


def _same(value: Any, wanted: Any) -> bool:
    """Whether a value is another one; a number of 32 bits is not quite the one that was written."""
    return math.isclose(value, wanted, rel_tol=1e-6) if isinstance(value, float) else bool(value == wanted)


def told(value: Any) -> str:
    return shortened_line(f"{value:g}" if isinstance(value, float) else str(value), 60)
