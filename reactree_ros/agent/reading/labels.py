"""Labels: the words that announce what a part of a reply is, such as ``Act:`` and its relatives."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.kinds import kinds
from reactree_ros.agent.reading.markup import bare

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar


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
_FOLLOWED = r"(?=\s*\S)"
_IS_TITLE = re.compile(r"\s*(?:#{1,6}\s|\*\*|__)")


class _Labels:
    """The patterns of all labels: at the beginning of a line, as a heading, and in the middle of a line."""

    def __init__(self) -> None:
        said = [kind for kind in kinds().values() if kind.spellings]
        self._announced: dict[str, Announced] = {kind.name: kind for kind in said} | {
            mark.name: mark for mark in _MARKS
        }
        spelt = [(kind.name, kind.spellings) for kind in said] + [(mark.name, words) for mark, words in _MARKS.items()]
        named = "|".join(f"(?P<{name}>{words})" for name, words in spelt)
        self.label = re.compile(
            rf"{_LEADS}(?:{named})(?:\s(?:is|to\s(?:take|perform|do|execute)))*{_NUMBER}"
            r"\s{0,3}(?::|[-=]>|=|→|[-–](?=\s)|(?=[\[(]))",
            re.IGNORECASE,
        )
        self.title = re.compile(rf"{_LEADS}(?:{named}){_NUMBER}", re.IGNORECASE)
        inside = [rf"(?P<{one.name}>{one.inline})\s{{0,3}}:{'' if one.of_lines else _FOLLOWED}" for one in said]
        self.inline = re.compile(rf"(?<!\S){_LEADS}(?:{'|'.join(inside)})", re.IGNORECASE)

    def announced(self, match: re.Match[str]) -> Announced:
        """Return what a label announces."""
        assert match.lastgroup is not None  # every label is named
        return self._announced[match.lastgroup]


_labels = cache(_Labels)
#: How far into a line a label is looked for, in characters.
_REACH = 80
#: How many labels may stand one inside the other.
_DEEPEST = 4


@dataclass(frozen=True)
class Label:
    """A label in a line: what it announces, and what stands before and after it."""

    kind: Announced
    before: str
    rest: str


def label_of(line: str) -> Label | None:
    """Return the label that a line begins with: the innermost of several, as in ``Decision: Act: …``."""
    labels, found = _labels(), None
    for _ in range(_DEEPEST):
        bared = bare(line)
        match = labels.label.match(bared, 0, _REACH)
        if match is None:
            break
        line = bared[match.end() :].strip()
        found = Label(labels.announced(match), "", line)
        if not (found.kind is Mark.ANSWER if isinstance(found.kind, Mark) else found.kind.nests):
            break
    if found is None and _IS_TITLE.match(line) and (title := labels.title.fullmatch(bare(line))) is not None:
        return Label(labels.announced(title), "", "")
    return found


def inline_label(line: str, grammar: Grammar) -> Label | None:
    """Return the first label in the middle of a line, outside quotes, of a kind that the model was told of."""
    labels = _labels()
    for match in labels.inline.finditer(line):
        before, kind = line[: match.start()], labels.announced(match)
        if kind in grammar.kinds and before.strip() and before.count('"') % 2 == 0:
            return Label(kind, before.strip(), line[match.end() :].strip())
    return None
