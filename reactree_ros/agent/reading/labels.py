"""Labels: the words that announce what a part of a reply is, such as ``Act:`` and its relatives."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from reactree_ros.agent.reading.dress import bare


class Kind(enum.Enum):
    """What a label announces."""

    THINK = "think"
    ACT = "act"
    ARGUMENT = "argument"
    """What an act that was named before is done to, as some agents' formats have it."""
    EXPAND = "expand"
    ASK = "ask"
    """A question to a person."""
    FLOW = "flow"
    """The control flow of an expansion."""
    SUBGOAL = "subgoal"
    OBSERVATION = "observation"
    """What only the world says."""
    ANSWER = "answer"
    """A decision of any kind: another label follows, or a skill."""


_WORDS = {
    Kind.THINK: "think|thinking|thoughts?|reason|reasoning|rationale|reflection|analysis|explanation|plan",
    Kind.ARGUMENT: "action[ _-](?:input|arguments?)|input|arguments?",
    Kind.ACT: "act|actions?",
    Kind.EXPAND: "expand|expansion|decompose|decomposition",
    Kind.ASK: r"ask(?:\s(?:the\s)?(?:person|user|human|owner))?|(?:clarif\w+\s)?question|clarification",
    Kind.FLOW: "control[ _-]?flow",
    Kind.SUBGOAL: "sub-?goal|milestone",
    Kind.OBSERVATION: "observations?|environment|feedback|results?",
    Kind.ANSWER: "answer|decision|response|output|reply|choice|step|skill|command|execute|assistant|robot|agent",
}
_LEADS = (
    r"(?:(?:and|so|my|the|your|a|next|new|current|first|final|best|chosen|selected|proposed|corrective)\s{1,3}){0,4}"
)
_NAMED = "|".join(f"(?P<{kind.name}>{words})" for kind, words in _WORDS.items())
_NUMBER = r"(?:\s{0,3}(?:\#|no\.)?\s?\d{1,2})?"
_LABEL = re.compile(
    rf"{_LEADS}(?:{_NAMED})(?:\s(?:is|to\s(?:take|perform|do|execute)))*{_NUMBER}\s{{0,3}}(?::|[-=]>|=|→|[-–](?=\s)|(?=[\[(]))",
    re.IGNORECASE,
)
_TITLE = re.compile(rf"{_LEADS}(?:{_NAMED}){_NUMBER}", re.IGNORECASE)
_IS_TITLE = re.compile(r"\s*(?:#{1,6}\s|\*\*|__)")
_INLINE = re.compile(
    rf"(?<!\S){_LEADS}(?:(?:(?P<THINK>think|thought)|(?P<ACT>act|action)|(?P<SUBGOAL>subgoal))\s{{0,3}}:(?=\s*\S)"
    r"|(?P<EXPAND>expand)\s{0,3}:|(?P<ASK>ask)\s{0,3}:(?=\s*\S))",
    re.IGNORECASE,
)
#: How far into a line a label is looked for, in characters.
_REACH = 80
#: How many labels may stand one inside the other.
_DEEPEST = 4


@dataclass(frozen=True)
class Label:
    """A label in a line.

    Attributes:
        kind: What it announces.
        before: What stands before it on the line.
        rest: What follows it on the line.
    """

    kind: Kind
    before: str
    rest: str


def label_of(line: str) -> Label | None:
    """Return the label that a line begins with: the innermost of several, as in ``Decision: Act: …``."""
    found = None
    for _ in range(_DEEPEST):
        bared = bare(line)
        match = _LABEL.match(bared, 0, _REACH)
        if match is None:
            break
        line = bared[match.end() :].strip()
        found = Label(_kind(match), "", line)
        if found.kind not in (Kind.ANSWER, Kind.ACT):
            break
    if found is None and _IS_TITLE.match(line) and (title := _TITLE.fullmatch(bare(line))) is not None:
        return Label(_kind(title), "", "")
    return found


def inline_label(line: str, *, asks: bool = False) -> Label | None:
    """Return the first label in the middle of a line, outside quotes; ``asks``: that of a question is one, too."""
    for match in _INLINE.finditer(line):
        before = line[: match.start()]
        if match["ASK"] is not None and not asks:
            continue
        if before.strip() and before.count('"') % 2 == 0:
            return Label(_kind(match), before.strip(), line[match.end() :].strip())
    return None


def _kind(match: re.Match[str]) -> Kind:
    return next(Kind[name] for name, words in match.groupdict().items() if words is not None)
