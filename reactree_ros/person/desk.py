"""The desk: keeps questions until a person answers them, from the terminal or the page."""

from __future__ import annotations

import itertools
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reactree_ros.agent.text import in_one_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.person.port import Answer, NobodyAnswers, Person, Question, approves, is_stop


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


#: Time between two checks for questions, in seconds.
PERIOD = 0.1
#: The origin of answers.
BY = "terminal"
#: Longest unfinished line that is kept, in bytes.
LONGEST_LINE = 1 << 16
#: Most lines of a pipe that are read before there are questions for them.
MOST_LINES = 100
#: A yes so soon after a skill was printed is ignored: it was meant for an earlier line. Seconds.
REACTION = 0.5


@contextmanager
def at_the_terminal(
    desk: Desk,
    terminal: int,
    say: Callable[[str], None],
    *,
    piped: bool = False,
    asking: Callable[[bool], None] = lambda is_asking: None,
) -> Iterator[Typist]:
    """Let a person answer a desk's questions at a terminal, in a thread, until this context ends.

    A line typed before a question was printed does not answer it. It goes to the run, like any line typed while no
    question is open.

    With ``piped``, what is read was written before: each line waits for a question, and answers just that.
    ``asking`` is called with True when a question opens, and with False when the last one closes.
    """
    ended, end = os.pipe()
    typist = Typist(desk, terminal, say, asking, piped=piped)
    thread = threading.Thread(target=typist.run, args=(ended,), name="terminal", daemon=True)
    thread.start()
    try:
        yield typist
    finally:
        os.close(end)  # ends the thread
        thread.join(timeout=5.0)
        os.close(ended)


class Typist:
    def __init__(
        self,
        desk: Desk,
        terminal: int,
        say: Callable[[str], None],
        asking: Callable[[bool], None],
        *,
        piped: bool,
    ) -> None:
        self._desk, self._terminal, self._say, self._piped = desk, terminal, say, piped
        self._asking, self._is_asking = asking, False
        self.answered = 0  # how many questions
        self._typed = b""
        self._lines = deque[str]()  # what is not taken yet
        self._shown: Open | None = None
        self._shown_at = 0.0

    def run(self, ended: int) -> None:
        typing = True
        while True:
            reads = typing and len(self._lines) < MOST_LINES
            ready = select.select([ended, *([self._terminal] if reads else [])], [], [], PERIOD)[0]
            if ended in ready:
                return
            if self._terminal in ready and self._is_ours():
                typing = self._read()
            self._take_in(more=typing)
            self._show()

    def _is_ours(self) -> bool:
        # reading would stop a process in the background
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:  # a pipe or a file
            return True

    def _read(self) -> bool:
        # False after the last line
        try:
            typed = os.read(self._terminal, 4096)
        except OSError:
            typed = b""
        *lines, self._typed = (self._typed + typed).split(b"\n")
        self._typed = self._typed[-LONGEST_LINE:]
        if self._piped and not typed:
            lines, self._typed = [*lines, self._typed], b""
        self._lines += filter(None, (line.decode(errors="replace").strip() for line in lines))
        return bool(typed)

    def _take_in(self, *, more: bool) -> None:
        # from a pipe one line for each question; the person leaves after the last one
        while self._lines and (self._shown is not None or not self._piped):
            self._take(self._lines.popleft())
        if not (more or self._lines) and self._desk.staffed:
            self._desk.leave("the terminal was closed")

    def _take(self, words: str) -> None:
        shown = self._shown
        try:
            if shown is None:
                self._desk.say(words)
                self._say("(passed on to the run)")
            elif (
                shown.question.skill
                and approves(words)
                and not self._piped
                and time.monotonic() - self._shown_at < REACTION
            ):
                self._say("(that came too soon to be an answer to this question; type it again)")
            else:
                self._desk.answer(shown.number, words, BY)
                self.answered += 1
        except UserError as error:
            self._say(f"({error})")
        if shown is not None and shown.answer.done():
            self._shown = None

    def _show(self) -> None:
        one = self._desk.next
        if self._shown is not None and self._shown.answer.done():
            self._say("(that question is not open any more)")
            self._shown = None
        if self._is_asking != (one is not None):
            self._is_asking = not self._is_asking
            self._asking(self._is_asking)
        if one is None or one == self._shown:
            return
        self._shown, self._shown_at = one, time.monotonic()
        asked = one.question
        who = f"{asked.asker}: " if asked.asker else ""
        self._say(in_one_line(f"{who}{asked.text} ({asked.goal}; answer within {one.ends - time.time():.0f} s)"))
        self._say("y: yes; anything else: no" if asked.skill else "Type the answer, then Enter.")
