"""Settings that all engines share, and the language model made from them."""

from __future__ import annotations

from typing import Annotated, Any, get_origin

from pydantic import BeforeValidator, Field, model_validator
from pydantic.fields import FieldInfo

from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import are_harmless, keys_in
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.decoding import Method
from reactree_ros.llm.engine import Engine
from reactree_ros.llm.engine_model import EngineModel, FairQueue
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.reasoning import Reasoning
from reactree_ros.llm.seeing import MOST_SHOWN, Seeing
from reactree_ros.llm.spec import read_yaml, trained_for
from reactree_ros.plugins.settings import Harmless, Settings, plain

_WAY_OUT = "set HF_TOKEN, or OPENAI_API_KEY for a server, in the environment instead"

#: Reads ``auto``, as texts say it, as None.
_AUTO = BeforeValidator(lambda value: None if value in ("", "auto") else value)


def _arguments(name: str, given: Any, field: FieldInfo) -> dict[str, Any]:
    arguments = (read_yaml(given) if isinstance(given, str) else given) or {}
    if not isinstance(arguments, dict):
        raise ValueError(f"{name} must be like {(field.examples or ['{name: value}'])[0]}")
    if keys := keys_in(arguments):
        raise ValueError(f"{name} must not hold a key ({keys[0]}); {_WAY_OUT}")
    return arguments


class AnsweringLimits(Settings):
    """Limits on requests at once and on their time."""

    request_timeout: float = Field(
        default=120.0,
        gt=0,
        le=86400,
        description="longest time for one decision, retries included, in seconds; a server that is tried for the first "
        "time has as long for each of its answers; longer for a long prompt, or if the model was slow before",
    )
    max_concurrent: int = Field(default=32, ge=1, le=4096, description="most requests at once")


class EngineSettings(AnsweringLimits):
    """Settings of every engine."""

    model: str = Field(default="", description="name or folder of the model; empty: the server's first")
    chat: Annotated[bool | None, _AUTO] = Field(
        default=None, description="send prompts as chat messages; auto: if the model has a chat template"
    )
    examples: Annotated[Examples | None, _AUTO] = Field(
        default=None,
        description="how in-context examples stand in a chat: as turns of it or as text; auto: turns",
    )
    method: Annotated[Method | None, _AUTO] = Field(
        default=None,
        description="how to ask for a decision; auto: the best method that the engine obeys",
    )
    thinking: Annotated[bool | None, _AUTO] = Field(
        default=None, description="whether the model thinks before it answers; auto: its chat template decides"
    )
    reasoning_tokens: int = Field(
        default=2048, ge=0, description="most tokens that a thinking model may think before each answer"
    )
    reasoning_effort: Annotated[str, Harmless(plain)] = Field(
        default="", description="how hard such a model thinks, e.g. low, medium, high; empty: the model's default"
    )
    chat_template_kwargs: Annotated[dict[str, Any], Harmless(are_harmless)] = Field(
        default={},
        description="further arguments of the chat template, e.g. {custom: true}",
        examples=["{custom: true}"],
    )

    @model_validator(mode="before")
    @classmethod
    def _read_arguments(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Read each mapping, given as one or as YAML; it may hold no key.

        A field's own validator would repeat the value in its errors.
        """
        fields = {name: field for name, field in cls.model_fields.items() if get_origin(field.annotation) is dict}
        return {name: _arguments(name, one, fields[name]) if name in fields else one for name, one in values.items()}

    @property
    def reasoning(self) -> Reasoning:
        return Reasoning(
            thinking=self.thinking,
            tokens=self.reasoning_tokens,
            effort=self.reasoning_effort,
            template=self.chat_template_kwargs,
        )

    @property
    def how(self) -> dict[str, Any]:
        """The settings that an engine hands on to a server of its own."""
        return self.model_dump(include={*EngineSettings.model_fields, *SeeingSettings.model_fields} - {"model"})

    def queue(self, engine: Engine) -> LanguageModel:
        model = EngineModel(engine, method=self.method, request_timeout=self.request_timeout)
        return FairQueue(model, self.max_concurrent)


class SeeingSettings(Settings):
    """Settings of what a model is shown that may see."""

    sees: Annotated[bool | None, _AUTO] = Field(
        default=None, description="whether the model is shown pictures; auto: if it can see, as far as it can be known"
    )
    sees_newest: int = Field(
        default=4,
        ge=1,
        le=MOST_SHOWN,
        description="most pictures in a prompt; of older ones it has the captions",
    )
    sees_side: int = Field(
        default=768, ge=28, le=4096, description="longest side of a picture in pixels; a larger one is made smaller"
    )

    @property
    def seeing(self) -> Seeing:
        return Seeing(most=self.sees_newest, side=self.sees_side)


class LocalEngineSettings(EngineSettings):
    """Settings of every engine that loads a model on this machine."""

    adapter: str = Field(default="", description="folder of a LoRA adapter of peft for the model; empty: none")
    engine_args: Annotated[dict[str, Any], Harmless(are_harmless)] = Field(
        default={},
        description="further arguments of the engine, e.g. {max_num_seqs: 64}",
        examples=["{max_num_seqs: 64}"],
    )

    @property
    def trained(self) -> tuple[str, ...]:
        return (trained_for(self.adapter) if self.adapter else ()) or trained_for(self.model)

    def named_model(self, llm: str) -> str:
        if not self.model:
            raise UserError(f"llm is '{llm}', but no model is named; name a Hugging Face model or a folder")
        return self.model
