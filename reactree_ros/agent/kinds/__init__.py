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
    found: dict[str, type[Decision]] = {}
    for kind in DECISIONS.every():
        for other in found.values():
            if (shared := _shared(kind, other)) is not None:
                raise UserError(
                    f"'{shared}' stands for the decision kinds '{other.name}' and '{kind.name}'; rename one"
                )
        found[kind.name] = kind
    return found


@cache
def kinds_by_word() -> Mapping[str, type[Decision]]:
    return {kind.word: kind for kind in kinds().values() if kind.spellings and not kind.leads}


def _shared(one: type[Decision], other: type[Decision]) -> str | None:
    for first, second in ((one, other), (other, one)):
        if first.name in second.recorded_fields()[1:]:
            return first.name
    if not (one.spellings and other.spellings) or one.leads or other.leads:
        return None
    words = [one.word, other.word, *_plain_words(one), *_plain_words(other)]
    for word in words:
        if all(re.fullmatch(f"{kind.word}|{kind.spellings}", word, re.IGNORECASE) for kind in (one, other)):
            return word
    return next(iter({*one.keys} & {*other.keys}), None)


def _plain_words(kind: type[Decision]) -> list[str]:
    return re.findall(r"(?<![^|])\w+(?![^|])", kind.spellings)
