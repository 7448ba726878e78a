"""Attention states of texts: keys and values of the tokens that a model has read.

States are a ``DynamicCache`` of the transformers library. Keys and values of a layer have the shape (1, heads, tokens,
size). Its tensors are never changed in place, so that texts can share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Name of :func:`attend` in the library's registry.
ATTENTION = "reactree_rows"


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


def first(states: Any, count: int) -> Any:
    """Return the states of a text's first tokens."""
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


class Several(tuple[Any, ...]):
    """Keys or values of several texts of different lengths."""

    __slots__ = ()


class SideBySide:
    """The states of several texts, for a forward pass that reads one token of each."""

    def __init__(self, all_states: Sequence[Any]) -> None:
        self._all = all_states

    def update(self, keys: Any, values: Any, layer: int, *given: Any, **named: Any) -> tuple[Several, Several]:
        """Add a layer's keys and values to the text that each belongs to; return those of all texts."""
        grown = [
            states.update(keys[number : number + 1], values[number : number + 1], layer, *given, **named)
            for number, states in enumerate(self._all)
        ]
        return Several(keys for keys, _ in grown), Several(values for _, values in grown)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._all[0], name)


def attend(module: Any, query: Any, keys: Any, values: Any, attention_mask: Any, **given: Any) -> tuple[Any, None]:
    """Attend as PyTorch does, but to each text of a batch separately, so that nothing is padded or masked."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if not isinstance(keys, Several):
        attended, _ = sdpa_attention_forward(module, query, keys, values, attention_mask, **given)
        return attended, None
    one_by_one = zip(query.split(1), keys, values, strict=True)
    return torch.cat([sdpa_attention_forward(module, *one, None, **given)[0] for one in one_by_one]), None


def take_apart(model: Any) -> None:
    """Make a model attend by :func:`attend`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, attend)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)
