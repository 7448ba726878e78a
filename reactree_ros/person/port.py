"""The port to a person: questions go out, answers may come back; what words mean that somebody says."""

from __future__ import annotations

import abc
import re
import time
import unicodedata
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from reactree_ros.background.pending import Pending, asked, in_time, mapped

#: Most characters of a person's words that a model sees.
LONGEST = 500
#: Characters that could end a line, a quotation or a turn, or begin another speaker's turn.
_TAMED = str.maketrans('"“”<>[]{}', "'''()()()")
_STOP = {"stop", "halt", "abort", "cancel"}
#: For how long after it was said something may come back from the microphone, in seconds.
ECHO = 15.0
#: Least share of words, up to 1, that what was heard has in common with what was said where it is an echo.
_ALIKE = 0.8
#: How many things that were said are compared.
_MOST = 20
#: Most characters that are looked at; nobody speaks so long without a pause.
_HEARD = 4000
#: What recognisers write for what is not a word.
_NOISE = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|\*[^*]*\*|♪[^♪]*♪?")
#: Words that may stand before a word that ends a run.
_BEFORE = {"please", "no", "hey", "robot", "wait", "ok", "okay", "oh", "just", "now", "and", "you", "must"}


class NobodyAnswers(Exception):
    pass


@dataclass(frozen=True)
class Question:
    text: str  # the question, in one line
    seconds: float  # how long the asker waits for the answer
    id: str = ""  # unique within the run
    goal: str = ""  # why it is asked: the goal node's subgoal, or the policy's reason for a skill
    skill: str = ""  # the skill to confirm, in words; empty if the language model asks
    asker: str = ""  # who asks, if there are several robots; empty for the run


@dataclass(frozen=True)
class Answer:
    text: str  # the words
    by: str = ""  # where they come from, e.g. ``terminal``; empty if unknown


class Person(abc.ABC):
    @abc.abstractmethod
    def ask(self, question: Question) -> Pending[Answer]:
        """Ask a question; returns at once. The asker cancels it when it stops waiting.

        It fails early with :class:`NobodyAnswers` if no answer can come.
        """


def quoted(words: str) -> str:
    """Return a person's words for a model: one line, in quotation marks that they cannot leave.

    The words cannot end the line or the quotation, begin a turn of a chat layout, or pass for a decision.
    """
    controls = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    plain = "".join(" " if unicodedata.category(one) in controls else one for one in words)
    line = " ".join(plain.translate(_TAMED).split())
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


def confirmed_by(person: Person | None, seconds: float) -> Callable[[str, str], Pending[str]]:
    """Return a function that asks a person about a skill, for a ``PolicyGuard``; no answer in time counts as no.

    Each skill is its own question, and only the answer ``y`` or ``yes`` to it is a yes. Without a person it is a no.
    """

    def confirm(skill: str, reason: str) -> Pending[str]:
        def refused(answer: Answer) -> str:
            words = answer.text
            return "" if approves(words) else f"the person does not want '{skill}', and says {quoted(words)}"

        if person is None:
            return Pending.ready(f"{reason}, and nobody can be asked")
        question = Question(f"May '{skill}' be carried out?", seconds, goal=reason, skill=skill)
        late = NobodyAnswers(f"no answer within {seconds:g} s")
        return in_time(mapped(asked(person.ask, question), refused), seconds, late)

    return confirm


def spoken(words: str) -> str:
    """Return what was said of what a recogniser wrote: without noises, as ``[music]``, in one line; may be empty."""
    said = " ".join(_NOISE.sub(" ", words[:_HEARD]).split())
    return said if re.search(r"\w", said) else ""


def addressed(words: str, called: str) -> str | None:
    """Return words without the robot's name before them; None if it has a name and that is not said first."""
    if not called:
        return words.strip()
    name = r"\W+".join(map(re.escape, called.split()))
    match = re.match(rf"\W*(?:(?:hey|hi|hello|ok|okay)\W+)?{name}(?!\w)\W*(.*)", words, re.IGNORECASE | re.DOTALL)
    return None if match is None else match[1].strip()


class Echo:
    """Knows what was said lately, by a clock in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said: deque[tuple[float, Sequence[str]]] = deque(maxlen=_MOST)

    def record(self, text: str) -> None:
        self._said.append((self._clock(), _tokens(text)))

    def is_echo(self, words: str) -> bool:
        """Return whether words are what was said lately, but for a few of them."""
        heard, since = _tokens(words), self._clock() - ECHO
        return any(SequenceMatcher(None, heard, said).ratio() >= _ALIKE for at, said in self._said if at >= since)


def _tokens(text: str) -> Sequence[str]:
    return re.findall(r"\w+", text.casefold())
