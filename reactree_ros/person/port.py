"""The port to a person: questions go out, answers come back, or none does."""

from __future__ import annotations

import abc
import re
import unicodedata
from dataclasses import dataclass

from reactree_ros.background.pending import Pending

#: The longest that a model is told of what a person says, in characters.
LONGEST = 500
#: What could end a line, a quotation or a turn, or begin somebody else's.
_TAMED = str.maketrans('"“”<>[]{}', "'''()()()")
_STOP = {"stop", "halt", "abort", "cancel"}
#: What may stand before it.
_BEFORE = {"please", "no", "hey", "robot", "wait", "ok", "okay", "oh", "just", "now", "and", "you", "must"}


class NobodyAnswers(Exception):
    """There is nobody who would answer; the message says why."""


@dataclass(frozen=True)
class Question:
    """Something that a person is asked.

    Attributes:
        text: The question, in one line.
        seconds: How long whoever asks waits for the answer.
        id: Tells it from the other questions of the run.
        goal: What it is asked for: the subgoal of the goal node, or the reason why a skill needs a person's yes.
        skill: The skill that is to be confirmed, in words; empty where the language model asks.
        asker: Who asks, where there are several who could; empty: the run.
    """

    text: str
    seconds: float
    id: str = ""
    goal: str = ""
    skill: str = ""
    asker: str = ""


@dataclass(frozen=True)
class Answer:
    """What a person said.

    Attributes:
        text: As it was said.
        by: By what way it came, such as ``terminal``; empty where that is not known.
    """

    text: str
    by: str = ""


class Person(abc.ABC):
    """Answers questions, or does not."""

    @abc.abstractmethod
    def ask(self, question: Question) -> Pending[Answer]:
        """Put a question; returns at once. Whoever asks cancels it when it does not wait any more.

        It fails with :class:`NobodyAnswers` where that is known before its time is over.
        """


def quoted(words: str) -> str:
    """Return a person's words as a model is told them: one line, in quotation marks that they cannot leave.

    Nothing of them can end the line or the quotation, begin a turn of a chat layout, or stand for a decision.
    """
    line = " ".join("".join(" " if _is_control(one) else one for one in words).translate(_TAMED).split())
    return f'"{line}"' if len(line) <= LONGEST else f'"{line[:LONGEST]} …"'


def approves(words: str) -> bool:
    """Whether words are a yes to a skill: ``y`` or ``yes`` and nothing else."""
    return words.strip().casefold().rstrip(".!") in ("y", "yes")


def is_stop(words: str) -> bool:
    """Whether words end a run: a part of them begins with ``stop`` or the like; to stop too often does no harm."""
    for part in re.split(r"[.,;:!?\n—–-]+", unicodedata.normalize("NFKC", words).casefold()):
        said = part.split()
        while said and said[0] in _BEFORE:
            said.pop(0)
        if said and said[0] in _STOP:
            return True
    return False


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
