"""The model that is trained, from scratch or from a base, its losses and its optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, LlamaConfig, LlamaForCausalLM
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from reactree_lab.training.prepared import FILLING, Pass
from reactree_lab.training.settings import PRESETS, TrainSettings
from reactree_local.small import TOKENIZER, WEIGHTS
from reactree_ros.errors import UserError

#: Name of :func:`attend` in the transformers library's registry.
_ATTENTION = "reactree_training"
#: Longest text for attention by matrix products, and the number of its tokens per product.
_LONGEST, _BLOCK = 4096, 512
#: Base of the rotary positions: most rotate slowly, so that words are found at any distance.
_THETA = 1e6
#: Share of Muon's learning rate for AdamW: words must not change faster than the heads that look for them.
_OTHERS = 0.25
#: Prefix of the names of layers' weights, and the weights that everything a layer adds passes through.
_LAYERS = "model.layers."
_ADDING = ("self_attn.o_proj.weight", "mlp.down_proj.weight")
#: Spread of the embeddings of a model from scratch.
_EMBEDDED = 0.1


def make_model(settings: TrainSettings, vocabulary: int) -> Any:
    """Make a model of the Llama architecture with random weights; the same seed gives the same weights.

    Half of the heads of the inner layers start by looking for tokens like their own (equal keys and queries; Trockman
    and Kolter 2023, "Mimetic Initialization of Self-Attention Layers"), and no layer adds anything yet.
    """
    shape = PRESETS[settings.preset]
    torch.manual_seed(settings.seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.inner,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=settings.context,
        rope_theta=_THETA,
        initializer_range=shape.width**-0.5,
        tie_word_embeddings=True,
        attention_bias=False,
        bos_token_id=None,
        eos_token_id=0,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(_EMBEDDED / config.initializer_range)
        for number, layer in enumerate(model.model.layers):
            for part in _ADDING:
                layer.get_parameter(part).zero_()
            if 0 < number < shape.layers - 1:
                _look_for_the_like(layer.self_attn, shape.heads // 2)
    return model


def _look_for_the_like(attention: Any, heads: int) -> None:
    size = attention.head_dim
    for begin in range(0, heads * size, size):
        directions = nn.init.orthogonal_(torch.empty(size, attention.q_proj.in_features))
        for part in (attention.q_proj, attention.k_proj):
            part.weight[begin : begin + size] = directions


@dataclass(frozen=True)
class Begun:
    tokenizer: str  # the content of the tokenizer's file
    weights: Mapping[str, Any]  # the weights by name


def begun_with(model: str) -> Begun:
    folder = Path(model)
    try:
        return Begun((folder / TOKENIZER).read_text(encoding="utf-8"), load_file(folder / WEIGHTS))
    except Exception as error:  # any error of two libraries
        raise UserError(
            f"--start {model}: is not a model folder of `reactree lab train`: {' '.join(str(error).split())[:200]}"
        ) from error


def with_layers(weights: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Change the number of layers of a model's weights, so that a smaller or larger model can start with them.

    To remove layers, some are left out evenly. To add layers, each new one copies the one before it and adds nothing
    yet (Wu et al. 2024, "LLaMA Pro: Progressive LLaMA with Block Expansion"): at first, the larger model gives the same
    output.
    """
    layers: dict[int, dict[str, Any]] = {}
    fitted = {}
    for name, weight in weights.items():
        if name.startswith(_LAYERS):
            layer, _, part = name.removeprefix(_LAYERS).partition(".")
            layers.setdefault(int(layer), {})[part] = weight
        else:
            fitted[name] = weight
    last = max(layers, default=0)
    chosen = [round(number * last / max(1, count - 1)) for number in range(count)]
    for number, layer_of in enumerate(chosen):
        new = layer_of in chosen[:number]
        for part, weight in layers.get(layer_of, {}).items():
            fitted[f"{_LAYERS}{number}.{part}"] = torch.zeros_like(weight) if new and part in _ADDING else weight
    return fitted


def attend(module: Any, query: Any, keys: Any, values: Any, attention_mask: Any, **given: Any) -> tuple[Any, None]:
    """Attend as PyTorch does; on the CPU with matrix products, whose backward pass takes a fraction of the time."""
    rows, heads, length, size = query.shape
    quick = values.device.type == "cpu" and values.dtype is torch.bfloat16 and length <= _LONGEST
    if not quick or attention_mask is not None:
        attended, _ = sdpa_attention_forward(module, query, keys, values, attention_mask, **given)
        return attended, None
    if keys.shape[1] < heads:  # several heads share their keys
        keys, values = (one.repeat_interleave(heads // one.shape[1], 1) for one in (keys, values))
    query, keys, values = (one.flatten(0, 1) for one in (query, keys, values))
    later = torch.full((length, length), -torch.inf, dtype=query.dtype).triu(1).expand(rows * heads, length, length)
    blocks = []
    for begin in range(0, length, _BLOCK):
        end = min(length, begin + _BLOCK)
        hidden = later[:, begin:end, :end]
        scores = torch.baddbmm(hidden, query[:, begin:end], keys[:, :end].transpose(1, 2), alpha=size**-0.5)
        blocks.append(torch.softmax(scores, -1) @ values[:, :end])
    mixed = torch.cat(blocks, 1) if len(blocks) > 1 else blocks[0]
    return mixed.view(rows, heads, length, size).transpose(1, 2).contiguous(), None


@dataclass(frozen=True)
class Learnt:
    losses: torch.Tensor  # the loss of each token of a decision
    right: torch.Tensor  # whether it would have been chosen
    read: torch.Tensor  # summed losses of all tokens except each node's first, without constraint; 0 if not asked for


class Learner:
    """A model in training: scores decisions' tokens among the allowed ones, and all tokens if wanted.

    If passes have less precision than the weights, a copy of the model makes them. So nothing is cast on the way, which
    saves a quarter of the time, and small steps still add up in the weights. LoRA matrices are added to the copy's
    weights once a step, instead of to each layer's output: several times as fast on a GPU.
    """

    def __init__(self, model: Any, precision: torch.dtype) -> None:
        AttentionInterface.register(_ATTENTION, attend)
        AttentionMaskInterface.register(_ATTENTION, sdpa_mask)
        model.set_attn_implementation(_ATTENTION)
        self.model = model
        adapted = {name: one for name, one in model.named_modules() if hasattr(one, "get_delta_weight")}
        self._passes = deepcopy(model) if adapted or precision is not torch.float32 else model
        for name in adapted:
            self._passes.set_submodule(name, self._passes.get_submodule(name).base_layer)
        for weights in self._passes.parameters():  # not the buffers: positions need fp32
            weights.data = weights.data.to(precision)
        self._copied: list[tuple[torch.Tensor, Callable[[], torch.Tensor]]] = []
        if self._passes is not model:
            plain = dict(model.named_parameters())
            for name, copy in self._passes.named_parameters():
                matrix = adapted.get(name.removesuffix(".weight"))
                copy.requires_grad_(matrix is not None or plain[name].requires_grad)
                if copy.requires_grad:
                    self._copied.append((copy, partial(_with_lora, matrix) if matrix else partial(plain.get, name)))
        self._sums: dict[int, torch.Tensor] = {}
        _normalize_at_once(self._passes)

    def train(self, *, learning: bool) -> None:
        self._passes.train(learning)
        with torch.no_grad():
            for copy, weights in self._copied:
                copy.copy_(weights())

    def learn(self, loss: torch.Tensor) -> None:
        loss.backward()
        for number, (copy, _) in enumerate(self._copied):
            if copy.grad is not None:
                known = self._sums.get(number)
                self._sums[number] = copy.grad.float() if known is None else known.add_(copy.grad)
                copy.grad = None

    def hand_over(self) -> None:
        """Give the gradients since the last time to the model's weights."""
        if self._sums:
            weights = [self._copied[number][1]() for number in self._sums]
            torch.autograd.backward(weights, [*self._sums.values()])
            self._sums.clear()

    def __call__(self, one: Pass, *, reading: bool = False) -> Learnt:
        """Score the tokens of decisions; with reading, all tokens."""
        device = self.model.device

        def there(array: Any) -> torch.Tensor:
            tensor = torch.from_numpy(array)
            if device.type == "cuda":  # from pinned memory, the processor need not wait for the GPU
                return tensor.pin_memory().to(device, non_blocking=True)
            return tensor.to(device)

        tokens, read = there(one.tokens), torch.zeros((), device=device)
        head = self._passes.get_output_embeddings()
        states = self._passes.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        scores = head(states.flatten(0, 1)[there(one.before)])
        if reading:
            after, next_ = head(states[:, :-1]).float().flatten(0, 1), tokens[:, 1:].flatten()
            read = nn.functional.cross_entropy(after, next_, ignore_index=FILLING, reduction="sum")
        scores = scores.float()
        if one.held.any():
            refused = there(one.held)[:, None].expand(scores.shape).clone()
            refused[tuple(there(one.may))] = False
            scores = scores.masked_fill(refused, -torch.inf)
        targets = there(one.targets)
        losses = nn.functional.cross_entropy(scores, targets, reduction="none")
        return Learnt(losses, scores.argmax(-1) == targets, read)


def _with_lora(layer: Any) -> torch.Tensor:
    weights: torch.Tensor = layer.base_layer.weight + layer.get_delta_weight(layer.active_adapters[0])
    return weights


def _normalize_at_once(model: Any) -> None:
    """Have the norms of a Llama computed by one kernel instead of by six."""
    for one in model.modules():
        if type(one) is LlamaRMSNorm:
            one.forward = partial(_normalized, one)


def _normalized(norm: Any, states: torch.Tensor) -> torch.Tensor:
    return nn.functional.rms_norm(states, norm.weight.shape, norm.weight, norm.variance_epsilon)


class Optimiser:
    """Muon for the matrices of the layers and AdamW for the rest; AdamW for all of a base, or if torch has no Muon."""

    def __init__(self, model: nn.Module, rate: float, *, base: bool = False) -> None:
        named = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
        matrices = [one for name, one in named if one.ndim == 2 and ".layers." in name]
        if base or not hasattr(torch.optim, "Muon"):
            matrices = []
        others = [one for _, one in named if not any(one is matrix for matrix in matrices)]
        slow = rate * _OTHERS if matrices else rate
        self.parts: list[torch.optim.Optimizer] = [torch.optim.AdamW(others, slow, betas=(0.9, 0.95), weight_decay=0.0)]
        if matrices:
            muon = torch.optim.Muon(matrices, rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")
            self.parts.append(muon)
        self._rates = [part.param_groups[0]["lr"] for part in self.parts]

    def step(self, share: float) -> None:
        for part, rate in zip(self.parts, self._rates, strict=True):
            for group in part.param_groups:
                group["lr"] = rate * share
            part.step()
            part.zero_grad(set_to_none=True)

    def state_dict(self) -> list[dict[str, Any]]:
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: Sequence[dict[str, Any]]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def rate_share(progress: float, decay: float, warm_up: float = 0.02) -> float:
    """Return the share of the learning rate at a point of the training: it rises, stays, and falls to 0 at the end."""
    rise = min(1.0, (progress + 1e-9) / warm_up)
    fall = min(1.0, (1.0 - progress) / decay) if decay else 1.0
    return max(0.0, min(rise, fall))
