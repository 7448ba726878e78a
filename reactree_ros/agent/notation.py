"""The two notations of a grammar: a regular expression, in the subset that servers agree on, and GBNF."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Notation:
    """How a pattern is written."""

    literal: Callable[[str], str]  # writes a text that stands for itself
    begin: str  # begins a group
    joint: str  # stands between two parts that follow each other
    bar: str  # stands between two parts of which one is said

    def one_of(self, parts: Iterable[str]) -> str:
        return f"{self.begin}{self.bar.join(parts)})"

    def line_of(self, parts: Iterable[str]) -> str:
        return self.joint.join(filter(None, parts))

    def texts(self, texts: Iterable[str]) -> str:
        return self.one_of(map(self.literal, texts))

    def numerals(self, texts: Collection[str]) -> str:
        """Write that one of very many texts of digits and signs is said: what begins alike is written once."""
        return _tails(frozenset(texts), self)


REGEX = Notation(literal=re.escape, begin="(?:", joint="", bar="|")
GBNF = Notation(literal=functools.partial(json.dumps, ensure_ascii=False), begin="(", joint=" ", bar=" | ")


@functools.lru_cache(maxsize=256)
def _tails(texts: frozenset[str], notation: Notation) -> str:
    by_first: dict[str, set[str]] = {}
    for text in texts - {""}:
        by_first.setdefault(text[0], set()).add(text[1:])
    by_tails: dict[frozenset[str], list[str]] = {}
    for first, tails in by_first.items():
        by_tails.setdefault(frozenset(tails), []).append(first)
    parts = []
    for after, firsts in sorted(by_tails.items(), key=lambda one: sorted(one[1])):
        digits = "".join(sorted(one for one in firsts if one.isdigit()))
        heads = [notation.literal(one) for one in firsts if not one.isdigit()]
        heads += [notation.literal(digits) if len(digits) == 1 else f"[{digits}]"] if digits else []
        rest = "" if after == {""} else _tails(after, notation)
        parts += [notation.line_of((head, rest)) for head in heads]
    return notation.one_of(parts) + ("?" if "" in texts else "")
