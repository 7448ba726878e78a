"""Language models by name, and their settings, as the command line and the inference node offer them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from reactree_ros.errors import UserError
from reactree_ros.llm.engine import ConstraintKind, Engine
from reactree_ros.llm.engine_model import EngineModel
from reactree_ros.llm.expert_model import ExpertModel
from reactree_ros.llm.fallback import Backup, FallbackModel
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.saying import Method
from reactree_ros.llm.turns import TakingTurns

#: Language models that can be named.
NAMES = ("expert", "openai", "vllm", "transformers", "fallback")


class ModelSettings(BaseModel):
    """Which language model answers, and how.

    Attributes:
        llm: ``expert`` (rules, no language model), ``openai`` (any OpenAI-compatible server), ``vllm`` (the engine in
            this process), ``transformers`` (a local Hugging Face model), ``fallback`` (several of them, in order).
        model: Name or folder of the model; empty with ``openai``: the first one that the server has.
        base_url: Of the server, e.g. ``http://127.0.0.1:8000/v1``; empty: ``$OPENAI_BASE_URL``.
        api_key_file: File that holds the server's key; empty: ``$OPENAI_API_KEY``, or none.
        chat: Lay the prompt out as turns of a chat; None: where the model has a chat template.
        method: How a decision is asked for; None: the best that the engine obeys.
        constraints: What the server obeys; None: it is tried out.
        time_limit: Longest time for one decision, in seconds.
        retries: How often a request that failed for a passing reason is sent again.
        max_concurrent: Requests that run at once.
        engine: Further options of the engine: vLLM's engine arguments; for ``transformers`` those of
            ``from_pretrained``.
        models: For ``fallback``: the language models in the order in which they are asked.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    llm: Literal["expert", "openai", "vllm", "transformers", "fallback"] = "expert"
    model: str = ""
    base_url: str = ""
    api_key_file: str = ""
    chat: bool | None = None
    method: Method | None = None
    constraints: tuple[ConstraintKind, ...] | None = None
    time_limit: float = Field(default=120.0, gt=0)
    retries: int = Field(default=3, ge=0, le=100)
    max_concurrent: int = Field(default=32, ge=1, le=4096)
    engine: dict[str, Any] = {}
    models: tuple[ModelSettings, ...] = ()

    @field_validator("models")
    @classmethod
    def _no_fallback_in_a_fallback(cls, models: tuple[ModelSettings, ...]) -> tuple[ModelSettings, ...]:
        if any(one.llm == "fallback" for one in models):
            raise ValueError("a fallback cannot stand in a fallback; list the models themselves")
        return models


def load_settings(path: str | Path) -> ModelSettings:
    """Read settings from a YAML file.

    Raises:
        UserError: The file cannot be read or is wrong; the message names what.
    """
    try:
        return settings_of(yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}, where=str(path))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from error


def settings_of(values: Any, *, where: str) -> ModelSettings:
    """Check settings.

    Raises:
        UserError: They are wrong; the message names where, the field and the value.
    """
    if not isinstance(values, Mapping):
        raise UserError(f"{where}: holds no settings; they look like 'llm: openai', one a line")
    try:
        return ModelSettings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":  # its value may be a key that was put there
            known = ", ".join(ModelSettings.model_fields)
            raise UserError(f"{where}: there is no setting {field}; there are {known}") from None
        raise UserError(f"{where}: {field} is {repr(first['input'])[:200]}: {first['msg']}") from error


def make_model(settings: ModelSettings) -> LanguageModel:
    """Make the language model that settings describe; it gets ready at :meth:`LanguageModel.ready` or when asked.

    Raises:
        UserError: A setting is missing, or what the model needs is not installed.
    """
    if settings.llm == "expert":
        return ExpertModel()
    if settings.llm == "fallback":
        if not settings.models:
            raise UserError("llm is 'fallback', but models is empty; list the language models in order")
        return FallbackModel([Backup(make_model(one), _name(one), one.time_limit) for one in settings.models])
    model = EngineModel(_engine(settings), method=settings.method, time_limit=settings.time_limit)
    return TakingTurns(model, settings.max_concurrent)


def _name(settings: ModelSettings) -> str:
    return " ".join(part for part in (settings.llm, settings.model) if part)


def _engine(settings: ModelSettings) -> Engine:
    if settings.llm == "openai":
        from reactree_ros.llm.openai_server import OpenAIServer

        return OpenAIServer(
            base_url=settings.base_url,
            model=settings.model,
            api_key_file=settings.api_key_file,
            chat=settings.chat,
            constraints=settings.constraints,
            retries=settings.retries,
            time_limit=settings.time_limit,
        )
    if not settings.model:
        raise UserError(f"llm is '{settings.llm}', but no model is named; name a Hugging Face model or a folder")
    if settings.llm == "vllm":
        from reactree_ros.llm.vllm_engine import VllmEngine

        return VllmEngine(settings.model, chat=settings.chat, options=settings.engine)
    from reactree_ros.llm.transformers_engine import TransformersEngine

    return TransformersEngine(settings.model, chat=settings.chat, options=settings.engine)
