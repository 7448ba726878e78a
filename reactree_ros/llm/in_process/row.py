"""One text during its generation: its constraint, how its tokens are chosen, when it ends."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from reactree_ros.llm.engine import Generated, Generation
from reactree_ros.llm.in_process.held import Held


class Row:
    """One text during its generation.

    Args:
        prompt: Tokens of the prompt.
        ends: Tokens that end a text.
        held: Constrains the text; None leaves it free.
        marked: Whether special tokens are part of the text.

    Attributes:
        cached: Number of prompt tokens whose states were kept.
        read: Number of tokens of prompt and text that the model has read.
        states: Attention states of the tokens read, of a text that is read alone.
        place: Number of the text, for a model that keeps the states itself.
        cancelled: Whether nobody waits for the text any more.
    """

    def __init__(
        self,
        prompt: list[int],
        generation: Generation,
        *,
        tokenizer: Any,
        ends: Collection[int],
        held: Held | None,
        marked: bool,
    ) -> None:
        self.prompt = prompt
        self.cached = 0
        self.said: list[int] = []
        self.read = 0
        self.states: Any = None
        self.place = 0
        self.ended = False
        self.cancelled = False
        self.failure: Exception | None = None
        self._generation = generation
        self._tokenizer = tokenizer
        self._ends = ends
        self._held = held
        self._marked = marked
        self._draw = np.random.default_rng(generation.seed % 2**63)
        self._text: str | None = None  # up to a stop string
        self._finish = "length"
        # A stop string may begin within a token, and a character takes at most four tokens.
        self._tail = max((4 * len(stop) + 4 for stop in generation.stops), default=0)

    @property
    def longest(self) -> int:
        """Most tokens that prompt and text can have together."""
        return len(self.prompt) + self._generation.max_tokens

    @property
    def is_done(self) -> bool:
        """Whether the text needs no more tokens."""
        return self.ended or self.cancelled or self.failure is not None

    @property
    def unread(self) -> int:
        """Number of tokens of prompt and text that the model has not read."""
        return len(self.prompt) + len(self.said) - self.read

    def say_forced(self) -> None:
        """Append the tokens that the constraint leaves no choice about: no scores are needed."""
        while self._held is not None and not self.is_done and (forced := self._held.forced()):
            for token in forced:
                if not self.is_done:
                    self.add(token)

    def take(self, scores: Any) -> None:
        """Choose the next token by the scores of all tokens (float32, changed in place)."""
        if self._held is not None:
            self._held.mask(scores)
        self.add(self._drawn(scores) if self._generation.temperature > 0 else int(np.argmax(scores)))

    def add(self, token: int) -> None:
        """Append the next token, and check whether it is the last."""
        if token in self._ends:
            self._end("stop")
            return
        self.said.append(token)
        if self._held is not None and self._held.follow(token):
            self._end("stop")
        elif self._stops():
            self._text = self._until_stop()
            self._end("stop")
        elif self._generation.until is not None and (wanted := self._generation.until(self._decode(self.said))):
            self._text = wanted
            self._end("stop")
        elif len(self.said) >= self._generation.max_tokens:
            self._end("length")

    def generated(self) -> Generated:
        """Return the text."""
        text = self._decode(self.said) if self._text is None else self._text
        return Generated(text, self._finish, len(self.prompt), self.cached, len(self.said))

    def _end(self, finish: str) -> None:
        self.ended, self._finish = True, finish

    def _drawn(self, scores: Any) -> int:
        """Draw a token by the scores of all tokens; forbidden ones have minus infinity."""
        shares = np.exp((scores - scores.max()).astype(np.float64) / self._generation.temperature)
        shares /= shares.sum()
        if self._generation.top_p < 1:
            order = np.argsort(-shares, kind="stable")
            shares[order[np.cumsum(shares[order]) - shares[order] >= self._generation.top_p]] = 0
            shares /= shares.sum()
        return int(self._draw.choice(len(shares), p=shares))

    def _stops(self) -> bool:
        if not self._tail:
            return False
        tail = self._decode(self.said[-self._tail :])
        return any(stop in tail for stop in self._generation.stops)

    def _until_stop(self) -> str:
        text = self._decode(self.said)
        return text[: min((at for stop in self._generation.stops if (at := text.find(stop)) >= 0), default=None)]

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=not self._marked))
