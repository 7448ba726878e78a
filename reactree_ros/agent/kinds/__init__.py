"""The kinds of decision that there are: each is declared in one file, of this package or of a plug-in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from reactree_ros.agent.decision import Decision, check_kind
from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry

DECISIONS: Registry[type[Decision]] = Registry(
    "decision kind",
    "reactree_ros.decisions",
    Decision,
    first=("think", "act", "expand", "ask", "begin_subgoal", "summarise", "write_code"),
    check=check_kind,
)


@cache
def kinds() -> Mapping[str, type[Decision]]:
    """Return every kind by its name, this package's first.

    Raises:
        UserError: What announces one kind announces another, too.
    """
    found: dict[str, type[Decision]] = {}
    for kind in DECISIONS:
        for other in found.values():
            if (shared := _shared(kind, other)) is not None:
                raise UserError(f"'{shared}' announces the decision kinds '{other.name}' and '{kind.name}'; rename one")
        found[kind.name] = kind
    return found


@cache
def kinds_by_word() -> Mapping[str, type[Decision]]:
    """Return the kinds that a word announces, by their words."""
    return {kind.word: kind for kind in kinds().values() if kind.spellings and not kind.leads}


def _shared(one: type[Decision], other: type[Decision]) -> str | None:
    """Return a word that announces two kinds; None if none does."""
    if not (one.spellings and other.spellings):
        return None
    if one.word == other.word and not (one.leads or other.leads):
        return one.word
    for word in (one.word, other.word):
        if all(re.fullmatch(kind.spellings, word, re.IGNORECASE) for kind in (one, other)):
            return word
    return next(iter({*one.keys} & {*other.keys}), None)
