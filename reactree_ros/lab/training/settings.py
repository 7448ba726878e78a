"""What can be set of a training; the options of ``reactree train`` and the keys of a recipe are made from it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml
from reactree_ros.plugins.settings import Harmless, Settings, plain, read_settings


@dataclass(frozen=True)
class Shape:
    """The shape of a model of the Llama architecture.

    Attributes:
        width: Size of the hidden states.
        layers: How many layers.
        inner: Size between the two halves of a layer's second part.
    """

    width: int
    layers: int
    inner: int

    @property
    def heads(self) -> int:
        """Attention heads, of 32 each."""
        return self.width // 32


#: Shapes by name; with a vocabulary of 1,536 they have 0.5, 1.6, 3 and 4.7 million parameters. All but the smallest are
#: as wide, so that each can begin with another's weights.
PRESETS = {
    "tiny": Shape(96, 4, 256),
    "compact": Shape(192, 3, 512),
    "small": Shape(192, 6, 512),
    "large": Shape(192, 10, 512),
}


class TrainSettings(Settings):
    """Settings of a training, from scratch or of a base model."""

    preset: Literal["tiny", "compact", "small", "large"] = Field(
        default="small", description="shape of a model: 0.5, 1.6, 3 or 4.7 million parameters"
    )
    base: str = Field(
        default="", description="a causal model or its folder to fine-tune by LoRA; empty: a model from scratch"
    )
    start: str = Field(
        default="",
        description="a trained model's folder, whose weights and tokenizer it begins with, of as wide a preset: layers "
        "are left out, or come to it that add nothing yet; empty: random ones",
    )
    rank: int = Field(default=16, ge=1, le=1024, description="rank of the LoRA matrices of a base model")
    vocabulary: int = Field(default=1536, ge=300, le=65000, description="most tokens of a tokenizer from scratch")
    context: int = Field(default=8192, ge=64, le=131072, description="tokens that the model's context holds")
    tokens: int = Field(default=50_000_000, ge=1, description="tokens to train on, as often as they come up")
    batch_tokens: int = Field(default=4096, ge=64, description="tokens of a step")
    shares: Annotated[str, Harmless(plain)] = Field(
        default="",
        description="how much of the tokens is of each --data, in their order, as 2,1,1; empty: each node as often",
    )
    pass_tokens: int = Field(default=4096, ge=64, description="tokens of a forward pass; more where one node is longer")
    learning_rate: float = Field(
        default=0.0, ge=0, le=1, description="before it decays; 0: 0.002 from scratch, 0.0002 of a base model"
    )
    decay: float = Field(default=0.4, ge=0, le=1, description="last share of the training in which it decays to 0")
    masked: bool = Field(default=True, description="learn what to say among what may be said, as decoding holds to it")
    reading: float = Field(
        default=0.3, ge=0, le=10, description="weight of learning what is read, beside what is said; no base model does"
    )
    precision: Literal["auto", "bf16", "fp32"] = Field(
        default="auto", description="of forward and backward passes; auto: bf16 where the processor has it"
    )
    processes: int = Field(default=0, ge=0, le=256, description="training processes; 0: one a core, or one a GPU")
    reports: int = Field(default=40, ge=1, description="how often there is a checkpoint and a point of the curves")
    held_out: int = Field(default=1000, ge=0, description="held-out nodes that a point looks at; the last one at all")
    seed: int = Field(default=0, description="seed of weights and order")

    @field_validator("shares")
    @classmethod
    def _numbers(cls, shares: str) -> str:
        try:
            wrong = any(not 0 < float(one) < math.inf for one in shares.split(",") if shares)
        except ValueError:
            wrong = True
        if wrong:
            raise ValueError(f"'{shares}' is no list of numbers above 0 with commas between them, as 2,1,1")
        return shares

    @property
    def parts(self) -> tuple[float, ...]:
        """How much of the tokens is of each dataset; none: each node comes as often."""
        return tuple(float(one) for one in self.shares.split(",") if self.shares)

    @property
    def rate(self) -> float:
        """The learning rate before it decays."""
        return self.learning_rate or (2e-4 if self.base else 2e-3)


def read_recipe(path: Path, given: Mapping[str, Any]) -> TrainSettings:
    """Read settings from a YAML file, one a line; those that are given go before it.

    Raises:
        UserError: The file cannot be read, or a setting is wrong.
    """
    values = read_yaml(path)[0] or {}
    if not isinstance(values, dict):
        raise UserError(f"--recipe {path}: holds no settings; they look like 'preset: small', one a line")
    return read_settings(TrainSettings, {**values, **given}, where=str(path))
