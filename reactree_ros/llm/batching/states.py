"""Attention states of texts: keys and values of the tokens that a model has read.

Of texts that are read together, :class:`Places` holds them in one tensor of the shape (layers, 2, texts, heads, tokens,
size). Those of a kept prompt have the same shape without `texts`. A model that reads one text at a time has a
``DynamicCache`` of the transformers library.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Name of :func:`attend` in the library's registry.
ATTENTION = "reactree_rows"
#: Tokens by which the room for each text grows.
_STEP = 256


def nothing_read(model: Any) -> Any:
    """Return the states of a text before the model reads it."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def is_plain(states: Any) -> bool:
    """Return whether every layer attends to all tokens, and keeps something for each.

    States of a sliding window, or of a layer that sums up earlier tokens, cannot be cut.
    """
    from transformers.cache_utils import DynamicLayer

    return all(type(layer) is DynamicLayer for layer in states.layers)


def of_one(states: Any) -> Any:
    """Return the states of a text that was read alone, as one tensor.

    Raises:
        RuntimeError: The layers have different shapes, or lie on different devices.
    """
    import torch

    return torch.stack([torch.stack([layer.keys[0], layer.values[0]]) for layer in states.layers])


def first(states: Any, count: int) -> Any:
    """Return the states of a text's first tokens."""
    return states[..., :count, :]


def first_of_one(states: Any, count: int) -> Any:
    """Return the states of the first tokens of a text that is read alone; the tensors are shared."""
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    part = DynamicCache()
    part.layers = []
    for layer in states.layers:
        cut = DynamicLayer()
        cut.lazy_initialization(layer.keys, layer.values)
        cut.keys, cut.values = layer.keys[..., :count, :], layer.values[..., :count, :]
        part.layers.append(cut)
    return part


class Places:
    """Room for the states of several texts. The texts are numbered from 0; the room grows when it must.

    Args:
        model: The model that reads them.
        like: States of any text, as one tensor.
    """

    def __init__(self, model: Any, like: Any) -> None:
        layers, _, heads, _, size = like.shape
        self._states = like.new_zeros(layers, 2, 0, heads, 0, size)
        self._empty = nothing_read(model)
        self._groups = model.config.get_text_config().num_attention_heads // heads

    def make(self, texts: int, tokens: int) -> None:
        """Make room for so many texts, each with so many tokens and one place that nobody looks at."""
        layers, _, had, heads, held, size = self._states.shape
        if texts <= had and tokens < held:
            return
        room = self._states.new_zeros(
            layers, 2, 1 << (texts - 1).bit_length(), heads, -(-(tokens + 1) // _STEP) * _STEP, size
        )
        both = min(had, texts), min(held, room.shape[4])
        room[:, :, : both[0], :, : both[1]] = self._states[:, :, : both[0], :, : both[1]]
        self._states = room

    def put(self, number: int, states: Any) -> None:
        """Take over the states of a text's first tokens."""
        self._states[:, :, number, :, : states.shape[-2]] = states

    def copy(self, number: int, count: int) -> Any:
        """Return the states of a text's first tokens; they stay as they are."""
        return self._states[:, :, number, :, :count].clone()

    def move(self, number: int, to: int, count: int) -> None:
        """Give a text another number."""
        self._states[:, :, to, :, :count] = self._states[:, :, number, :, :count]

    def reading(self, numbers: Sequence[int], read: Sequence[int], tokens: Sequence[Sequence[int]]) -> dict[str, Any]:
        """Return what a model is called with to read more tokens of some texts.

        Shorter texts are filled up in front, so that the last column is each text's last token. What fills up is
        written to the last place, which no token looks at.

        Args:
            numbers: The texts.
            read: How many tokens of each are read already.
            tokens: The next tokens of each.
        """
        import numpy as np
        import torch

        longest, most = max(map(len, tokens)), self._states.shape[4]
        given = np.zeros((3, len(tokens), longest), np.int64)
        given[2] = most - 1
        for row, (before, more) in enumerate(zip(read, tokens, strict=True)):
            given[0, row, -len(more) :] = more
            given[1:, row, -len(more) :] = np.arange(before, before + len(more))
        end = max(before + len(more) for before, more in zip(read, tokens, strict=True))
        end = min(most, -(-end // 64) * 64)
        device, kind = self._states.device, self._states.dtype
        asked, positions, places = torch.from_numpy(given).to(device, non_blocking=True)
        seen = torch.arange(end, device=device) <= positions[:, :, None]
        mask = torch.zeros(seen.shape, dtype=kind, device=device).masked_fill_(~seen, float("-inf"))
        mask = mask.repeat(1, self._groups, 1)[:, None]
        beside = Beside(self._states, self._empty, list(numbers), places, end)
        return {"asked": asked, "position_ids": positions, "attention_mask": mask, "past_key_values": beside}


class Beside:
    """The states of several texts, for one forward pass."""

    def __init__(self, states: Any, empty: Any, numbers: list[int], places: Any, end: int) -> None:
        import torch

        self._states, self._empty, self._places, self._end = states, empty, places, end
        self._all = numbers == list(range(len(numbers)))
        self._numbers = torch.tensor(numbers, device=states.device)

    def update(self, keys: Any, values: Any, layer: int, *given: Any, **named: Any) -> tuple[Any, Any]:
        """Add a layer's keys and values; return those of all tokens of these texts."""
        both = []
        for into, new in zip(self._states[layer], (keys, values), strict=True):
            into[self._numbers[:, None], :, self._places] = new.transpose(1, 2)
            part = into[: len(self._numbers)] if self._all else into[self._numbers]
            both.append(part[:, :, : self._end])
        return both[0], both[1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._empty, name)


def attend(module: Any, query: Any, keys: Any, values: Any, attention_mask: Any, **given: Any) -> tuple[Any, None]:
    """Attend as PyTorch does. Query heads that share keys are put one below the other, so that no keys are copied."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    rows, heads, tokens, size = query.shape
    below = heads // keys.shape[1] * tokens
    if attention_mask is None or attention_mask.shape[2] != below or below == tokens:
        attended, _ = sdpa_attention_forward(module, query, keys, values, attention_mask, **given)
        return attended, None
    packed = query.reshape(rows, keys.shape[1], below, size)
    attended = torch.nn.functional.scaled_dot_product_attention(
        packed, keys, values, attn_mask=attention_mask, scale=given.get("scaling")
    )
    return attended.reshape(rows, heads, tokens, -1).transpose(1, 2).contiguous(), None


def take_apart(model: Any) -> None:
    """Make a model attend by :func:`attend`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, attend)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)
