"""Settings of a training; the options of ``reactree lab train`` and the keys of a recipe come from here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from reactree_ros.files.read_back import read_yaml
from reactree_ros.plugins.settings import Settings, read_settings

#: The folder of LoRA matrices, in the training's folder, and the same matrices for llama.cpp.
ADAPTER, GGUF = "adapter", "adapter.gguf"
#: The files of the curves, in the training's folder.
CSV, PLOT = "curves.csv", "curves.svg"


@dataclass(frozen=True)
class Shape:
    width: int  # size of the hidden states
    layers: int  # number of layers
    inner: int  # inner size of a layer's feed-forward part

    @property
    def heads(self) -> int:
        return self.width // 32


#: Shapes by name; with a vocabulary of 1,536 they have 0.5, 1.6, 3 and 4.7 million parameters. All except the smallest
#: have the same width, so that each can start with another's weights.
PRESETS = {
    "tiny": Shape(96, 4, 256),
    "compact": Shape(192, 3, 512),
    "small": Shape(192, 6, 512),
    "large": Shape(192, 10, 512),
}


class TrainSettings(Settings):
    preset: Literal["tiny", "compact", "small", "large"] = Field(
        default="small", description="shape of a model: 0.5, 1.6, 3 or 4.7 million parameters"
    )
    base: str = Field(
        default="",
        description="a causal model to train further: its name, its folder or a GGUF file; empty: a model from scratch",
    )
    start: str = Field(
        default="",
        description="folder of a trained model to start from, with a preset of the same width: layers "
        "are left out, or added without effect at first; with --base, of LoRA matrices; empty: random weights",
    )
    rank: int = Field(
        default=16, ge=0, le=1024, description="rank of the LoRA matrices of a base model; 0: learn all its weights"
    )
    matrices: str = Field(
        default="",
        description="matrices of a base model that get LoRA matrices, separated by commas, e.g. q_proj,v_proj; empty: "
        "all of its layers",
    )
    chat: bool = Field(
        default=False,
        description="lay prompts out by the base model's chat template, from datasets with --format chat; otherwise as "
        "text",
    )
    recompute: bool = Field(
        default=False,
        description="compute a base model's states again in the backward pass: less memory, a third more time",
    )
    vocabulary: int = Field(default=1536, ge=300, le=65000, description="most tokens of a tokenizer from scratch")
    context: int = Field(default=8192, ge=64, le=131072, description="tokens in the model's context")
    tokens: int = Field(default=50_000_000, ge=1, description="tokens to train on, including repetitions")
    batch_tokens: int = Field(default=4096, ge=64, description="tokens per step")
    shares: str = Field(
        default="",
        description="share of each --data in the tokens, in their order, as 2,1,1; empty: each node equally often",
    )
    pass_tokens: int = Field(default=4096, ge=64, description="tokens per forward pass; more if one node is longer")
    learning_rate: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="learning rate before its decay; 0: 0.002 from scratch, 0.0015 for LoRA matrices, 0.0004 for a "
        "base model's own weights",
    )
    decay: float = Field(
        default=0.4, ge=0, le=1, description="last share of the training, in which the learning rate decays to 0"
    )
    masked: bool = Field(
        default=True,
        description="learn to choose among the allowed tokens, like constrained decoding; not in chats, nor with a "
        "tokenizer that is none of bytes",
    )
    reading: float = Field(
        default=0.3,
        ge=0,
        le=10,
        description="weight of learning the prompts, in addition to the decisions; not for a base model",
    )
    precision: Literal["auto", "bf16", "fp32"] = Field(
        default="auto", description="number type of forward and backward passes; auto: bf16 if the processor has it"
    )
    processes: int = Field(default=0, ge=0, le=256, description="training processes; 0: one per core, or one per GPU")
    reports: int = Field(default=40, ge=1, description="number of checkpoints and points of the curves")
    held_out: int = Field(default=1000, ge=0, description="held-out nodes per point; the last point takes all")
    seed: int = Field(default=0, description="seed of weights and order")

    @field_validator("shares")
    @classmethod
    def _numbers(cls, shares: str) -> str:
        try:
            wrong = any(not 0 < float(one) < math.inf for one in shares.split(",") if shares)
        except ValueError:
            wrong = True
        if wrong:
            raise ValueError(f"'{shares}' is not a list of numbers above 0, separated by commas, as 2,1,1")
        return shares

    @property
    def parts(self) -> tuple[float, ...]:
        """Share of each dataset in the tokens; none: each node comes equally often."""
        return tuple(float(one) for one in self.shares.split(",") if self.shares)

    @property
    def rate(self) -> float:
        return self.learning_rate or (2e-3 if not self.base else 1.5e-3 if self.rank else 4e-4)

    @model_validator(mode="after")
    def _possible(self) -> TrainSettings:
        if not self.base and (self.chat or self.matrices or self.recompute):
            raise ValueError("chat, matrices and recompute are for a base model; name it with --base")
        return self


def read_recipe(path: Path, given: Mapping[str, Any]) -> TrainSettings:
    """Read settings from a YAML file, one per line; given settings override them."""
    values = read_yaml(path)[0]
    return read_settings(TrainSettings, {**values, **given} if isinstance(values, dict) else values, where=str(path))
