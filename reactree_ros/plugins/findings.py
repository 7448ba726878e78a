"""What a look at a robot, or at where this package runs, has found, and how what is wrong is mended."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """How something is."""

    RIGHT = "right"
    NOTE = "note"
    """Nothing is wrong, but a person should know."""
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: What it is, e.g. ``emergency stop``.
        verdict: How it is.
        said: What was found.
        mend: How it is mended; empty where nothing is wrong.
    """

    what: str
    verdict: Verdict
    said: str
    mend: str = ""
