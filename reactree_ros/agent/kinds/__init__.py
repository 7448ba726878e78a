"""The kinds of decision that there are: each is declared in one file, this package's and those of plug-ins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from reactree_ros.agent.decision import Decision, check_kind
from reactree_ros.errors import UserError
from reactree_ros.registry import DECISIONS


@cache
def kinds() -> Mapping[str, type[Decision]]:
    """Return every kind by its name, this package's first.

    Raises:
        UserError: A kind leaves something open, or a label or a key of its own is another's.
    """
    found: dict[str, type[Decision]] = {}
    ...
