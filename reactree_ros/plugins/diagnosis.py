"""What a check of a robot, or of this installation, says of one thing, and the remedy if it is wrong."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.Enum):
    """How serious a diagnosis is."""

    RIGHT = "right"
    NOTE = "note"
    """Nothing is wrong, but a person should know."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Diagnosis:
    """What a check says of one thing.

    Attributes:
        what: The thing, e.g. ``emergency stop``.
        said: What the check found.
        remedy: What to do; empty if nothing is wrong.
    """

    what: str
    level: Level
    said: str
    remedy: str = ""
