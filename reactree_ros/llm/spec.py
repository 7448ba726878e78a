"""The registry's entry of a language model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reactree_ros.llm.port import LanguageModel
from reactree_ros.plugins import Registry, Spec


@dataclass(frozen=True, kw_only=True)
class ModelSpec(Spec):
    """A language model.

    Attributes:
        make: Makes it from its settings; it loads or connects at :meth:`LanguageModel.ready` or at the first request.
        flags: Settings that are command-line options of their own; the others are given as ``--llm-option NAME=VALUE``.
        weights: Finds the weights that it takes by default; raises :class:`UserError` if they are not installed.
        trained_for: Returns the planners, with options, that the model was trained for; none means any.
    """

    make: Callable[[Any], LanguageModel]
    flags: tuple[str, ...] = ()
    weights: Callable[[], object] = lambda: None
    examples: bool = True  # whether in-context examples help it; rules take no notice of them
    trained_for: Callable[[Any], tuple[str, ...]] = lambda settings: ()


MODELS: Registry[ModelSpec] = Registry(
    "language model",
    "reactree_ros.models",
    ModelSpec,
    first=("expert", "openai", "vllm"),
)
