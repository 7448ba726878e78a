"""Markup of a reply that carries no meaning: typography, tags, fences, list marks, emphasis, quotes."""

from __future__ import annotations

import re
from functools import cache

from reactree_ros.agent.kinds import kinds
from reactree_ros.agent.words import typed

_TOOLS = re.compile(r"<\|python_tag\|>|\[TOOL_CALLS\]")
#: Tags around a decision; those that name its kind become a label.
_TAG = re.compile(
    r"</?(?:answer|final_answer|output|response|reply|decision|result|final|tool_call|function_call)>", re.IGNORECASE
)
_FENCES = re.compile("```|~~~")
_FENCE = re.compile(r"(?:```|~~~)(?:[a-z]{1,12}(?=[\s{]))?")
_LIST_MARK = re.compile(
    r"(?:\s|#{1,6}\s|[-*+•‣▪]\s|\(?\d{1,2}[.)]\s?(?=\D)|\d{1,2}\s(?=sub-?goal\b)|[→►▶])+", re.IGNORECASE
)
_EMPHASIS = re.compile(r"(?<![\w*_])[*_]{1,3}(?=\S)|(?<=\S)[*_]{1,3}(?![\w*_])")
#: Pictures, but for those that deny or doubt.
_PICTURE = re.compile("(?![⛔✋✖✗✘❌❎❓❔❕❗👎🙅🙈🚫🛑🤔🤦🤷])[\u2600-\u27bf\U0001f300-\U0001faff]")
_QUOTES = ('"', "'", "**", "__", "*", "_")
_BRACKETS = (("[", "]"), ("(", ")"))


@cache
def _kind_tag() -> re.Pattern[str]:
    tags = "|".join(kind.tags for kind in kinds().values() if kind.tags)
    return re.compile(rf"<(?P<end>/?)(?P<kind>{tags})>", re.IGNORECASE)


def plain(text: str) -> str:
    """Return a text without typography, pictures, tags, fences, and the marks of a quotation that is all of it."""
    text = _PICTURE.sub("", typed(text))
    text = _FENCE.sub("\n", _TAG.sub("\n", _TOOLS.sub("", text)))
    text = _kind_tag().sub(lambda tag: "\n" if tag["end"] else f"\n{tag['kind']}: ", text)
    lines = text.split("\n")
    if all(line.lstrip().startswith(">") for line in lines if line.strip()):
        return "\n".join(line.lstrip().removeprefix(">") for line in lines)
    return text


def blocks_once(text: str) -> str:
    """Return a text without the code blocks that come again word for word, as models repeat them."""
    kept: list[str] = []
    block: list[str] = []
    known = set[str]()
    for line in text.split("\n"):
        edges = len(_FENCES.findall(line))
        block.append(line)
        if edges == 0 and len(block) == 1:  # outside
            kept += block
        elif edges == 0 or (edges == 1 and len(block) == 1):
            continue
        elif (said := "\n".join(map(str.strip, block))) not in known:
            known.add(said)
            kept += block
        block = []
    return "\n".join([*kept, *block])


def unquoted(text: str) -> str:
    """Return a text without the quotes, emphasis or brackets around all of it; an array of JSON keeps its own."""
    while True:
        inside = text.strip()
        for mark in _QUOTES:
            if inside.startswith(mark) and inside.endswith(mark) and inside.count(mark) == 2:
                inside = inside[len(mark) : -len(mark)]
        for begin, end in _BRACKETS:
            if inside.startswith(begin) and inside.endswith(end) and inside.count(begin) == inside.count(end) == 1:
                inside = inside if inside[1:].lstrip()[:1] in ('"', "{") else inside[1:-1]
        if inside == text:
            return text
        text = inside


def bare(line: str) -> str:
    """Return a line without list marks, headings and emphasis."""
    line = _EMPHASIS.sub("", line.replace("`", ""))
    if (mark := _LIST_MARK.match(line)) is not None:
        line = line[mark.end() :]
    return line.rstrip()
