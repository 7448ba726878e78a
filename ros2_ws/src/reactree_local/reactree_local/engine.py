"""Engines in this process that generate texts token by token, one after the other, in a thread of their own."""

from __future__ import annotations

import abc
import asyncio
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import numpy as np

from reactree_ros.llm.chat import broken, special_tokens, spoken_to_server
from reactree_ros.llm.engine import Constraint, ConstraintKind, Engine, Generated, Generation
from reactree_ros.llm.port import PromptTooLong, RequestRejected, ServerUnavailable

#: Prompt tokens that are read at once: a request that nobody wants any more ends after as many.
CHUNK = 512


class InProcessEngine(Engine):
    """An engine that reads and writes tokens itself. Tokens forced by a constraint are not sampled.

    Attributes:
        vocabulary: The tokenizer for llguidance.
        ends: Tokens that end a text.
        most_kept: Earlier texts whose states are kept, so that a known beginning of a prompt is not read again.
    """

    constraints = frozenset({ConstraintKind.REGEX, ConstraintKind.JSON_SCHEMA, ConstraintKind.CHOICE})
    chat = False
    vocabulary: Any = None
    ends: frozenset[int] = frozenset()
    most_kept = 16
    _network: Any = None
    _tokenizer: Any = None
    _special: re.Pattern[str] | None = None

    def __init__(self, model: str) -> None:
        self.model = model
        self._worker: ThreadPoolExecutor | None = None
        self._closed = Event()
        self._kept: list[tuple[list[int], Any]] = []  # the newest last

    @abc.abstractmethod
    def load(self) -> Any:
        """Load the model, set what the others need of it, and return its tokenizer."""

    @abc.abstractmethod
    def read(self, tokens: Sequence[int], states: Any) -> tuple[Any, Any]:
        """Read more tokens of a text; return the next token's scores (float32) and the text's states."""

    @abc.abstractmethod
    def first(self, states: Any, count: int) -> Any:
        """Return a copy of the states of a text's first tokens; None if they cannot be cut there."""

    async def open(self) -> None:
        if self._worker is None:
            self._closed, self._kept = Event(), []
            self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=self.name)
        self._tokenizer = await asyncio.get_running_loop().run_in_executor(self._worker, self.load)
        self._special = special_tokens(self._tokenizer)

    async def generate(self, generation: Generation) -> Generated:
        spoken = replace(generation, turns=spoken_to_server(generation.turns))
        return await self.go_on(spoken.prompt, generation, begins=True)

    async def go_on(
        self, prompt: str, generation: Generation, *, begins: bool = False, marked: bool = False, more: int = 0
    ) -> Generated:
        """Continue a prompt, instead of the one of the request.

        Args:
            prompt: The prompt.
            generation: The request.
            begins: Whether the tokens that begin every text are missing in it.
            marked: Whether special tokens are part of the text.
            more: Tokens that are needed besides.

        Raises:
            PromptTooLong: It does not fit into the context.
        """
        if self._worker is None:
            raise ServerUnavailable(f"{self.name} is not open")
        tokens = self._encode(self.spelled(prompt) if begins else prompt, begins=begins)
        if self.context and (excess := len(tokens) + generation.max_tokens + more - self.context) > 0:
            raise PromptTooLong(excess, self.context)
        closed, cancelled = self._closed, Event()

        def write() -> Generated:
            matcher = None if generation.constraint is None else Matcher(self.vocabulary, generation.constraint)
            text = Text(tokens, generation, tokenizer=self._tokenizer, ends=self.ends, matcher=matcher, marked=marked)
            self.write(text, lambda: closed.is_set() or cancelled.is_set())
            return text.generated()

        try:
            generated = await asyncio.get_running_loop().run_in_executor(self._worker, write)
        except Exception:
            if not closed.is_set():
                raise
        finally:
            cancelled.set()
        if closed.is_set():
            raise ServerUnavailable(f"{self.name} was closed")
        return generated

    def spelled(self, text: str) -> str:
        return text if self._special is None else broken(text, self._special)

    def _encode(self, text: str, *, begins: bool = False) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=begins))

    def count_tokens(self, text: str) -> int | None:
        return None if self._tokenizer is None else len(self._encode(self.spelled(text)))

    def status(self) -> Mapping[str, str]:
        return {"model": self.model, "prompts": "chat" if self.chat else "completion"}

    def write(self, text: Text, is_unwanted: Callable[[], bool] = lambda: False) -> None:
        """Generate a whole text, and keep its states; for one thread at a time, after loading."""
        text.cached, states = self._known(text.prompt)
        read = text.cached
        text.add_forced()
        while not text.finish:
            unread = [*text.prompt, *text.tokens][read:]
            for start in range(0, len(unread), CHUNK):
                if is_unwanted():
                    return
                scores, states = self.read(unread[start : start + CHUNK], states)
            read += len(unread)
            text.choose(scores)
            text.add_forced()
        if read > text.cached:
            whole = [*text.prompt, *text.tokens][:read]
            others = [one for one in self._kept if one[0] != whole[: len(one[0])]]
            self._kept = [*others, (whole, states)][-self.most_kept :]

    def _known(self, prompt: list[int]) -> tuple[int, Any]:
        """Return how many tokens of a prompt are known (never the last one), and their states or None."""
        known = [(min(_shared(tokens, prompt), len(prompt) - 1), states) for tokens, states in self._kept]
        for count, states in sorted(known, key=lambda one: -one[0]):
            if count and (cut := self.first(states, count)) is not None:
                return count, cut
        return 0, None

    async def close(self) -> None:
        """Drop the model; texts that are generated or wait fail, a running one before its next token."""
        self._closed.set()
        if self._worker is not None:
            self._worker.shutdown(wait=False)
        self._network = self._worker = None
        self._kept = []


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


class Text:
    """One text during its generation; with ``marked``, special tokens are part of it."""

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
        self.cached = 0  # prompt tokens whose states were kept
        self.finish = ""  # why it has ended, ``stop`` or ``length``; empty if it goes on
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
        """Append the tokens that the constraint forces, which need no scores."""
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
        if token in self._ends:
            self.finish = "stop"
            return
        self.tokens.append(token)
        if (self._matcher is not None and self._matcher.follow(token)) or self._stops() or self._is_wanted():
            self.finish = "stop"
        elif len(self.tokens) >= self._generation.max_tokens:
            self.finish = "length"

    def _stops(self) -> bool:
        stops = self._generation.stops
        if not stops or not any(stop in self._decode(self.tokens[-self._tail :]) for stop in stops):
            return False
        text = self._decode(self.tokens)
        self._text = text[: min((at for stop in stops if (at := text.find(stop)) >= 0), default=None)]
        return True

    def _is_wanted(self) -> bool:
        until = self._generation.until
        self._text = (until(self._decode(self.tokens)) if until is not None else "") or None
        return self._text is not None

    def generated(self) -> Generated:
        text = self._decode(self.tokens) if self._text is None else self._text
        return Generated(text, self.finish, len(self.prompt), self.cached, len(self.tokens))

    def _sampled(self, scores: Any) -> int:
        shares = np.exp((scores - scores.max()).astype(np.float64) / self._generation.temperature)
        shares /= shares.sum()
        if self._generation.top_p < 1:
            order = np.argsort(-shares, kind="stable")
            shares[order[np.cumsum(shares[order]) - shares[order] >= self._generation.top_p]] = 0
            shares /= shares.sum()
        return int(self._random.choice(len(shares), p=shares))

    def _decode(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=not self._marked))


class Matcher:
    """Constrains a text, token by token, with llguidance: tells which tokens may come next."""

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
