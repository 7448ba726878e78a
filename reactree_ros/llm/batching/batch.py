"""A batch of texts that one model generates; texts join and leave between two tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from reactree_ros.llm.batching import states as attention
from reactree_ros.llm.batching.held import look_ahead, masks_of
from reactree_ros.llm.batching.kept_prompts import KeptPrompts, shared
from reactree_ros.llm.batching.row import Row

#: Most tokens of one text that one forward pass reads.
CHUNK = 2048
#: Most tokens that one forward pass reads on a GPU, filled up ones included.
_GPU_CHUNK = 8192
#: Filled up tokens that cost no more than a pass of their own, which on a GPU does not depend on so many.
_SPARE, _GPU_SPARE = 16, 4096
#: Tokens in common with a prompt that is being read, for which it is worth waiting.
_WORTH_WAITING = 64
#: Kinds of rotary position that depend on the longest text of a batch.
_BY_THE_LONGEST = ("dynamic", "longrope")
#: How far scores may differ between a text read alone and in a batch, as a share of the largest score.
_CLOSE = 0.05


class Batch:
    """Texts that are generated together, with as few forward passes as can be.

    A pass reads all that is new of each text: its prompt, or what it said last. Only :attr:`waiting` may be used from
    other threads.

    Args:
        model: A causal language model of the transformers library.
        limit: Most tokens of all texts together, each counted as long as the longest can get; a single text may be
            longer. Kept prompts have the same limit.

    Attributes:
        waiting: Texts that have not joined yet, in order.
        why_alone: Why the model can generate only one text at a time; empty if it can generate several.
    """

    def __init__(self, model: Any, limit: int) -> None:
        self.waiting: deque[Row] = deque()
        self.rows: list[Row] = []
        self._left: list[Row] = []
        self._model, self._limit = model, limit
        gpu = model.device.type != "cpu"
        self._chunk, self._spare = (_GPU_CHUNK, _GPU_SPARE) if gpu else (CHUNK, _SPARE)
        self.why_alone, self._places = _together(model)
        self._kept = (
            KeptPrompts(limit, first=attention.first_of_one, is_plain=attention.is_plain)
            if self.why_alone
            else KeptPrompts(limit)
        )

    def advance(self) -> list[Row]:
        """Let waiting texts join where there is room, then read all that is new; return the texts that left."""
        import torch

        try:
            with torch.inference_mode():
                self._leave()
                self._join()
                for rows in self._passes():
                    self._read(rows)
                self._leave()
        except Exception as error:  # e.g. there is no memory for the states that are kept
            for row in self.rows:
                row.failure = row.failure or error
            self._left += self.rows
            self.rows = []
        left, self._left = self._left, []
        return left

    def _join(self) -> None:
        while self.waiting and self._has_room(self.waiting[0]):
            row = self.waiting[0]
            row.cached, states = self._kept.find(row.prompt)
            if any(shared(one.prompt, row.prompt) >= row.cached + _WORTH_WAITING for one in self.rows if one.is_begun):
                return
            self.waiting.popleft()
            try:
                self._begin(row, states)
            except Exception as error:  # fails this text only
                row.failure = error
                self._left.append(row)
            else:
                self.rows.append(row)

    def _begin(self, row: Row, states: Any) -> None:
        """Take over the states of the known beginning of a prompt."""
        row.read = row.cached
        row.say_forced()
        if self._places is None:
            row.states = attention.nothing_read(self._model) if states is None else states
            return
        number = len(self.rows)
        self._places.make(number + 1, max(one.longest for one in (*self.rows, row)))
        if states is not None:
            self._places.put(number, states)

    def _has_room(self, row: Row) -> bool:
        if not self.rows:
            return True
        rows = (*self.rows, row)
        return not self.why_alone and len(rows) * max(one.longest for one in rows) <= self._limit

    def _passes(self) -> Iterator[list[Row]]:
        """Yield texts that are read in one pass: of similar length, unless that saves nothing."""
        left = sorted((row for row in self.rows if not row.is_done), key=lambda row: -self._next(row))
        while left:
            longest = self._next(left[0])
            count = len(left)
            if sum(longest - self._next(row) for row in left) > self._spare:
                count = sum(2 * self._next(row) >= longest for row in left)
            count = min(count, max(1, self._chunk // longest))
            yield left[:count]
            left = left[count:]

    @staticmethod
    def _next(row: Row) -> int:
        """Return how many tokens of a text the next pass reads."""
        return min(CHUNK, row.unread)

    def _read(self, rows: Sequence[Row]) -> None:
        """Read what is new of some texts, and choose the next token of those that are read to their end."""
        try:
            scores = self._scores(rows, [row.next(self._next(row)) for row in rows])
            for row in rows:
                before, row.read = row.read, row.read + self._next(row)
                if before < len(row.prompt) <= row.read:
                    self._keep(row, row.prompt)
            _choose(rows, scores)
        except Exception as error:  # fails all texts of the pass
            for row in rows:
                row.failure = row.failure or error

    def _scores(self, rows: Sequence[Row], tokens: Sequence[list[int]]) -> Any:
        """Have the model read more tokens of each text; return the scores of the next token, by text."""
        if self._places is None:
            return _forward(self._model, [list(one) for one in tokens], rows[0].states)
        numbers = {id(row): number for number, row in enumerate(self.rows)}
        rows_of = [numbers[id(row)] for row in rows]
        return _called(self._model, **self._places.reading(rows_of, [row.read for row in rows], tokens))

    def _keep(self, row: Row, tokens: list[int]) -> None:
        if self._places is not None:
            self._kept.keep(tokens, self._places.copy(self._number(row), len(tokens)))

    def _number(self, row: Row) -> int:
        return next(number for number, one in enumerate(self.rows) if one is row)

    def _leave(self) -> None:
        """Remove the texts that are done, and keep their states."""
        for row in [row for row in self.rows if row.is_done]:
            if row.read and row.failure is None:
                tokens = row.tokens[: row.read]
                if self._places is None:
                    self._kept.keep(tokens, row.states)
                else:
                    self._keep(row, tokens)
            number, last = self._number(row), self.rows.pop()
            self._left.append(row)
            if last is not row:
                self.rows[number] = last
                if self._places is not None:
                    self._places.move(len(self.rows), number, last.read)


def _choose(rows: Sequence[Row], scores: Any) -> None:
    """Choose the next token of each text that is read to its end."""
    import torch

    ready = [number for number, row in enumerate(rows) if not row.unread]
    if not ready:
        return
    asked = [rows[number] for number in ready]
    scores = scores if len(ready) == len(rows) else scores[torch.tensor(ready, device=scores.device)]
    if (masks := masks_of([row.held for row in asked], scores.shape[1])) is not None:
        bits = torch.from_numpy(masks).to(scores.device)[:, :, None] >> torch.arange(32, device=scores.device)
        scores = scores.masked_fill((bits & 1).flatten(1)[:, : scores.shape[1]] == 0, float("-inf"))
    drawn = [number for number, row in enumerate(asked) if row.draws]
    likeliest = scores.argmax(1).tolist()
    of_drawn = iter(scores[torch.tensor(drawn, device=scores.device)].cpu().numpy()) if drawn else iter(())
    for number, row in enumerate(asked):
        token = row.draw(next(of_drawn)) if row.draws else likeliest[number]
        _do(row, partial(row.add, token))
    look_ahead(row.held for row in asked if not row.is_done)
    for row in asked:
        _do(row, row.say_forced)


def _do(row: Row, work: Callable[[], object]) -> None:
    """Do something with a text; if its constraint fails, only this text fails."""
    try:
        work()
    except Exception as error:
        row.failure = row.failure or error


def _forward(model: Any, tokens: list[list[int]], states: Any) -> Any:
    """Have the model read more tokens of a text; return the scores of the next token."""
    import torch

    return _called(model, torch.tensor(tokens, device=model.device), past_key_values=states)


def _called(model: Any, asked: Any, **given: Any) -> Any:
    return model(asked, **given, use_cache=True, logits_to_keep=1).logits[:, -1].float()


def _together(model: Any) -> tuple[str, attention.Places | None]:
    """Have the model read several texts at once; return why it cannot, or room for the states of several."""
    if why := _why_alone(model):
        return why, None
    attention.take_apart(model)
    try:
        places = _comes_out_alike(model)
    except Exception as error:  # a model may work differently from those of the library
        why = f"it fails with several texts ({type(error).__name__}: {' '.join(str(error).split())[:80]})"
        return why, None
    return ("a text comes out differently in a batch" if places is None else ""), places


def _why_alone(model: Any) -> str:
    """Return why the model cannot read several texts at once, as far as it says so itself."""
    if not attention.is_plain(attention.nothing_read(model)):
        return "its layers do not look at all tokens"
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [rope.get("rope_type"), *(one.get("rope_type") for one in rope.values() if isinstance(one, dict))]
    if any(kind in _BY_THE_LONGEST for kind in kinds):
        return "its positions go by the longest text"
    if model.config._attn_implementation not in ("sdpa", attention.ATTENTION):
        return f"its attention is '{model.config._attn_implementation}', not 'sdpa'"
    return ""


def _comes_out_alike(model: Any) -> attention.Places | None:
    """Try two texts of different lengths, each alone and then both together; return the room, None if they differ."""
    import torch

    texts = ((1, 2, 3, 4, 5), (6, 7))
    with torch.inference_mode():
        alone, begun = [], []
        for *before, last in texts:
            states = attention.nothing_read(model)
            _forward(model, [before], states)
            begun.append(attention.of_one(states))
            alone.append(_forward(model, [[last]], states)[0])
        places = attention.Places(model, begun[0])
        places.make(2, len(texts[0]))
        places.put(0, begun[0])  # and the other one is read together with the last token
        together = _called(model, **places.reading([0, 1], [len(texts[0]) - 1, 0], [texts[0][-1:], texts[1]]))
    scores = torch.stack(alone)
    return places if bool((together - scores).abs().max() <= _CLOSE * scores.abs().max()) else None
