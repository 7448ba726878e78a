"""A batch of texts that one model generates; texts join and leave between two tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from reactree_ros.llm.batching import states as attention
from reactree_ros.llm.batching.kept_prompts import KeptPrompts
from reactree_ros.llm.batching.row import Row

#: Most prompt tokens that one forward pass reads.
CHUNK = 2048
#: Kinds of rotary position that depend on the longest text of a batch.
_BY_THE_LONGEST = ("dynamic", "longrope")
#: How far scores may differ between a text read alone and in a batch, as a share of the largest score.
_CLOSE = 0.05


class Batch:
    """Texts that are generated together, with one forward pass per token for all of them.

    Each text has its own attention states. Only :attr:`waiting` may be used from other threads.

    Args:
        model: A causal language model of the transformers library.
        limit: Most tokens of all texts together, counted at their longest; a single text may be longer. Kept prompts
            have the same limit.

    Attributes:
        waiting: Texts that have not joined yet, in order.
        why_alone: Why the model can generate only one text at a time; empty if it can generate several.
    """

    def __init__(self, model: Any, limit: int) -> None:
        self.waiting: deque[Row] = deque()
        self.rows: list[Row] = []
        self.why_alone = _why_alone(model)
        self._model = model
        self._limit = limit
        self._kept = KeptPrompts(limit)

    def advance(self) -> list[Row]:
        """Let waiting texts join where there is room, then generate one token of each text; return those that left."""
        import torch

        done = self._leave()
        with torch.inference_mode():
            while self.waiting and self._has_room(self.waiting[0]):
                self.rows.append(self.waiting.popleft())
                self._read(self.rows[-1])
                done += self._leave()
            if self.rows:
                self._step()
        return done + self._leave()

    def _has_room(self, row: Row) -> bool:
        if not self.rows:
            return True
        return not self.why_alone and sum(one.longest for one in (*self.rows, row)) <= self._limit

    def _read(self, row: Row) -> None:
        """Read the prompt of a new text, and choose its first token."""
        try:
            row.cached, states = self._kept.find(row.prompt)
            row.states = attention.nothing_read(self._model) if states is None else states
            for start in range(row.cached, len(row.prompt), CHUNK):
                if row.cancelled:
                    return
                scores = _forward(self._model, [row.prompt[start : start + CHUNK]], row.states)
            row.read = len(row.prompt)
            if not self.why_alone:
                self._kept.keep(row.prompt, attention.first(row.states, row.read))
            row.take(scores[0].numpy())
        except Exception as error:  # fails this text only
            row.failure = error

    def _step(self) -> None:
        """Read the last token of each text, and choose the next one."""
        try:
            scores = _next_scores(self._model, self.rows)
        except Exception as error:  # fails all texts
            for row in self.rows:
                row.failure = error
            return
        for row, its in zip(self.rows, scores, strict=True):
            row.read += 1
            try:
                row.take(its.numpy())
            except Exception as error:  # the constraint of this text failed
                row.failure = error

    def _leave(self) -> list[Row]:
        """Remove the texts that are done, and keep their states."""
        done = [row for row in self.rows if row.is_done]
        self.rows = [row for row in self.rows if row not in done]
        for row in done:
            if row.read and row.failure is None:
                self._kept.keep([*row.prompt, *row.said][: row.read], row.states)
        return done


def _next_scores(model: Any, rows: Sequence[Row]) -> Any:
    """Have the model read the last token of each text; return the scores of the next token, by text."""
    import torch

    if len(rows) == 1:
        return _forward(model, [[rows[0].said[-1]]], rows[0].states)
    positions = torch.tensor([[row.read] for row in rows], device=model.device)
    states = attention.SideBySide([row.states for row in rows])
    return _forward(model, [[row.said[-1]] for row in rows], states, position_ids=positions)


def _forward(model: Any, tokens: list[list[int]], states: Any, **options: Any) -> Any:
    """Have the model read more tokens of each text; return the scores of the next token, by text."""
    import torch

    asked = torch.tensor(tokens, device=model.device)
    read = model(asked, past_key_values=states, use_cache=True, logits_to_keep=1, **options)
    return read.logits[:, -1].float().cpu()


def _why_alone(model: Any) -> str:
    """Have the model attend to each text separately; return why it cannot, or an empty text if it can."""
    if not attention.is_plain(attention.nothing_read(model)):
        return "its layers do not look at all tokens"
    rope = getattr(model.config.get_text_config(), "rope_parameters", None) or {}
    kinds = [rope.get("rope_type"), *(one.get("rope_type") for one in rope.values() if isinstance(one, dict))]
    if any(kind in _BY_THE_LONGEST for kind in kinds):
        return "its positions go by the longest text"
    if model.config._attn_implementation not in ("sdpa", attention.ATTENTION):
        return f"its attention is '{model.config._attn_implementation}', not 'sdpa'"
    attention.take_apart(model)
    try:
        return "" if _comes_out_alike(model) else "a text comes out differently in a batch"
    except Exception as error:  # a model may work differently from those of the library
        return f"it fails with several texts ({type(error).__name__}: {' '.join(str(error).split())[:80]})"


def _comes_out_alike(model: Any) -> bool:
    """Try two texts of different lengths, each alone and then both together."""
    import torch

    texts = ((1, 2, 3, 4, 5), (6, 7))
    with torch.inference_mode():
        alone, all_states = [], []
        for *before, last in texts:
            states = attention.nothing_read(model)
            _forward(model, [before], states)
            all_states.append(attention.first(states, len(before)))
            alone.append(_forward(model, [[last]], states)[0])
        positions = torch.tensor([[len(text) - 1] for text in texts], device=model.device)
        lasts = [[text[-1]] for text in texts]
        batched = _forward(model, lasts, attention.SideBySide(all_states), position_ids=positions)
    scores = torch.stack(alone)
    return bool((batched - scores).abs().max() <= _CLOSE * scores.abs().max())
