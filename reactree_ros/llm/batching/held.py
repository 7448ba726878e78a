"""What holds a text to a constraint, token by token: llguidance."""

from __future__ import annotations

import json
from typing import Any

from reactree_ros.llm.engine import Constraint, ConstraintKind
from reactree_ros.llm.port import RequestRejected, ServerUnavailable


class Held:
    """Tells which tokens may come next.

    Args:
        vocabulary: The model's, as llguidance has it.
        constraint: A regular expression, a JSON schema or a choice.

    Raises:
        RequestRejected: llguidance cannot hold a text to it.
    """

    def __init__(self, vocabulary: Any, constraint: Constraint) -> None:
        from llguidance import LLMatcher

        self._size = vocabulary.vocab_size
        self._matcher = LLMatcher(vocabulary, _grammar(constraint))
        if problem := self._matcher.get_error():
            raise RequestRejected(f"llguidance refuses the constraint: {' '.join(problem.split())[:400]}")

    def mask(self, scores: Any) -> None:
        """Set the scores of tokens that may not come to minus infinity.

        Raises:
            ServerUnavailable: llguidance has failed.
        """
        import llguidance.numpy

        mask = llguidance.numpy.allocate_token_bitmask(1, self._size)
        llguidance.numpy.fill_next_token_bitmask(self._matcher, mask, 0)
        self._check()
        llguidance.numpy.apply_token_bitmask_inplace(scores.numpy(), mask[0])

    def follow(self, token: int) -> bool:
        """Take note of the next token, and return whether the text is at its end.

        Raises:
            ServerUnavailable: llguidance has failed.
        """
        self._matcher.consume_token(token)
        self._check()
        return bool(self._matcher.is_stopped())

    def _check(self) -> None:
        """A matcher in error says of itself only that it has stopped."""
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
