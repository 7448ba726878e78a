"""Reasoning: a model's thoughts before it answers, and the marks around them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Reasoning:
    thinking: bool | None = None  # whether it thinks; None leaves it to its chat template
    tokens: int = 2048  # most tokens of thought before each answer
    effort: str = ""  # how hard it thinks, e.g. ``low``; empty for the model's default
    template: Mapping[str, Any] = field(default_factory=dict)  # further arguments of its chat template

    @property
    def template_arguments(self) -> dict[str, Any]:
        """Arguments of the chat template; templates ignore unknown ones."""
        told: dict[str, Any] = {}
        if self.thinking is not None:
            told |= {"enable_thinking": self.thinking, "thinking": self.thinking}  # Qwen3 and most; DeepSeek, Granite
        if self.effort:
            told["reasoning_effort"] = self.effort
        return {**told, **self.template}


@dataclass(frozen=True)
class Marks:
    begin: str
    end: str


#: By model families: Qwen3, DeepSeek-R1, Phi-4-reasoning, GLM and most others; Magistral; Kimi; Seed-OSS; gpt-oss.
MARKS = (
    Marks("<think>", "</think>"),
    Marks("[THINK]", "[/THINK]"),
    Marks("◁think▷", "◁/think▷"),
    Marks("<seed:think>", "</seed:think>"),
    Marks("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
)

_TAGS = "think|thinking|seed:think"
_BEGIN = re.compile(
    rf"<(?:{_TAGS})>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|(?:START|start)_THINKING\|>", re.IGNORECASE
)
_END = re.compile(rf"</(?:{_TAGS})>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|END_THINKING\|>", re.IGNORECASE)
#: gpt-oss's channels with their special tokens: a name, perhaps also a tool's, and the message.
_CHANNEL = re.compile(r"<\|channel\|>\s*(?P<name>\w+)\b(?P<to>[^<]*)(?:<\|constrain\|>[^<]*)?<\|message\|>")
_TOOL = re.compile(r"\bto=(?:functions\.)?(?P<name>\w+)")
_MESSAGE_END = re.compile(r"<\|(?:end|return|call|start)\|>")
#: The same channels if the special tokens were left out.
_LEAKED = re.compile(r"(?:assistant)?analysis(?=[A-Z\"'(])")
_LEAKED_FINAL = "assistantfinal"


@dataclass(frozen=True)
class Answer:
    """A text, split into reasoning and answer; ``unfinished``: it ended while the model still thought."""

    text: str
    reasoning: str = ""
    unfinished: bool = False


def split_reasoning(text: str) -> Answer:
    """Split a reply into reasoning and answer.

    Reasoning stands between tags, before a closing tag whose opening tag was in the prompt, after an unclosed opening
    tag (the token limit ended it), or in gpt-oss's analysis channel. An unclosed opening tag after other text is left
    alone.
    """
    if "<|channel|>" in text:
        return _of_channels(text)
    if (leaked := _LEAKED.match(text.lstrip())) is not None:
        thought, final, said = text.lstrip()[leaked.end() :].rpartition(_LEAKED_FINAL)
        return Answer(said, thought.strip()) if final else Answer("", said.strip(), unfinished=True)
    begin, ends = _BEGIN.search(text), list(_END.finditer(text))
    if ends:
        end = ends[-1]
        at = begin.start() if begin is not None and begin.start() < end.start() else 0
        thought = _BEGIN.sub("", _END.sub("", text[at : end.start()])).strip()
        before, said = text[:at].strip(), text[end.end() :]
        return Answer(f"{before}\n{said.lstrip()}" if before else said, thought)
    if begin is None or text[: begin.start()].strip():
        return Answer(text)
    return Answer("", text[begin.end() :].strip(), unfinished=True)


def _of_channels(text: str) -> Answer:
    """Read gpt-oss's channels: ``analysis`` is reasoning; ``final`` and tool calls are the answer."""
    thought, said = [text[: text.index("<|channel|>")].replace("<|start|>assistant", "").strip()], []
    marks = list(_CHANNEL.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    for mark, end in zip(marks, ends, strict=False):
        message = _MESSAGE_END.split(text[mark.end() : end], maxsplit=1)[0].strip()
        tool = _TOOL.search(mark["to"])
        if mark["name"] == "analysis":
            thought.append(message)
        elif tool is not None:
            said.append(json.dumps({"name": tool["name"], "arguments": message}))
        else:
            said.append(message)
    return Answer("\n".join(said), "\n".join(filter(None, thought)), unfinished=not said)
