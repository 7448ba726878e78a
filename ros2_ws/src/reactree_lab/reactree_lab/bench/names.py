"""Short names for the planners of a bench: its report, its messages and its folders use them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import count

#: Characters of a short name, without the number that tells two of them apart.
LONGEST = 40


def options_of(name: str) -> tuple[str, list[str]]:
    """Split e.g. ``react:system_text=false`` into the planner and its options."""
    first, *options = re.split(r":(?=\w+=)", name)
    return first, options


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Return a short name for each planner: its name, and the options that not all planners of this name share.

    If these are too long, the planner has a number instead. No two short names are equal, and each can name a folder.
    """
    split = {name: options_of(name) for name in names}
    alike: dict[str, list[set[str]]] = defaultdict(list)
    for first, options in split.values():
        alike[first].append(set(options))
    wanted = {}
    for name, (first, options) in split.items():
        common = set.intersection(*alike[first])
        wanted[name] = _plain(":".join([first, *(one for one in options if one not in common)]))
    short: dict[str, str] = {}
    for name in sorted(names, key=lambda one: len(wanted[one]) > LONGEST):  # numbers last: a planner may be named so
        said = wanted[name] if len(wanted[name]) <= LONGEST else _plain(split[name][0])
        said = said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
        numbered = (said if number == 1 else f"{said}-{number}" for number in count(1))
        short[name] = next(one for one in numbered if one not in short.values())
    return {name: short[name] for name in names}


def _plain(name: str) -> str:
    return " ".join(name.replace("/", "_").split())
