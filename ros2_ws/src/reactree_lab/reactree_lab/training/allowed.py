"""Allowed tokens at each place of a decision, equal to the decoding constraint, for many decisions quickly.

The result equals llguidance's for the grammar's regular expression (the tests compare them), in a tenth of the time: a
grammar here is a few hundred texts, and is needed once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.decision import Decision
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.act import Act

#: Beginning of a decision to use a skill.
ACT = Act.opening
#: Most rests of allowed texts whose first tokens are kept.
_KEPT = 1 << 18


@dataclass(frozen=True)
class MaySay:
    whole: tuple[str, ...]  # complete decisions; a line end follows
    begun: tuple[str, ...] = ()  # beginnings that continue with any text up to the line's end

    @property
    def acts(self) -> list[str]:
        return [text.removeprefix(ACT) for text in self.whole if text.startswith(ACT)]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> MaySay | None:
        """Read a dataset's constraint; None allows anything."""
        if options := values.get("options"):
            return cls(tuple(map(str, options)))
        if "skills" not in values:
            return None
        flows = tuple(map(flow_named, values.get("control_flows", ())))
        more = tuple(values.get("more", ()))
        grammar = DecisionGrammar(values["skills"], flows, questions=values.get("questions"), more=more)
        grammar = replace(grammar, longest_thought=0) if values.get("no_thoughts") else grammar
        texts = [_texts(kind, grammar) for kind in grammar.allowed]
        return cls(tuple(one for whole, _ in texts for one in whole), tuple(one for _, begun in texts for one in begun))


def _texts(kind: type[Decision], grammar: DecisionGrammar) -> tuple[Sequence[str], Sequence[str]]:
    texts = [""]
    for begin, options in kind.rounds(grammar):
        texts = [f"{text}{begin} " for text in texts]
        if options is None:
            return (), texts
        texts = [f"{text}{option}" for text in texts for option in options]
    return texts, ()


class Vocabulary:
    """Tokens by their texts, which are empty for those without one; ``end`` is the token that ends a text."""

    def __init__(self, tokens: Sequence[bytes], end: int) -> None:
        self.size = len(tokens)
        self._end = end
        self._ids = {token: number for number, token in enumerate(tokens) if token}
        self._sorted = sorted(self._ids)
        self._longest = max(map(len, self._ids))
        self._starts = lru_cache(_KEPT)(self._starting)

    def of(self, may_say: MaySay, tokens: Sequence[int], texts: Sequence[bytes]) -> list[list[int]] | None:
        """Return the tokens allowed at each token of a decision; none if nearly all are, None if it is refused."""
        whole = {f"{text}\n".encode() for text in may_say.whole}
        begun = {text.encode() for text in may_say.begun}
        found: list[list[int]] = []
        for number, (token, text) in enumerate(zip(tokens, texts, strict=True)):
            may = self._next(whole, begun)
            if token not in may:
                return None
            found.append(sorted(may) if len(may) < self.size // 2 else [])
            if any(text.startswith(rest) for rest in begun):  # everything after this is free
                return found + [[]] * (len(tokens) - number - 1)
            whole = {rest[len(text) :] for rest in whole if rest.startswith(text)}
            begun = {rest[len(text) :] for rest in begun if rest.startswith(text)}
        return found

    def _next(self, whole: Iterable[bytes], begun: Iterable[bytes]) -> set[int]:
        ids = self._ids
        may = set[int]().union(*map(self._starts, whole))
        if b"\n" in whole:
            may.add(self._end)
        for rest in begun:
            may.update(ids[part] for length in range(1, len(rest)) if (part := rest[:length]) in ids)
            at = bisect_left(self._sorted, rest)
            while at < len(self._sorted) and self._sorted[at].startswith(rest):
                if b"\n" not in self._sorted[at][len(rest) :]:
                    may.add(ids[self._sorted[at]])
                at += 1
        return may

    def _starting(self, rest: bytes) -> tuple[int, ...]:
        """Return the tokens that a text can begin with, cached because skills repeat."""
        parts = (rest[:length] for length in range(1, min(len(rest), self._longest) + 1))
        return tuple(self._ids[part] for part in parts if part in self._ids)
