"""Labels: what announces a decision at the beginning of a line, with the marks of lists and markup around it."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from reactree_ros.agent.decision import Decision, kinds


def not_available(skill: str) -> str:
    """Say that a skill may not be done now."""
    return f"'{skill}' is not among the skills that are available now."


def shortened(text: str, longest: int = 80) -> str:
    """Return the beginning of a text as a refusal quotes it: of its first line, as joined lines say something else."""
    first, _, more = text.strip().partition("\n")
    line = " ".join(first[: 4 * longest].split())
    whole = len(line) <= longest and len(first) <= 4 * longest and not more
    return line if whole else f"{line[:longest]}…"


class Mark(enum.Enum):
    """What a label announces that is no kind of decision, with how it is spelt."""

    ARGUMENT = "action[ _-](?:input|arguments?)|input|arguments?"  # what an act that was named before is done to
    FLOW = "control[ _-]?flow"
    OBSERVATION = "observations?|environment|feedback|results?"  # what only the world says
    ANSWER = (  # a decision of any kind: another label follows, or a skill
        "answer|decision|response|output|reply|choice|step|skill|command|execute|assistant|robot|agent"
    )


#: What a label announces.
Announced = type[Decision] | Mark


class Label(NamedTuple):
    """A label that a line begins with: what it announces, and what stands after it."""

    announces: Announced
    rest: str


_LEADS = (
    r"(?:(?:and|so|my|the|your|a|next|new|current|first|final|best|chosen|selected|proposed|corrective)\s{1,3}){0,4}"
)
_NUMBER = r"(?:\s{0,3}(?:\#|no\.)?\s?\d{1,2})?"
_ENDS = r"\s{0,3}[*_`\"']{0,3}\s{0,3}(?:[:：]|[-=]>|=|→|[-–—](?=\s)|(?=[\[(]))[*_]{0,3}"  # noqa: RUF001
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
_END_PICTURE = re.compile(rf"\s{{0,3}}{PICTURE}\s*\Z")
#: A line of markup alone: the begin or end of a code block, a rule, tags.
_NOTHING = re.compile(rf"(?:```|~~~)[a-z]{{0,12}}|[-*_\s]*|(?:</?(?:{_TAGS})>)+", re.IGNORECASE)
_AROUND = ("***", "**", "__", "```", "`", "*", '"')
_IS_TITLE = re.compile(r"\s*(?:#{1,6}\s|\*\*|__)")
#: How far into a line a label is looked for, in characters, and how many may stand one inside the other.
_REACH, _DEEPEST = 80, 4


@cache
def _patterns() -> tuple[Mapping[str, Announced], list[re.Pattern[str]]]:
    """Return what each group announces, and the patterns of a label, a tag, and a title that has a line of its own."""
    spelt: dict[str, Announced] = {kind.name: kind for kind in kinds().values() if kind.spellings}
    spelt |= {mark.name: mark for mark in Mark}
    named = "|".join(
        f"(?P<{name}>{one.value if isinstance(one, Mark) else one.spellings})" for name, one in spelt.items()
    )
    label = (
        rf"[*_`\"']{{0,3}}(?:\d{{1,2}}\s(?=sub-?goal))?{_LEADS}(?:{named})"
        rf"(?:\s(?:is|to\s(?:take|perform|do|execute)))*{_NUMBER}{_ENDS}"
    )
    title = rf"[*_]{{0,3}}{_LEADS}(?:{named}){_NUMBER}[*_]{{0,3}}"
    return spelt, [re.compile(form, re.IGNORECASE) for form in (label, f"<(?:{named})>", title)]


def label_of(line: str) -> Label | None:
    """Return the label that a line begins with: the innermost of several, as in ``Decision: Act: …``."""
    spelt, (labels, tags, titles) = _patterns()
    found, is_title = None, bool(_IS_TITLE.match(line))
    for _ in range(_DEEPEST):
        line = undressed(line)
        if (match := labels.match(line, 0, _REACH)) is not None:
            rest = line[match.end() :].strip()
        elif (match := tags.match(line, 0, _REACH)) is not None:
            rest = _without_end_tag(line[match.end() :])
        else:
            break
        opened = match[0].lstrip()
        around = (one for one in _AROUND if opened.startswith(one) and one not in opened[1:] and rest.endswith(one))
        found = Label(spelt[str(match.lastgroup)], rest.removesuffix(next(around, "")).rstrip())
        if not (found.announces is Mark.ANSWER if isinstance(found.announces, Mark) else found.announces.nests):
            break
        line = found.rest
    if found is None and is_title and (match := titles.fullmatch(line)) is not None:
        return Label(spelt[str(match.lastgroup)], "")
    return found


def undressed(line: str) -> str:
    """Return a line without the marks of lists, headings, quotations, fences and tags around all of it."""
    if _NOTHING.fullmatch(line.strip()):
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
