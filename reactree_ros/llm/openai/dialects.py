"""How servers of the OpenAI protocol differ: what they are sent for a constraint, and what they know besides."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from reactree_ros.llm.engine import ConstraintKind

_GRAMMAR, _REGEX, _JSON, _CHOICE = (
    ConstraintKind.GRAMMAR,
    ConstraintKind.REGEX,
    ConstraintKind.JSON_SCHEMA,
    ConstraintKind.CHOICE,
)

#: What a server is sent for each constraint that it has words for.
Dialect = Mapping[ConstraintKind, Callable[[Any], dict[str, Any]]]


def _named_schema(schema: Any) -> dict[str, Any]:
    named = {"name": "decision", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


#: By what the server calls itself (``owned_by`` of its models).
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
#: Servers that can be told to continue the last message of a chat; a strict one of the others refuses the fields.
CONTINUING = ("vllm", "sglang")
#: Where servers show what their chat template makes of messages, outside of the protocol: path, and the answer's field.
RENDERING: Mapping[str, tuple[str, str]] = {"vllm": ("/tokenize", "tokens"), "llamacpp": ("/apply-template", "prompt")}
#: Servers that pass arguments on to the chat template.
TEMPLATED = ("vllm", "sglang", "llamacpp")
#: Servers that call themselves something else but speak one of the dialects.
OWNERS = {"library": "openai", "system": "openai", "openai-internal": "openai"}
#: Of these, those that know only the older name of the token limit: Ollama.
OLDER = ("library",)
