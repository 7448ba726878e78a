"""Constrains a text, token by token, with llguidance."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from reactree_ros.llm.engine import Constraint, ConstraintKind
from reactree_ros.llm.port import RequestRejected, ServerUnavailable


class Held:
    """Tells which tokens may come next.

    Raises:
        RequestRejected: llguidance does not support the constraint.
    """

    def __init__(self, vocabulary: Any, constraint: Constraint) -> None:
        from llguidance import LLMatcher

        self._size = vocabulary.vocab_size
        self._mask: Any = None
        self._matcher = LLMatcher(vocabulary, _grammar(constraint))
        if problem := self._matcher.get_error():
            raise RequestRejected(f"llguidance refuses the constraint: {' '.join(problem.split())[:400]}")

    def mask(self, scores: Any) -> None:
        """Set the scores of forbidden tokens to minus infinity."""
        import llguidance.numpy

        llguidance.numpy.apply_token_bitmask_inplace(scores, self._next()[0])

    def forced(self) -> list[int]:
        """Return the next tokens if there is no choice about them: those of the only text that may come next.

        More tokens may be allowed, because a text can be cut into tokens in several ways.
        """
        return list(self._matcher.compute_ff_tokens()) or self._only()

    def _only(self) -> list[int]:
        """Return the next token if only one is allowed, e.g. the one that ends a text."""
        words = self._next()[0].view(np.uint32)
        (there,) = np.nonzero(words)
        word = int(words[there[0]]) if len(there) == 1 else 0
        return [] if word == 0 or word & (word - 1) else [int(there[0]) * 32 + word.bit_length() - 1]

    def follow(self, token: int) -> bool:
        """Record the chosen token, and return whether the text is complete."""
        self._mask = None
        self._matcher.consume_token(token)
        self._check()
        return bool(self._matcher.is_stopped())

    def _next(self) -> Any:
        """Return which tokens may come next, one bit per token."""
        import llguidance.numpy

        if self._mask is None:
            self._mask = llguidance.numpy.allocate_token_bitmask(1, self._size)
            llguidance.numpy.fill_next_token_bitmask(self._matcher, self._mask, 0)
            self._check()
        return self._mask

    def _check(self) -> None:
        """Raise if the matcher failed: it reports an error only as having stopped."""
        if problem := self._matcher.get_error():
            raise ServerUnavailable(f"llguidance failed within the constraint: {' '.join(problem.split())[:400]}")


def _grammar(constraint: Constraint) -> str:
    from llguidance import LLMatcher

    if constraint.kind is ConstraintKind.REGEX:
        return LLMatcher.grammar_from_regex(constraint.value)
    if constraint.kind is ConstraintKind.JSON_SCHEMA:
        return LLMatcher.grammar_from_json_schema(constraint.value, defaults={"whitespace_flexible": False})
    options = " | ".join(json.dumps(option, ensure_ascii=False) for option in constraint.value)
    return LLMatcher.grammar_from_lark(f"start: {options}")
