"""Reads the answers of a server that speaks the OpenAI protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reactree_ros.llm.engine import Generated, ToolCall
from reactree_ros.llm.openai.refusal import Refused

#: Finish reasons of a truncated text: vLLM and most, Mistral, Anthropic's gateway, vLLM.
_CUT = ("length", "model_length", "max_tokens", "repetition")
#: Finish reasons of a failing engine: vLLM and OpenRouter, vLLM and SGLang, DeepSeek.
_BROKEN = ("error", "abort", "insufficient_system_resource")

#: Says how much of a text so far is all that is wanted; empty: it is not there yet.
Until = Callable[[str], str]
#: A larger count is not credible and is ignored.
_MOST_TOKENS = 1_000_000_000


def read_answer(answer: Any) -> Generated:
    """Return the text, the reasoning and the calls of an answer; raises :class:`Refused` for anything else."""
    try:
        return _read(answer)
    except RecursionError:
        raise Refused(0, "it is nested too deeply", "with something that is not a completion") from None


def _read(answer: Any) -> Generated:
    try:
        if answer.get("error"):
            raise error_in(answer["error"])
        choice = answer["choices"][0]
        _check_end(choice)
        message = choice["message"] if "message" in choice else {"content": choice["text"]}
        usage = answer.get("usage") or _timed(answer.get("timings"))
        text, reasoning = _words(message)
        text = text or str(message.get("refusal") or "")
        thought_tokens = _tokens(usage, "completion_tokens_details", "reasoning_tokens")
        prompt, output = _tokens(usage, "prompt_tokens"), _tokens(usage, "completion_tokens")
        cached = _tokens(usage, "prompt_tokens_details", "cached_tokens")
        return Generated(
            text=text,
            finish_reason="length" if choice.get("finish_reason") in _CUT else "stop",
            prompt_tokens=prompt or None,  # no prompt is empty: a server that says 0 does not count
            cached_tokens=cached if cached is None or prompt is None else min(cached, prompt),
            output_tokens=None if output == 0 and (text or reasoning) else output,
            reasoning=reasoning,
            reasoning_tokens=(thought_tokens or None) if reasoning else thought_tokens,  # some count none
            calls=tuple(_calls(message)),
        )
    except (AttributeError, IndexError, KeyError, TypeError):
        raise Refused(0, repr(answer), "with something that is not a completion") from None


def _timed(timings: Any) -> dict[str, Any] | None:
    """Return the counts of llama.cpp's timings, which come with every part of a stream, as the protocol has them."""
    if not isinstance(timings, Mapping):
        return None
    cached, read = _tokens(timings, "cache_n"), _tokens(timings, "prompt_n")
    return {
        "prompt_tokens": None if cached is None or read is None else cached + read,
        "completion_tokens": _tokens(timings, "predicted_n"),
        "prompt_tokens_details": {"cached_tokens": cached},
    }


class Parts:
    """Puts an answer together that comes in parts, at most ``most`` of them, and says when it may end."""

    def __init__(self, until: Until, most: int) -> None:
        self._until, self._most = until, most
        self._message: dict[str, str] = {"content": "", "reasoning_content": ""}
        self._calls: dict[int, dict[str, Any]] = {}
        self._counts: dict[str, Any] = {}
        self._end: dict[str, Any] = {}
        self._number = 0

    def add(self, part: Any) -> bool:
        """Add a part; return whether there is to be another one."""
        try:
            self._counts |= {name: part[name] for name in ("usage", "timings") if part.get(name)}
            choices = part.get("choices") or []
            return self._added(choices[0]) if choices else True
        except (AttributeError, IndexError, KeyError, TypeError):
            raise Refused(0, repr(part), "with something that is not a completion") from None

    def _added(self, choice: Mapping[str, Any]) -> bool:
        delta = choice.get("delta") or {"content": choice.get("text")}
        text, reasoning = _words(delta)
        self._message["content"] += text
        self._message["reasoning_content"] += reasoning
        for call in delta.get("tool_calls") or []:
            whole = self._calls.setdefault(call.get("index") or 0, {"name": "", "arguments": ""})
            for name in whole:
                whole[name] += (call.get("function") or {}).get(name) or ""
        self._number += bool(text or reasoning or delta.get("tool_calls"))
        if choice.get("finish_reason") or choice.get("error"):
            self._end = {"finish_reason": choice.get("finish_reason"), "error": choice.get("error")}
            return True  # the counts come after it
        if text and not self._calls and (wanted := self._until(self._message["content"])):
            self._message["content"], self._end = wanted, {"finish_reason": "stop"}
        elif self._number > self._most:
            self._end = {"finish_reason": "length"}
        return not self._end

    @property
    def begun(self) -> bool:
        return bool(self._number or self._end)

    @property
    def is_half(self) -> bool:
        """Whether it broke off: neither the server nor the caller has ended it."""
        return not self._end

    def answer(self) -> dict[str, Any]:
        calls = [{"function": call} for _, call in sorted(self._calls.items())]
        return {"choices": [{**self._end, "message": {**self._message, "tool_calls": calls}}], **self._counts}


def _tokens(usage: Any, *names: str) -> int | None:
    for name in names:
        usage = usage.get(name) if isinstance(usage, Mapping) else None
    return usage if type(usage) is int and 0 <= usage <= _MOST_TOKENS else None


def error_in(error: Any) -> Refused:
    said = error if isinstance(error, Mapping) else {}
    code = str(said.get("code") or "")
    kind = f"{code} {said.get('type') or ''}"
    status = int(code) if re.fullmatch(r"\d{3}", code) else 400 if "invalid" in kind or "context_length" in kind else 0
    return Refused(status, error, f"with an error ({code})" if code else "with an error")


def _check_end(choice: Mapping[str, Any]) -> None:
    end = str(choice.get("finish_reason") or "stop")
    if choice.get("error"):
        raise error_in(choice["error"])
    if end in _BROKEN:
        raise Refused(0, f"its engine ended the text (finish_reason {end!r})", "with an error")
    if end.startswith("content_filter"):
        filtered = "its content filter withheld the answer; word the instruction otherwise or take another model"
        raise Refused(400, filtered, "with nothing")


def _parts(content: Any) -> Iterator[tuple[str, bool]]:
    """Yield the texts of a content and whether they are reasoning; a content is a text or, from Mistral, a list."""
    if isinstance(content, str):
        yield content, False
    for part in content if isinstance(content, list) else []:
        if part["type"] == "text":
            yield str(part["text"]), False
        elif part["type"] == "thinking":
            inside = part["thinking"]
            texts = [inside] if isinstance(inside, str) else [one["text"] for one in inside if one["type"] == "text"]
            yield "".join(map(str, texts)), True


def _words(message: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a message says, and the reasoning before it."""
    said = list(_parts(message.get("content")))
    # DeepSeek and many; vLLM, Ollama and OpenRouter; servers that pass Ollama's own messages on
    fields = (message.get(name) for name in ("reasoning_content", "reasoning", "thinking"))
    reasoning = next((field for field in fields if isinstance(field, str) and field), "")
    text, thoughts = ("".join(one for one, thought in said if thought is wanted) for wanted in (False, True))
    return text, reasoning or thoughts


def _calls(message: Mapping[str, Any]) -> Iterator[ToolCall]:
    for function in [call["function"] for call in message.get("tool_calls") or []]:
        arguments = function.get("arguments") or {}
        yield ToolCall(str(function["name"]), arguments if isinstance(arguments, str) else json.dumps(arguments))
