"""A person at a terminal: what is typed answers what is shown, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from reactree_ros.errors import UserError
from reactree_ros.person import terminal as terminal_module
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import NobodyAnswers, Question
from reactree_ros.person.terminal import at_the_terminal

#: Longest wait for anything, in seconds; the machine may be busy.
PATIENCE = 60.0


class Terminal:
    """A desk whose questions are answered at a terminal.

    Attributes:
        desk: The desk.
        words: What the run was told.
    """

    def __init__(self, desk: Desk, person: int) -> None:
        self.desk, self.words, self.shown = desk, list[str](), SimpleQueue[str]()
        self._person = person
        desk.follow(self.words.append)

    def shows(self, text: str) -> str:
        """Wait for a line with a text."""
        while text not in (line := self.shown.get(timeout=PATIENCE)):
            pass
        return line

    def types(self, line: str) -> None:
        os.write(self._person, f"{line}\n".encode())


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    there, person = os.pipe()
    one = Terminal(Desk(), person)
    with at_the_terminal(one.desk, there, one.shown.put):
        yield one
    os.close(person)
    os.close(there)


def skill(name: str, seconds: float = 600.0) -> Question:
    return Question(f"May '{name}' be carried out?", seconds, goal="it is hot", skill=name)


def test_a_question_is_shown_with_who_asks_and_what_is_typed_answers_it(terminal: Terminal) -> None:
    answer = terminal.desk.ask(Question("Which \x1b[31mapple?", 600.0, goal="bring an apple", asker="/planner"))
    assert terminal.shows("apple?") == "/planner: Which ␛[31mapple? (bring an apple; 600 s)"
    terminal.types("the red one")
    assert (answer.result(PATIENCE).text, answer.result().by) == ("the red one", "terminal")


def test_what_is_typed_while_nothing_is_asked_is_told_to_the_run(terminal: Terminal) -> None:
    terminal.types("the red one")
    terminal.shows("(passed on to the run)")
    assert terminal.words == ["the red one"]


def test_a_yes_that_comes_sooner_than_anybody_can_read_is_not_taken(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_module, "REACTION", PATIENCE)
    answer = terminal.desk.ask(skill("turn on stove 1"))
    terminal.shows("y: yes; anything else: no")
    terminal.types("y")
    terminal.shows("type it again")
    assert not answer.done()
    monkeypatch.setattr(terminal_module, "REACTION", 0.0)
    terminal.types("y")
    assert answer.result(PATIENCE).text == "y"


@pytest.mark.parametrize(
    "gone", [lambda answer: answer.cancel(), lambda answer: answer.fail(NobodyAnswers("too late"))]
)
def test_an_answer_to_a_question_that_is_gone_goes_neither_to_the_run_nor_to_the_next_one(
    terminal: Terminal, gone: Callable[..., object]
) -> None:
    first = terminal.desk.ask(skill("turn on stove 1"))
    terminal.shows("turn on stove 1")
    gone(first)
    terminal.shows("(that question is not open any more)")
    second = terminal.desk.ask(skill("turn on stove 2"))
    terminal.shows("turn on stove 2")
    terminal.types("no")
    assert second.result(PATIENCE).text == "no"
    assert terminal.words == []


def test_stop_stops_the_run_whatever_is_asked_and_is_no_yes(terminal: Terminal) -> None:
    answer = terminal.desk.ask(skill("turn on stove 1"))
    terminal.shows("turn on stove 1")
    terminal.types("stop")
    assert answer.result(PATIENCE).text == "stop"
    terminal.types("and this?")
    terminal.shows("(passed on to the run)")
    assert terminal.words == ["stop", "and this?"]


def test_stop_as_the_answer_to_a_question_that_is_not_open_any_more_stops_the_run() -> None:
    desk, words = Desk(), list[str]()
    desk.follow(words.append)
    desk.ask(skill("turn on stove 1")).cancel()
    desk.answer(1, "stop")
    with pytest.raises(UserError, match="not open any more"):
        desk.answer(1, "yes")
    assert words == ["stop"]


def test_a_skill_is_refused_by_stop_also_where_no_run_hears_it() -> None:
    desk = Desk()
    answer = desk.ask(skill("turn on stove 1"))
    with pytest.raises(UserError, match="no run is going on"):
        desk.answer(1, "stop")
    assert answer.take().text == "stop"
