"""What a language model is to the registry."""

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
        make: Makes it from its settings; it gets ready at :meth:`LanguageModel.ready` or when it is asked.
        flags: Names of settings that are options of their own on the command line; the others are given as
            ``--llm-option NAME=VALUE``.
        trained_for: Returns from its settings for which planners it was trained, with their options; none: for any.
    """

    make: Callable[[Any], LanguageModel]
    flags: tuple[str, ...] = ()
    trained_for: Callable[[Any], tuple[str, ...]] = lambda settings: ()


MODELS: Registry[ModelSpec] = Registry(
    "language model", "reactree_ros.models", ModelSpec, first=("expert", "openai", "vllm", "transformers", "small")
)
