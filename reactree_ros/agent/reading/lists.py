"""Lists of subgoals: an array, what stands on one line, or one entry a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from reactree_ros.agent.parser import split_subgoals
from reactree_ros.agent.reading.markup import bare, unquoted
from reactree_ros.agent.reading.refusal import Unreadable, shortened
from reactree_ros.agent.reading.values import value_at
from reactree_ros.agent.text import said_number

#: An entry with what stands before it.
_ENTRY = re.compile(
    r"(?:(?P<bullet>[-*+•‣▪])\s+(?:\[[ xX]?\]\s*)?"
    r"|(?P<number>\(?\d{1,2})(?:[.)]\s*(?=\D)|:\s+)"
    r"|(?P<letter>\(?[a-h])[.)]\s+)?"
    r"(?P<label>(?:sub-?goal|step|task)\s?\d{0,2}\s?:\s*)?(?P<text>.*)",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:\A|(?<=\s))\(?(\d{1,2})[.)]\s+")
_NEW_SENTENCE = re.compile(r"[.!?]\s+[A-Z]")


def listed_in(text: str) -> tuple[Sequence[Any], str]:
    """Return the entries of the list that a text begins with, and what comes after it."""
    entries, after = _listed(text.lstrip(" \t"))
    return [_tidied(entry) if isinstance(entry, str) else entry for entry in entries], after


def _tidied(entry: str) -> str:
    """Return an entry without emphasis, quotes and what ends it."""
    return unquoted(bare(entry).rstrip(".,; "))


def _listed(text: str) -> tuple[Sequence[Any], str]:
    if text.lstrip().startswith("["):
        return _array(text.lstrip())
    line, _, below = text.partition("\n")
    if not line.strip():
        return _column(below.split("\n"))
    while line.rstrip().endswith((",", ";")) and below.strip():
        more, _, below = below.lstrip().partition("\n")
        line = f"{line.rstrip()} {more}"
    return _row(line), below


def _array(text: str) -> tuple[Sequence[Any], str]:
    """Read an array of JSON, of Python, or of bare words."""
    values, end = value_at(text, 0)
    if isinstance(values, list):
        return values, text[end:]
    inside, closed, after = text[1:].partition("]")
    if not closed:
        raise Unreadable("The list of subgoals has no end; close it with ']'.")
    return _row(inside), after


def _row(line: str) -> Sequence[str]:
    """Split what stands on one line: by numbers, by semicolons, or by commas."""
    line = line.strip()
    numbers = list(_NUMBERED.finditer(line))
    if len(numbers) > 1 and numbers[0].start() == 0:
        if [said_number(number[1]) for number in numbers] != [*range(1, len(numbers) + 1)]:
            raise Unreadable(
                "It cannot be told which numbers count the subgoals; put commas between the subgoals instead."
            )
        ends = [*(number.start() for number in numbers[1:]), len(line)]
        found = [line[number.end() : end].strip(" ,;.") for number, end in zip(numbers, ends, strict=True)]
    else:
        found = list(split_subgoals(line))
    if (long := next(filter(_NEW_SENTENCE.search, found), None)) is not None:
        raise Unreadable(f"It cannot be told where the subgoal '{shortened(long)}' ends; say nothing after the list.")
    return found


def _column(lines: Sequence[str]) -> tuple[Sequence[str], str]:
    """Read a list that has one entry a line, up to a blank line or to what is no entry."""
    entries: list[str] = []
    first, gap, end = _Line(""), False, len(lines)
    for number, text in enumerate(lines):
        line = _Line(text)
        if not line.text:
            gap = True
            continue
        if entries and (line.indent < first.indent or not line.goes_on(first, gap)):
            end = number
            break
        if not entries:
            first = line
        if line.indent == first.indent or not first.mark:
            entries.append(line.text)
        elif line.mark:
            raise Unreadable("The subgoals are one list, without lists inside; name the smaller ones later.")
        else:
            entries[-1] += f" {line.text}"
        gap = False
    if not first.mark and len({entry.endswith((".", "!", ":")) for entry in entries}) > 1:
        raise Unreadable("It cannot be told where the list of subgoals ends; begin each subgoal with '- '.")
    return entries, "\n".join(lines[end:])


class _Line:
    """A line of a list: how far it is indented, what kind of mark begins it, if any, and what it says."""

    def __init__(self, text: str) -> None:
        text = text.expandtabs(4)
        entry = _ENTRY.match(text.strip())
        assert entry is not None  # every part of it may be empty
        self.indent = len(text) - len(text.lstrip())
        self.mark = next((kind for kind in ("bullet", "number", "letter", "label") if entry[kind]), "")
        self.text: str = entry["text"].strip()

    def goes_on(self, first: _Line, gap: bool) -> bool:
        """Whether this line is of the list that has that first line; ``gap``: whether blank lines stand between."""
        if gap or self.indent <= first.indent:
            return self.mark == first.mark and bool(first.mark or not gap)
        return True
