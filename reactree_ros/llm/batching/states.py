"""The attention states of texts: what a model keeps of the tokens that it has read.

States are a ``DynamicCache`` of the transformers library; keys and values of a layer have the shape (1, heads, tokens,
size). Tensors in it are never written to, so that several texts may share them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

#: Name under which :func:`attend` is registered with the library.
ATTENTION = "reactree_rows"


def nothing_read(model: Any) -> Any:
    """Return the states of a text of which a model has read nothing."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


def is_plain(states: Any) -> bool:
    """Whether every layer looks at all tokens, and keeps something for each.

    States of layers with a sliding window, or that sum up what was before, cannot be cut.
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
    """Keys or values of several texts, each of its own length."""

    __slots__ = ()


class SideBySide:
    """The states of several texts, for a forward pass that reads one token of each.

    Args:
        all_states: The states, by text; each grows.
    """

    def __init__(self, all_states: Sequence[Any]) -> None:
        self._all = all_states

    def update(self, keys: Any, values: Any, layer: int, *given: Any, **named: Any) -> tuple[Several, Several]:
        """Add keys and values of a layer, those of each text to its own; return all of them."""
        grown = [
            states.update(keys[number : number + 1], values[number : number + 1], layer, *given, **named)
            for number, states in enumerate(self._all)
        ]
        return Several(keys for keys, _ in grown), Several(values for _, values in grown)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._all[0], name)


def attend(module: Any, query: Any, keys: Any, values: Any, attention_mask: Any, **given: Any) -> tuple[Any, None]:
    """Attend as PyTorch does; where texts lie side by side, to each text alone, so that nothing is padded or masked."""
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if not isinstance(keys, Several):
        attended, _ = sdpa_attention_forward(module, query, keys, values, attention_mask, **given)
        return attended, None
    one_by_one = zip(query.split(1), keys, values, strict=True)
    return torch.cat([sdpa_attention_forward(module, *one, None, **given)[0] for one in one_by_one]), None


def take_apart(model: Any) -> None:
    """Have a model attend by :func:`attend`."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, attend)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model.set_attn_implementation(ATTENTION)
