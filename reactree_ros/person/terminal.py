"""The way to a person by a terminal: questions are printed, and what is typed answers them or goes to the run."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reactree_ros.agent.text import in_one_line
from reactree_ros.errors import UserError
from reactree_ros.person.desk import Desk, Open
from reactree_ros.person.port import approves

#: How often is looked for questions, in seconds.
PERIOD = 0.1
#: By what way answers come.
BY = "terminal"
#: Longest line that is kept while it is typed, in bytes.
LONGEST_LINE = 1 << 16
#: A yes that comes sooner after a skill was printed is not taken: it was meant for what was printed before. Seconds.
REACTION = 0.5


@contextmanager
def at_the_terminal(desk: Desk, terminal: int, say: Callable[[str], None]) -> Iterator[None]:
    """Let the person at a terminal answer a desk's questions, in a thread, as long as this context lasts.

    What was typed before a question was printed answers nothing: it is told to the run, as anything else that is typed
    while no question is open.

    Args:
        desk: Has the questions.
        terminal: File descriptor of what the person types.
        say: Prints a line.
    """
    ended, end = os.pipe()
    thread = threading.Thread(target=_Typist(desk, terminal, say).run, args=(ended,), name="terminal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.close(end)  # which the thread sees
        thread.join(timeout=5.0)
        os.close(ended)


class _Typist:
    def __init__(self, desk: Desk, terminal: int, say: Callable[[str], None]) -> None:
        self._desk, self._terminal, self._say = desk, terminal, say
        self._typed = b""
        self._shown: Open | None = None
        self._shown_at = 0.0

    def run(self, ended: int) -> None:
        """Look at terminal and desk until the other end of a pipe is closed."""
        typing = True
        while True:
            ready = select.select([ended, *([self._terminal] if typing else [])], [], [], PERIOD)[0]
            if ended in ready:
                return
            if self._terminal in ready and self._is_ours():
                typing = self._read()
            self._show()

    def _is_ours(self) -> bool:
        """Whether what is typed is for this process; one in the background would be stopped by reading it."""
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:  # a pipe, or a file
            return True

    def _read(self) -> bool:
        """Take what was typed; returns False where nobody types any more."""
        try:
            typed = os.read(self._terminal, 4096)
        except OSError:
            typed = b""
        *lines, self._typed = (self._typed + typed).split(b"\n")
        self._typed = self._typed[-LONGEST_LINE:]
        for line in lines:
            self._take(line.decode(errors="replace").strip())
        if not typed:
            self._desk.leave("the terminal was closed")
        return bool(typed)

    def _take(self, words: str) -> None:
        if not words:
            return
        shown = self._shown
        try:
            if shown is None:
                self._desk.say(words)
                self._say("(the run is told)")
            elif shown.question.skill and approves(words) and time.monotonic() - self._shown_at < REACTION:
                self._say("(that came too soon to be meant for this question; say it again)")
            else:
                self._desk.answer(shown.number, words, BY)
        except UserError as error:
            self._say(f"({error})")
        if shown is not None and shown.answer.done():
            self._shown = None

    def _show(self) -> None:
        """Print the question that is to be answered now, once."""
        one = self._desk.next
        if self._shown is not None and self._shown.answer.done():
            self._say("(that question is not open any more)")
            self._shown = None
        if one is None or one == self._shown:
            return
        self._shown, self._shown_at = one, time.monotonic()
        asked = one.question
        who = f"{asked.asker}: " if asked.asker else ""
        self._say(in_one_line(f"{who}{asked.text} ({asked.goal}; {one.ends - time.time():.3g} s)"))
        self._say("y: yes; anything else: no" if asked.skill else "Type the answer, then Enter.")
