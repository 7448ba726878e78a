"""The desk: questions of several askers, one person, and answers that come too late or twice."""

from __future__ import annotations

import threading

import pytest
from doubles import Clock

from reactree_ros.errors import UserError
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import Answer, NobodyAnswers, Question


def asks(text: str = "Which?", seconds: float = 10.0, skill: str = "") -> Question:
    return Question(text, seconds, skill=skill)


def number_of(desk: Desk) -> int:
    assert desk.next is not None
    return desk.next.number


def test_questions_are_answered_in_the_order_in_which_they_came() -> None:
    desk = Desk()
    first, second = desk.ask(asks("1?")), desk.ask(asks("2?"))
    desk.answer(number_of(desk), "one", "test")
    assert first.take() == Answer("one", "test")
    assert not second.done()
    desk.answer(number_of(desk), "two")
    assert second.take().text == "two"
    assert desk.next is None


def test_an_answer_goes_to_its_question_only() -> None:
    desk = Desk()
    first = desk.ask(asks("May the stove be turned on?", skill="turn on stove 1"))
    number = number_of(desk)
    first.cancel()
    second = desk.ask(asks("May the oven be turned on?", skill="turn on oven 1"))
    with pytest.raises(UserError, match=f"question {number} is not open any more"):
        desk.answer(number, "yes")
    assert not second.done()


def test_a_question_whose_time_is_over_is_given_up() -> None:
    clock = Clock()
    desk = Desk(clock)
    late, next_ = desk.ask(asks(seconds=5)), desk.ask(asks(seconds=50))
    number = number_of(desk)
    clock.now += 6
    with pytest.raises(UserError, match="its time is over"):
        desk.answer(number, "yes")
    assert desk.next is not None
    with pytest.raises(NobodyAnswers, match="within 5 s"):
        late.take()
    assert not next_.done()


def test_nothing_is_no_answer() -> None:
    desk = Desk()
    desk.ask(asks())
    with pytest.raises(UserError, match="is empty"):
        desk.answer(number_of(desk), " \n ")
    assert desk.next is not None


def test_of_many_who_answer_at_once_one_is_heard() -> None:
    desk = Desk()
    pending = desk.ask(asks())
    number, refused = number_of(desk), list[UserError]()
    begin = threading.Barrier(8)

    def answer(words: str) -> None:
        begin.wait()
        try:
            desk.answer(number, words)
        except UserError as error:
            refused.append(error)

    threads = [threading.Thread(target=answer, args=(f"answer {one}",)) for one in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pending.done()
    assert len(refused) == 7


def test_stop_refuses_a_skill_and_ends_the_run() -> None:
    desk, heard = Desk(), list[str]()
    pending = desk.ask(asks(skill="turn on stove 1"))
    with pytest.raises(UserError, match="no run is going on"):
        desk.answer(number_of(desk), "stop!")
    assert pending.take().text == "stop!", "also where no run hears it"
    desk.follow(heard.append)
    desk.answer(1, "stop")
    assert heard == ["stop"], "also to a question that is not open any more"


def test_who_leaves_answers_nothing_any_more() -> None:
    desk = Desk()
    before = desk.ask(asks())
    desk.leave()
    for pending in (before, desk.ask(asks())):
        with pytest.raises(NobodyAnswers):
            pending.take()
