"""Differences between servers of the OpenAI protocol: their fields for constraints, and their extra features."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reactree_ros.llm.chat import Message
from reactree_ros.llm.engine import ConstraintKind

_GRAMMAR, _REGEX, _JSON, _CHOICE = (
    ConstraintKind.GRAMMAR,
    ConstraintKind.REGEX,
    ConstraintKind.JSON_SCHEMA,
    ConstraintKind.CHOICE,
)

#: The fields for each constraint that a server supports.
Dialect = Mapping[ConstraintKind, Callable[[Any], dict[str, Any]]]


def _named_schema(schema: Any) -> dict[str, Any]:
    named = {"name": "decision", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


#: By the name that the server gives itself (``owned_by`` of its models).
DIALECTS: Mapping[str, Dialect] = {
    "vllm": {
        _GRAMMAR: lambda value: {"structured_outputs": {"grammar": value}},
        _REGEX: lambda value: {"structured_outputs": {"regex": value}},
        _JSON: lambda value: {"structured_outputs": {"json": value}},
        _CHOICE: lambda value: {"structured_outputs": {"choice": value}},
    },
    "llamacpp": {
        _GRAMMAR: lambda value: {"grammar": value},
        _JSON: lambda value: {"json_schema": value},
    },
    "sglang": {
        _GRAMMAR: lambda value: {"ebnf": value},
        _REGEX: lambda value: {"regex": value},
        _JSON: lambda value: {"json_schema": json.dumps(value)},
    },
    "tgi": {
        _REGEX: lambda value: {"response_format": {"type": "regex", "value": value}},
        _JSON: lambda value: {"response_format": {"type": "json_object", "value": value}},
    },
    "openai": {_JSON: _named_schema},
}
#: Servers that can continue the last message of a chat; strict ones of the others refuse the fields.
CONTINUING = ("vllm", "sglang")
#: Servers that render chat messages outside of the protocol: path, and field of the answer.
RENDERING: Mapping[str, tuple[str, str]] = {"vllm": ("/tokenize", "tokens"), "llamacpp": ("/apply-template", "prompt")}
#: Servers that count the tokens of a text (``POST /tokenize``): the body, in which markers are read as such.
COUNTING: Mapping[str, Callable[[str, str], dict[str, Any]]] = {
    "vllm": lambda model, text: {"model": model, "prompt": text, "add_special_tokens": False},
    "llamacpp": lambda model, text: {"content": text, "add_special": False, "parse_special": True},
}
#: Servers that tell their version: path, and field of the answer.
VERSIONS: Mapping[str, tuple[str, str]] = {"vllm": ("/version", "version"), "llamacpp": ("/props", "build_info")}
#: Servers that tell whether their model sees: path, and the way to it in the answer.
SEEING: Mapping[str, tuple[str, str, str]] = {"llamacpp": ("/props", "modalities", "vision")}
#: Servers that pass arguments on to the chat template.
TEMPLATED = ("vllm", "sglang", "llamacpp")
#: Servers under other names that speak one of the dialects.
OWNERS = {"library": "openai", "system": "openai", "openai-internal": "openai"}
#: Those that know only the older name of the token limit: Ollama.
OLDER = ("library",)


def with_images(messages: Sequence[Message]) -> list[Message]:
    """Return messages whose pictures are as the protocol has them: addresses that hold the bytes, never a file's."""
    return [one if isinstance(one["content"], str) else {**one, "content": _parts(one["content"])} for one in messages]


def _parts(parts: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "image_url", "image_url": {"url": one["image"].url}} if "image" in one else one for one in parts]


def streaming(kind: str) -> dict[str, Any]:
    """Return the parameters with which a server streams its answers, and counts tokens in each part if it can."""
    options = {"include_usage": True, **({"continuous_usage_stats": True} if kind == "vllm" else {})}
    return {"stream": True, "stream_options": options, **({"timings_per_token": True} if kind == "llamacpp" else {})}
