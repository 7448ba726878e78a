"""What servers of the OpenAI protocol take, by their names: one dialect is one value here."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from reactree_ros.llm.engine import ConstraintKind
from reactree_ros.llm.openai.refusal import LIMIT, NEWER_LIMIT

#: The dialects that a user may name. ``auto`` takes the one whose name the server gives itself, or else tries it.
DialectName = Literal[
    "auto", "vllm", "llamacpp", "sglang", "tgi", "openai", "ollama", "openrouter", "anthropic", "none"
]  # fmt: skip

_GRAMMAR, _REGEX, _JSON, _CHOICE, _TOOLS = ConstraintKind
#: The fields of a request that hold a text to a constraint, by the kind of constraint.
Fields = Mapping[ConstraintKind, Callable[[Any], dict[str, Any]]]


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a server takes beyond the protocol, and what it tells outside of it.

    Attributes:
        streams: Further fields for a streamed answer; with them, each part counts the tokens so far.
        renders: The path that shows what the chat template makes of messages, and the field of the answer.
        counts: The body of ``POST /tokenize`` for a model and a text in which markers are read as such.
        sees: The path that tells whether the model sees, and the way to it in the answer.
    """

    owners: tuple[str, ...] = ()  # what the server calls itself (``owned_by`` of its models)
    host: str = ""  # where it is, if it is a service
    constraints: Fields = field(default_factory=dict)  # its fields for the constraints that it obeys
    limit: str = LIMIT  # its name of the token limit of a chat
    cache_key: str = ""  # its field that sends requests with the same beginning to the same cache
    cache_marks: bool = False  # whether ``cache_control`` has to mark what is to be kept in a cache
    streams: Mapping[str, Any] = field(default_factory=dict)
    continues: bool = False  # whether it can continue the last message of a chat; strict servers refuse the fields
    templated: bool = False  # whether it passes arguments on to the chat template
    renders: tuple[str, str] | None = None
    counts: Callable[[str, str], dict[str, Any]] | None = None
    version: tuple[str, str] | None = None  # the path that tells its version, and the field of the answer
    sees: tuple[str, str, str] | None = None

    @property
    def streaming(self) -> dict[str, Any]:
        """The fields with which it streams its answers, and counts tokens."""
        options = {"include_usage": True, **self.streams.get("stream_options", {})}
        return {**self.streams, "stream": True, "stream_options": options}


def _named_schema(schema: Any) -> dict[str, Any]:
    named = {"name": "decision", "strict": True, "schema": _strict(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def _functions(tools: Any) -> dict[str, Any]:
    return {"tools": [{"type": "function", "function": tool} for tool in tools]}


def _strict(schema: Any) -> Any:
    """Return a schema in which every property is required, and null what may be left out: strict ones know no other."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {name: _strict(one) for name, one in schema.items()}
    if "properties" not in strict or "required" not in strict:
        return strict
    needed, each = strict["required"], strict["properties"].items()
    mere = {name: {key: value for key, value in one.items() if key != "default"} for name, one in each}
    properties = {name: one if name in needed else {"anyOf": [one, {"type": "null"}]} for name, one in mere.items()}
    return strict | {"properties": properties, "required": [*properties]}


DIALECTS: Mapping[str, Dialect] = {
    "vllm": Dialect(
        owners=("vllm",),
        constraints={
            _GRAMMAR: lambda value: {"structured_outputs": {"grammar": value}},
            _REGEX: lambda value: {"structured_outputs": {"regex": value}},
            _JSON: lambda value: {"structured_outputs": {"json": value}},
            _CHOICE: lambda value: {"structured_outputs": {"choice": value}},
            _TOOLS: _functions,
        },
        streams={"stream_options": {"continuous_usage_stats": True}},
        continues=True,
        templated=True,
        renders=("/tokenize", "tokens"),
        counts=lambda model, text: {"model": model, "prompt": text, "add_special_tokens": False},
        version=("/version", "version"),
    ),
    "llamacpp": Dialect(
        owners=("llamacpp",),
        constraints={
            _GRAMMAR: lambda value: {"grammar": value},
            _JSON: lambda value: {"json_schema": value},
            _TOOLS: _functions,
        },
        streams={"timings_per_token": True},
        templated=True,
        renders=("/apply-template", "prompt"),
        counts=lambda model, text: {"content": text, "add_special": False, "parse_special": True},
        sees=("/props", "modalities", "vision"),
    ),
    "sglang": Dialect(
        owners=("sglang",),
        constraints={
            _GRAMMAR: lambda value: {"ebnf": value},
            _REGEX: lambda value: {"regex": value},
            _JSON: lambda value: {"json_schema": json.dumps(value)},
            _TOOLS: _functions,
        },
        continues=True,
        templated=True,
    ),
    "tgi": Dialect(
        owners=("tgi",),
        constraints={
            _REGEX: lambda value: {"response_format": {"type": "regex", "value": value}},
            _JSON: lambda value: {"response_format": {"type": "json_object", "value": value}},
            _TOOLS: _functions,
        },
    ),
    "openai": Dialect(
        owners=("openai", "system", "openai-internal"),
        host="api.openai.com",
        constraints={_JSON: _named_schema, _TOOLS: _functions},
        limit=NEWER_LIMIT,
        cache_key="prompt_cache_key",
    ),
    "ollama": Dialect(owners=("library",), constraints={_JSON: _named_schema, _TOOLS: _functions}),
    # Many models stand behind it: most are called tools with, and some obey a schema.
    "openrouter": Dialect(host="openrouter.ai", constraints={_TOOLS: _functions}, cache_marks=True),
    "anthropic": Dialect(owners=("anthropic",), host="api.anthropic.com", constraints={_TOOLS: _functions}),
    "none": Dialect(),
}
#: How a server with another name is tried, the most useful constraint first.
TRIED: Sequence[tuple[str, ConstraintKind]] = (("vllm", _REGEX), ("openai", _JSON), ("anthropic", _TOOLS))


def dialect_of(name: DialectName, owner: str, url: str) -> Dialect | None:
    if name != "auto":
        return DIALECTS[name]
    host = urlsplit(url).hostname
    return next((one for one in DIALECTS.values() if owner in one.owners or host == one.host), None)
