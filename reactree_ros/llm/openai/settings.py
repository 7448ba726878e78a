"""Settings of a server that speaks the OpenAI protocol, and the language model made from them."""

from __future__ import annotations

import os
from typing import Annotated, Any

from pydantic import Field, model_validator

from reactree_ros.files.secrecy import are_harmless
from reactree_ros.llm.engine_settings import EngineSettings, SeeingSettings, read_arguments
from reactree_ros.llm.openai.connection import KEY_IN_URL, may_hold_a_key
from reactree_ros.llm.openai.dialects import DialectName
from reactree_ros.llm.openai.engine import OpenAIEngine
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.plugins.settings import Harmless


def _is_the_environments(base_url: str) -> bool:
    return base_url == os.environ.get("OPENAI_BASE_URL")


class OpenAISettings(SeeingSettings, EngineSettings):
    """Settings of an OpenAI-compatible server."""

    model: Annotated[str, Harmless()] = Field(
        default="", description="the server's name of the model; empty: its first one"
    )
    base_url: Annotated[str, Harmless(_is_the_environments)] = Field(
        default="", description="base URL of the server, e.g. http://127.0.0.1:8000/v1; empty: $OPENAI_BASE_URL"
    )
    api_key_file: str = Field(default="", description="file with the server's key; empty: $OPENAI_API_KEY, or none")
    dialect: DialectName = Field(
        default="auto",
        description="what the server takes: vllm, llamacpp, sglang, tgi, openai, ollama; none: no constraint; auto: by "
        "the name that it gives itself, or else it is tried with at most three requests",
    )
    retries: int = Field(
        default=3, ge=0, le=100, description="how often to repeat a request that failed for a passing reason"
    )

    extra_body: Annotated[dict[str, Any], Harmless(are_harmless)] = Field(
        default={},
        description="fields for every request for a text; they win, e.g. {top_k: 20, provider: {sort: price}}",
    )

    @model_validator(mode="before")
    @classmethod
    def _hold_no_key(cls, values: dict[str, Any]) -> dict[str, Any]:
        # Not in a field validator: its error would repeat the value.
        if may_hold_a_key(str(values.get("base_url", ""))):
            raise ValueError(KEY_IN_URL)
        return read_arguments(values, "extra_body", example="{top_k: 20}")


def _make(settings: OpenAISettings) -> LanguageModel:
    engine = OpenAIEngine(
        base_url=settings.base_url,
        model=settings.model,
        api_key_file=settings.api_key_file,
        dialect=settings.dialect,
        retries=settings.retries,
        request_timeout=settings.request_timeout,
        extra_body=settings.extra_body,
        sees=settings.sees,
        seeing=settings.seeing,
        **settings.how,
    )
    return settings.queue(engine)


SPEC = ModelSpec(
    name="openai",
    summary="any OpenAI-compatible server: vLLM, TGI, llama.cpp, SGLang, Ollama, hosted ones",
    settings=OpenAISettings,
    extra="reactree_ros[openai]",
    needs=("openai",),
    make=_make,
    flags=("model", "base_url"),
)
