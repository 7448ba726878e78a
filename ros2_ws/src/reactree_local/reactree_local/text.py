"""One text during its generation: its constraint, how its tokens are chosen, when it ends."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from reactree_local.matcher import Matcher
from reactree_ros.llm.engine import Generated, Generation


class Text:
    """One text during its generation.

    Args:
        prompt: Tokens of the prompt.
        ends: Tokens that end a text.
        matcher: Constrains the text; None leaves it free.
        marked: Whether special tokens are part of the text.

    Attributes:
        tokens: The tokens generated so far.
        cached: Number of prompt tokens whose states were kept.
        finish: Why it has ended, ``stop`` or ``length``; empty if it goes on.
    """

    def __init__(
        self,
        prompt: list[int],
        generation: Generation,
        *,
        tokenizer: Any,
        ends: Collection[int],
        matcher: Matcher | None,
        marked: bool = False,
    ) -> None:
        self.prompt = prompt
        self.tokens: list[int] = []
        self.cached = 0
        self.finish = ""
        self._generation = generation
        self._tokenizer = tokenizer
        self._ends = ends
        self._matcher = matcher
        self._marked = marked
        self._random = np.random.default_rng(generation.seed % 2**63)
        self._text: str | None = None  # up to a stop string
        # A stop string may begin within a token, and a character takes at most four tokens.
        self._tail = max((4 * len(stop) + 4 for stop in generation.stops), default=0)

    def add_forced(self) -> None:
        """Append the tokens that the constraint leaves no choice about: no scores are needed."""
        while self._matcher is not None and not self.finish and (forced := self._matcher.forced()):
            for token in forced:
                if not self.finish:
                    self._add(token)

    def choose(self, scores: Any) -> None:
        """Choose the next token by the scores of all tokens (float32, changed in place)."""
        if self._matcher is not None:
            self._matcher.mask(scores)
        self._add(self._sampled(scores) if self._generation.temperature > 0 else int(np.argmax(scores)))

    def _add(self, token: int) -> None:
        """Append the next token, and check whether it is the last."""
        if token in self._ends:
            self.finish = "stop"
            return
        self.tokens.append(token)
        if (self._matcher is not None and self._matcher.follow(token)) or self._stops() or self._is_wanted():
            self.finish = "stop"
        elif len(self.tokens) >= self._generation.max_tokens:
            self.finish = "length"

    def _stops(self) -> bool:
        """Look for a stop string, and cut the text there."""
        stops = self._generation.stops
        if not stops or not any(stop in self._decode(self.tokens[-self._tail :]) for stop in stops):
            return False
        text = self._decode(self.tokens)
        self._text = text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)]
        return True

    def _is_wanted(self) -> bool:
        """Return whether all that is wanted has come."""
        until = self._generation.until
        self._text = (until(self._decode(self.tokens)) if until is not None else "") or None
        return self._text is not None

    def generated(self) -> Generated:
        """Return the text."""
        text = self._decode(self.tokens) if self._text is None else self._text
        return Generated(text, self.finish, len(self.prompt), self.cached, len(self.tokens))

    def _sampled(self, scores: Any) -> int:
        """Draw a token by the scores of all tokens; forbidden ones have minus infinity."""
        shares = np.exp((scores - scores.max()).astype(np.float64) / self._generation.temperature)
        shares /= shares.sum()
        if self._generation.top_p < 1:
            order = np.argsort(-shares, kind="stable")
            shares[order[np.cumsum(shares[order]) - shares[order] >= self._generation.top_p]] = 0
            shares /= shares.sum()
        return int(self._random.choice(len(shares), p=shares))

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=not self._marked))
