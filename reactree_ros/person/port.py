"""The port to a person: questions go out, and answers may come back."""

from __future__ import annotations

import abc
import re
import unicodedata
from dataclasses import dataclass

from reactree_ros.background.pending import Pending

#: Most characters of a person's words that a model sees.
LONGEST = 500
#: Characters that could end a line, a quotation or a turn, or begin another speaker's turn.
_TAMED = str.maketrans('"“”<>[]{}', "'''()()()")
_STOP = {"stop", "halt", "abort", "cancel"}
#: Words that may stand before it.
_BEFORE = {"please", "no", "hey", "robot", "wait", "ok", "okay", "oh", "just", "now", "and", "you", "must"}


class NobodyAnswers(Exception):
    """Nobody answers; the message says why."""


@dataclass(frozen=True)
class Question:
    """A question to a person."""

    text: str  # the question, in one line
    seconds: float  # how long the asker waits for the answer
    id: str = ""  # unique within the run
    goal: str = ""  # why it is asked: the goal node's subgoal, or the policy's reason for a skill
    skill: str = ""  # the skill to confirm, in words; empty if the language model asks
    asker: str = ""  # who asks, if there are several robots; empty for the run


@dataclass(frozen=True)
class Answer:
    """A person's answer.

    Attributes:
        by: Where they come from, e.g. ``terminal``; empty if unknown.
    """

    text: str  # the words
    by: str = ""


class Person(abc.ABC):
    """Answers questions, or does not."""

    @abc.abstractmethod
    def ask(self, question: Question) -> Pending[Answer]:
        """Ask a question; returns at once. The asker cancels it when it stops waiting.

        It fails early with :class:`NobodyAnswers` if no answer can come.
        """


def quoted(words: str) -> str:
    """Return a person's words for a model: one line, in quotation marks that they cannot leave.

    The words cannot end the line or the quotation, begin a turn of a chat layout, or pass for a decision.
    """
    line = " ".join("".join(" " if _is_control(one) else one for one in words).translate(_TAMED).split())
    return f'"{line}"' if len(line) <= LONGEST else f'"{line[:LONGEST]} …"'


def approves(words: str) -> bool:
    """Return whether words are a yes to a skill: exactly ``y`` or ``yes``."""
    return words.strip().casefold().rstrip(".!") in ("y", "yes")


def is_stop(words: str) -> bool:
    """Return whether words end a run: one part begins with ``stop`` or its like. Stopping too often does no harm."""
    for part in re.split(r"[.,;:!?\n—–-]+", unicodedata.normalize("NFKC", words).casefold()):
        said = part.split()
        while said and said[0] in _BEFORE:
            said.pop(0)
        if said and said[0] in _STOP:
            return True
    return False


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
