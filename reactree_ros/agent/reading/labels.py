"""Labels: what announces a decision at the beginning of a line, with the marks of lists and markup around it."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cache

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.kinds import kinds


class Mark(enum.Enum):
    """What a label announces that is no kind of decision."""

    ARGUMENT = "argument"
    """What an act that was named before is done to, as some agents' formats have it."""
    FLOW = "flow"
    """The control flow of an expansion."""
    OBSERVATION = "observation"
    """What only the world says."""
    ANSWER = "answer"
    """A decision of any kind: another label follows, or a skill."""


#: What a label announces.
Announced = type[Decision] | Mark

_MARKS = {
    Mark.ARGUMENT: "action[ _-](?:input|arguments?)|input|arguments?",
    Mark.FLOW: "control[ _-]?flow",
    Mark.OBSERVATION: "observations?|environment|feedback|results?",
    Mark.ANSWER: "answer|decision|response|output|reply|choice|step|skill|command|execute|assistant|robot|agent",
}
_LEADS = (
    r"(?:(?:and|so|my|the|your|a|next|new|current|first|final|best|chosen|selected|proposed|corrective)\s{1,3}){0,4}"
)
_NUMBER = r"(?:\s{0,3}(?:\#|no\.)?\s?\d{1,2})?"
#: Pictures, but for those that deny or doubt.
PICTURE = "(?![⛔✋✖✗✘❌❎❓❔❕❗👎🙅🙈🚫🛑🤔🤦🤷])[\u2600-\u27bf\U0001f300-\U0001faff]"
_TAGS = "answer|final_answer|output|response|reply|decision|result|final|tool_calls?|function_calls?"
#: What may stand before a label or a decision: marks of lists, headings, quotations and tool calls.
_LEADING = re.compile(
    rf"(?:\s|[\ufeff\u200b\u2060]|<(?:{_TAGS})>|<\|python_tag\|>|\[TOOL_CALLS\]|>|#{{1,6}}\s|[-–*+•‣▪→►▶]\s"
    rf"|\(?\d{{1,2}}[.)]\s?(?=\D)|\d{{1,2}}\s(?=sub-?goal\b)|{PICTURE})+",
    re.IGNORECASE,
)
_END_TAG = re.compile(r"\w{1,20}>")
_FENCE = re.compile(r"\s*(?:```|~~~)[a-z]{0,12}\s*\Z")
_END_PICTURE = re.compile(rf"\s{{0,3}}{PICTURE}\s*\Z")
_ALONE = re.compile(rf"[-*_\s]*|(?:</?(?:{_TAGS})>)+", re.IGNORECASE)
_AROUND = ("***", "**", "__", "```", "`", "*", '"')
_IS_TITLE = re.compile(r"\s*(?:#{1,6}\s|\*\*|__)")
#: How far into a line a label is looked for, in characters, and how many may stand one inside the other.
_REACH, _DEEPEST = 80, 4


class _Labels:
    def __init__(self) -> None:
        said = [kind for kind in kinds().values() if kind.spellings]
        self.announced: dict[str, Announced] = {kind.name: kind for kind in said} | {mark.name: mark for mark in _MARKS}
        spelt = [(kind.name, kind.spellings) for kind in said] + [(mark.name, words) for mark, words in _MARKS.items()]
        named = "|".join(f"(?P<{name}>{words})" for name, words in spelt)
        ends = r"\s{0,3}[*_`\"']{0,3}\s{0,3}(?:[:：]|[-=]>|=|→|[-–—](?=\s)|(?=[\[(]))[*_]{0,3}"  # noqa: RUF001
        self.label = re.compile(
            rf"[*_`\"']{{0,3}}(?:\d{{1,2}}\s(?=sub-?goal))?{_LEADS}(?:{named})(?:\s(?:is|to\s(?:take|perform|do|execute)))*{_NUMBER}{ends}",
            re.IGNORECASE,
        )
        self.tag = re.compile(rf"<(?:{named})>", re.IGNORECASE)
        self.title = re.compile(rf"[*_]{{0,3}}{_LEADS}(?:{named}){_NUMBER}[*_]{{0,3}}", re.IGNORECASE)


_labels = cache(_Labels)


@dataclass(frozen=True)
class Label:
    """A label that a line begins with: what it announces, and what stands after it."""

    kind: Announced
    rest: str


def label_of(line: str) -> Label | None:
    labels, found, title = _labels(), None, bool(_IS_TITLE.match(line))
    for _ in range(_DEEPEST):
        line = undressed(line)
        if (match := labels.label.match(line, 0, _REACH)) is not None:
            rest = line[match.end() :].strip()
        elif (match := labels.tag.match(line, 0, _REACH)) is not None:
            rest = _without_end_tag(line[match.end() :])
        else:
            break
        opened = match[0].lstrip()
        around = (
            mark for mark in _AROUND if opened.startswith(mark) and mark not in opened[1:] and rest.endswith(mark)
        )
        rest = rest.removesuffix(next(around, "")).rstrip()
        found = Label(labels.announced[str(match.lastgroup)], rest)
        if not (found.kind is Mark.ANSWER if isinstance(found.kind, Mark) else found.kind.nests):
            break
        line = rest
    if found is None and title and (match := labels.title.fullmatch(line)) is not None:
        return Label(labels.announced[str(match.lastgroup)], "")
    return found


def undressed(line: str) -> str:
    if _FENCE.match(line) or _ALONE.fullmatch(line.strip()):
        return ""
    line = line.rstrip()
    while True:
        before = line
        if (lead := _LEADING.match(line)) is not None:
            line = line[lead.end() :]
            line = _without_end_tag(line) if "<" in lead[0] else line
            line = line if lead[0].isascii() else _END_PICTURE.sub("", line)
        for mark in _AROUND:
            if line.startswith(mark) and line.endswith(mark) and line.count(mark) == 2 and len(line) > 2 * len(mark):
                line = line[len(mark) : -len(mark)]
        if line == before:
            return line


def _without_end_tag(line: str) -> str:
    said, begun, tag = line.strip().rpartition("</")
    return said.rstrip() if begun and _END_TAG.fullmatch(tag) else line.strip()
