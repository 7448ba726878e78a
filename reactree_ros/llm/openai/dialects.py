"""How servers of the OpenAI protocol differ: what they are sent for a constraint, and how they refuse."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
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
#: Servers that call themselves something else but speak one of the dialects.
OWNERS = {"library": "openai", "system": "openai", "openai-internal": "openai"}


def connection_problem(error: BaseException) -> str:
    """Say what is wrong with a connection, in words."""
    cause: BaseException | None = error
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    reason = str(cause) or type(cause).__name__
    known: Sequence[tuple[str, str]] = (
        ("refused", "cannot be reached: nothing listens there"),
        ("All connection attempts failed", "cannot be reached: nothing listens there"),
        ("disconnected", "closed the connection in the middle of a request"),
        ("peer closed", "closed the connection in the middle of an answer"),
        ("reset", "closed the connection in the middle of a request"),
        ("Name or service", "cannot be reached: the host name is not known"),
        ("nodename", "cannot be reached: the host name is not known"),
    )
    return next((words for mark, words in known if mark in reason), f"cannot be reached: {reason}")


def refusal(error: Any) -> str:
    """Return what a server says in a refusal, in one line."""
    said = error.message
    if isinstance(error.body, dict):
        said = error.body.get("error", error.body)
        said = said.get("message", said) if isinstance(said, dict) else said
    return " ".join(str(said).split())


def is_too_long(error: Any) -> bool:
    """Return whether a server refuses a request because prompt and reply do not fit into the context."""
    text = str(error.body) + str(error.message)
    marks = (
        *("context length", "context_length_exceeded"),  # vLLM, SGLang, OpenAI
        *("exceed_context_size", "input_tokens", "max_new_tokens`", "too long"),  # llama.cpp, vLLM, TGI, others
    )
    return error.status_code in (400, 413, 422) and any(mark in text for mark in marks)


def stated_context(told: str) -> int:
    """Find the context's tokens in such a refusal; 0 where it does not say."""
    stated = re.search(r"(?:length|size|limit|n_ctx|<=)\D{0,8}(\d+)", told)
    return int(stated[1]) if stated else 0


def stated_prompt(told: str, max_tokens: int, context: int) -> int:
    """Find the prompt's tokens in such a refusal: its largest number, less the reply's where that is a total."""
    numbers = [int(number) for number in re.findall(r"\d+", told)]
    largest = max([*numbers, context])
    return largest - max_tokens if largest - max_tokens in numbers else largest
