"""Constrains a text, token by token, with llguidance."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from reactree_ros.llm.engine import Constraint, ConstraintKind
from reactree_ros.llm.port import RequestRejected, ServerUnavailable


class Matcher:
    """Tells which tokens may come next.

    Raises:
        RequestRejected: llguidance does not support the constraint.
    """

    def __init__(self, vocabulary: Any, constraint: Constraint) -> None:
        from llguidance import LLMatcher

        self._matcher = LLMatcher(vocabulary, _grammar(constraint))
        self._allowed = np.zeros((1, (vocabulary.vocab_size + 31) // 32), np.int32)
        if problem := self._matcher.get_error():
            raise RequestRejected(f"llguidance refuses the constraint: {' '.join(problem.split())[:400]}")

    def mask(self, scores: Any) -> None:
        """Set the scores of forbidden tokens to minus infinity."""
        import llguidance.numpy

        llguidance.numpy.fill_next_token_bitmask(self._matcher, self._allowed, 0)
        self._check()
        llguidance.numpy.apply_token_bitmask_inplace(scores, self._allowed[0])

    def forced(self) -> list[int]:
        """Return the next tokens if only one text may come next, however it can be cut into tokens."""
        return list(self._matcher.compute_ff_tokens())

    def follow(self, token: int) -> bool:
        """Record the chosen token, and return whether the text is complete."""
        self._matcher.consume_token(token)
        self._check()
        return bool(self._matcher.is_stopped())

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
