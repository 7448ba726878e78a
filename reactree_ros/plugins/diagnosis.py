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
    """What a check says of one thing."""

    what: str  # the thing, e.g. ``emergency stop``
    level: Level
    said: str  # what the check found
    remedy: str = ""  # what to do; empty if nothing is wrong
