"""A person at a terminal, as the other end of a pipe, and of a real one."""

from __future__ import annotations

import os
import pty
import queue
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest
from llm.asked import decide
from openai_peer import Peer

from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.person import desk as desks
from reactree_ros.person.desk import PERIOD, Desk, at_the_terminal
from reactree_ros.person.port import Answer, NobodyAnswers, Question

#: Longest wait for anything, in seconds.
PATIENCE = 20.0
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Typed:
    """A desk with somebody at its terminal."""

    def __init__(self, desk: Desk, keys: int, said: queue.Queue[str], heard: queue.Queue[str]) -> None:
        self.desk, self._keys, self.said, self.heard = desk, keys, said, heard

    def ask(self, text: str, seconds: float = PATIENCE, skill: str = "") -> Pending[Answer]:
        """Ask, and wait until the question was printed."""
        pending = self.desk.ask(Question(text, seconds, goal="root", skill=skill))
        self.shows(text)
        return pending

    def shows(self, text: str) -> str:
        """Wait for a line with a text."""
        while text not in (line := self.said.get(timeout=PATIENCE)):
            pass
        return line

    def type(self, text: str) -> None:
        os.write(self._keys, text.encode())

    def leave(self) -> None:
        os.close(self._keys)
        self._keys = -1


@pytest.fixture
def typed() -> Iterator[Typed]:
    desk, said, heard = Desk(), queue.Queue[str](), queue.Queue[str]()
    desk.follow(heard.put)
    there, keys = os.pipe()
    with at_the_terminal(desk, there, said.put):
        person = Typed(desk, keys, said, heard)
        yield person
        if person._keys >= 0:
            person.leave()
    os.close(there)


def test_a_question_is_shown_with_who_asks_and_what_is_typed_answers_it(typed: Typed) -> None:
    answer = typed.desk.ask(Question("Which \x1b[31mapple?", 600.0, goal="bring an apple", asker="/planner"))
    assert typed.shows("apple?") == "/planner: Which ␛[31mapple? (bring an apple; answer within 600 s)"
    typed.type("the red one\n")
    assert answer.result(PATIENCE) == Answer("the red one", "terminal")


def test_a_yes_that_comes_sooner_than_anybody_can_read_is_not_taken(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desks, "REACTION", PATIENCE)
    answer = typed.ask("May it?", skill="turn on stove 1")
    typed.shows("y: yes; anything else: no")
    typed.type("y\n")
    typed.shows("type it again")
    assert not answer.done()
    monkeypatch.setattr(desks, "REACTION", 0.0)
    typed.type("y\n")
    assert answer.result(PATIENCE).text == "y"


@pytest.mark.parametrize(
    "gone", [lambda answer: answer.cancel(), lambda answer: answer.fail(NobodyAnswers("too late"))]
)
def test_an_answer_to_a_question_that_is_gone_goes_neither_to_the_run_nor_to_the_next_one(
    typed: Typed, gone: Callable[..., object]
) -> None:
    gone(typed.ask("May stove 1?", skill="turn on stove 1"))
    typed.shows("(that question is not open any more)")
    second = typed.ask("May stove 2?", skill="turn on stove 2")
    typed.type("no\n")
    assert second.result(PATIENCE).text == "no"
    assert typed.heard.empty()


def test_stop_stops_the_run_whatever_is_asked_and_is_no_yes(typed: Typed) -> None:
    answer = typed.ask("May it?", skill="turn on stove 1")
    typed.type("stop\n")
    assert answer.result(PATIENCE).text == "stop"
    assert typed.heard.get(timeout=PATIENCE) == "stop"


def test_two_questions_need_two_lines(typed: Typed) -> None:
    first = typed.ask("Which apple?")
    second = typed.desk.ask(Question("Which table?", PATIENCE))
    typed.type("the red one\n")
    assert first.result(PATIENCE).text == "the red one"
    typed.shows("Which table?")
    typed.type("the small one\n")
    assert second.result(PATIENCE).text == "the small one"


def test_two_lines_at_once_do_not_answer_a_question_that_was_not_seen(typed: Typed) -> None:
    first = typed.ask("Which stove?")
    second = typed.desk.ask(Question("May the oven be turned on?", PATIENCE, skill="turn on oven 1"))
    typed.type("the left one\nyes\n")
    assert first.result(PATIENCE).text == "the left one"
    assert typed.heard.get(timeout=PATIENCE) == "yes"
    assert not second.done()


def test_who_draws_on_the_terminal_is_told_while_a_question_is_open() -> None:
    desk, drawing = Desk(), queue.Queue[bool]()
    there, keys = os.pipe()
    with at_the_terminal(desk, there, lambda line: None, asking=drawing.put):
        first, second = desk.ask(Question("Which apple?", PATIENCE)), desk.ask(Question("Which table?", PATIENCE))
        assert drawing.get(timeout=PATIENCE)
        first.cancel()
        with pytest.raises(queue.Empty):
            drawing.get(timeout=5 * PERIOD)
        second.cancel()
        assert not drawing.get(timeout=PATIENCE)
    os.close(keys)
    os.close(there)


def test_what_the_run_does_not_take_in_is_said(typed: Typed) -> None:
    def refuse(words: str) -> None:
        raise UserError("the run has ended; nobody takes in what you say")

    typed.desk.follow(refuse)
    typed.type("the red one\n")
    assert "the run has ended" in typed.said.get(timeout=PATIENCE)


def test_who_closes_the_terminal_answers_nothing_any_more(typed: Typed) -> None:
    pending = typed.ask("Which apple?")
    typed.leave()
    with pytest.raises(NobodyAnswers, match="the terminal was closed"):
        pending.result(PATIENCE)


@pytest.mark.parametrize("garbage", [b"\xff\xfe\n", b"\x00\x1b[2J\n", b"x" * 300_000 + b"\n"])
def test_garbage_is_words_like_any_other(typed: Typed, garbage: bytes) -> None:
    pending = typed.ask("Which apple?")
    os.write(typed._keys, garbage[:60_000])
    if len(garbage) > 60_000:
        os.write(typed._keys, b"\n")
    assert pending.result(PATIENCE).text


# ---------------------------------------------------------------------- a pipe


@pytest.mark.slow
def test_each_line_of_a_pipe_waits_for_a_question_and_answers_it() -> None:
    desk, said = Desk(), queue.Queue[str]()
    reads, writes = os.pipe()
    os.write(writes, b"the red one\n\ny\nthe last")
    os.close(writes)
    heard: list[str] = []
    desk.follow(heard.append)
    with at_the_terminal(desk, reads, said.put, piped=True) as typist:
        answers = [desk.ask(Question("Which?", PATIENCE)).result(PATIENCE).text]
        answers += [desk.ask(Question("Open it?", PATIENCE, skill="open it")).result(PATIENCE).text]
        answers += [desk.ask(Question("And?", PATIENCE)).result(PATIENCE).text]
        with pytest.raises(NobodyAnswers):
            desk.ask(Question("More?", PATIENCE)).result(PATIENCE)
    assert answers == ["the red one", "y", "the last"]
    assert (typist.answered, heard) == (3, [])
    os.close(reads)


# ---------------------------------------------------------------------- a real terminal


def in_a_terminal(arguments: Sequence[str], typed: Mapping[str, str]) -> tuple[int, str]:
    """Run a command in a terminal of its own; returns its exit code and what it printed.

    Args:
        arguments: Of ``reactree``.
        typed: What is typed as soon as something is printed, in order.
    """
    keyboard, terminal = pty.openpty()
    command = [sys.executable, "-m", "reactree_ros.cli", *arguments]
    run = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    printed, left = "", dict(typed)
    with closing_descriptor(keyboard):
        while select.select([keyboard], [], [], PATIENCE)[0]:
            try:
                printed += os.read(keyboard, 65536).decode(errors="replace")
            except OSError:  # it has ended
                break
            if left and (waited_for := next(iter(left))) in printed:
                os.write(keyboard, left.pop(waited_for).encode())
        else:
            run.kill()
    return run.wait(PATIENCE), _COLOURS.sub("", printed)


@contextmanager
def closing_descriptor(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)


def run_by(say: Callable[[str], str], typed: Mapping[str, str], *more: str) -> tuple[int, str]:
    with Peer(say=say) as peer:
        arguments = ["run", "Put 1 apple on the coffee table", "--llm", "openai", "--base-url", peer.base_url]
        return in_a_terminal([*arguments, *more], typed)


def asks_first(prompt: str) -> str:
    if "Nobody answers" in prompt:
        return "Act: failure"
    knows = "The person answers" in prompt or "Your primary goal" in prompt
    return decide(prompt) if knows else "Ask: Which apple?"


@pytest.mark.slow
def test_a_question_is_answered_in_a_terminal() -> None:
    asked = ["--planner", "reactree_wm:questions=1:fixed_example=false"]
    code, printed = run_by(asks_first, {"Type the answer, then Enter.": "the red one\n"}, *asked)
    assert "The person answers: the red one" in printed
    assert code == 0, printed


#: A run that has not been told yet does not end by itself, however busy the machine is.
FOR_LONG = ("--max-decisions", "100000", "--option", "stuck_after=0")


@pytest.mark.slow
def test_a_run_in_a_terminal_is_stopped_by_a_word() -> None:
    code, printed = run_by(lambda _: "Think: hm", {"Think: hm": "please stop\n"}, *FOR_LONG)
    assert "The person says: please stop" in printed
    assert "(end: interrupted)" in printed
    assert code == 1


@pytest.mark.slow
def test_a_word_in_a_terminal_corrects_the_house_once_it_is_shown_and_confirmed() -> None:
    def say(prompt: str) -> str:
        return "Act: failure" if "The person confirms it" in prompt else "Think: hm"

    typed = {"Think: hm": "the apple is gone\n", "Type the answer, then Enter.": "apple 2\n"}
    _, printed = run_by(say, typed, *FOR_LONG)
    assert "Which do you mean: the apple 1 is gone, or the apple 2 is gone?" in printed
    assert "The person answers: apple 2" in printed
    assert "(end: failure)" in printed
