"""The desk: keeps questions until a person answers them, from the terminal or the page."""

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
    number: int  # at this desk, from 1; an answer names it, so that it reaches no other question
    question: Question
    until: float  # when the asker gives up, by ``time.monotonic``
    answer: Pending[Answer] = field(default_factory=Pending)
    ends: float = 0.0  # the same time by the wall clock, in seconds since the epoch


class Desk(Person):
    """Keeps questions until they are answered or given up. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.staffed = True  # whether anybody can see the questions; if not, a question fails at once
        self._clock = clock
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._open: dict[int, Open] = {}
        self._hear: Callable[[str], None] | None = None

    def follow(self, hear: Callable[[str], None] | None) -> None:
        self._hear = hear

    def ask(self, question: Question) -> Pending[Answer]:
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
        """The question to answer now; expired questions are given up."""
        for one in self.open:
            if self._clock() <= one.until:
                return one
            one.answer.fail(NobodyAnswers(f"no answer within {one.question.seconds:g} s"))
        return None

    @property
    def open(self) -> tuple[Open, ...]:
        with self._lock:
            return tuple(self._open.values())

    def answer(self, number: int, words: str, by: str = "") -> None:
        """Answer a question; ``stop`` and its like end the run instead."""
        one = self._open.get(number)
        if is_stop(words):
            if one is not None and one.question.skill:  # the asker may belong to no run
                one.answer.succeed(Answer(words, by))
            self.say(words)
            return
        if one is None or self._clock() > one.until:
            raise UserError(f"question {number} is not open any more: it was answered, or its time is over")
        if not words.strip():
            raise UserError(f"the answer to question {number} is empty; type an answer")
        if not one.answer.succeed(Answer(words, by)):
            raise UserError(f"somebody else has just answered question {number}")

    def say(self, words: str) -> None:
        if self._hear is None:
            raise UserError("no run is going on that could hear you")
        self._hear(words)

    def leave(self, why: str = "the person has left") -> None:
        self.staffed = False
        for one in self.open:
            one.answer.fail(NobodyAnswers(why))
