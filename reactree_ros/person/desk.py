"""The desk: where questions lie until a person answers them, by whatever way the answer comes."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question, is_stop


@dataclass(frozen=True)
class Open:
    """A question that is not answered.

    Attributes:
        number: Tells it from all others of the desk, from 1; an answer names it, so that none goes to another question.
        question: The question.
        until: When whoever asks gives up, by ``time.monotonic``.
        answer: What the person says.
        ends: The same time by the clock on the wall, in seconds since the epoch.
    """

    number: int
    question: Question
    until: float
    answer: Pending[Answer] = field(default_factory=Pending)
    ends: float = 0.0


class Desk(Person):
    """Keeps questions until they are answered or given up; all of it may be called from any thread.

    Args:
        clock: Seconds, never going back.

    Attributes:
        staffed: Whether anybody can see what lies here; where nobody can, a question fails at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.staffed = True
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, Open] = {}
        self._hear: Callable[[str], None] | None = None

    def follow(self, hear: Callable[[str], None] | None) -> None:
        """Say to whom a person's words go that answer no question: a run's; None: there is no run."""
        self._hear = hear

    def ask(self, question: Question) -> Pending[Answer]:
        """See :meth:`Person.ask`."""
        if not self.staffed:
            return Pending.failed(NobodyAnswers("nobody is there"))
        with self._lock:
            now, ends = self._clock(), time.time() + question.seconds
            one = Open(next(self._numbers), question, now + question.seconds, ends=ends)
            self._open[one.number] = one
        one.answer.add_done_callback(lambda _: self._open.pop(one.number, None))
        return one.answer

    @property
    def next(self) -> Open | None:
        """The question that a person is to answer now; those whose time is over are given up."""
        for one in self.open:
            if self._clock() <= one.until:
                return one
            one.answer.fail(NobodyAnswers(f"no answer within {one.question.seconds:g} s"))
        return None

    @property
    def open(self) -> tuple[Open, ...]:
        """The questions that are not answered, in the order in which they came."""
        with self._lock:
            return tuple(self._open.values())

    def answer(self, number: int, words: str, by: str = "") -> None:
        """Answer a question; ``stop`` and the like are no answer, but end the run.

        Args:
            number: Of the question.
            words: What the person says.
            by: By what way.

        Raises:
            UserError: The question is not open any more, or nothing is said.
        """
        one = self._open.get(number)
        if is_stop(words):
            if one is not None and one.question.skill:  # whoever asks may be of no run
                one.answer.succeed(Answer(words, by))
            self.say(words)
            return
        if one is None or self._clock() > one.until:
            raise UserError(f"question {number} is not open any more: it was answered, or its time is over")
        if not words.strip():
            raise UserError(f"nothing is said to question {number}; say what the answer is")
        if not one.answer.succeed(Answer(words, by)):
            raise UserError(f"question {number} was answered by somebody else meanwhile")

    def say(self, words: str) -> None:
        """Say something that answers no question to the run that goes on.

        Raises:
            UserError: There is none, or it cannot take words in.
        """
        if self._hear is None:
            raise UserError("no run goes on that could take in what you say")
        self._hear(words)

    def leave(self, why: str = "the person has left") -> None:
        """Let nobody be asked any more; what is open fails."""
        self.staffed = False
        for one in self.open:
            one.answer.fail(NobodyAnswers(why))
