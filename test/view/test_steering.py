"""A person pauses a run, takes single steps, says decisions, cancels it."""

from __future__ import annotations

from pathlib import Path

import pytest
from doubles import Heard, ScriptedModel, scripted_episode

from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.llm.port import A_PERSON
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import Question
from reactree_ros.view.steering import Steering

SOME = 6  # ticks; more than a decision takes


def steered(*script: str, paused: bool = True) -> tuple[Episode, Steering, Heard]:
    heard = Heard()
    steering = Steering(ScriptedModel({"root": script}), paused=paused)
    episode = scripted_episode({}, model=steering, listener=heard)
    steering.follow(episode)
    return episode, steering, heard


def tick(episode: Episode) -> None:
    for _ in range(SOME):
        episode.tick()


def test_a_run_that_begins_paused_decides_nothing_until_it_may_go_on() -> None:
    episode, steering, heard = steered("Think: a", "Act: done")
    tick(episode)
    assert (heard.heard, steering.course.paused) == ([], True)
    steering.go_on()
    assert episode.run().end == "done"
    assert heard.heard == ["Think: a", "Act: done"]


def test_a_step_is_one_decision_after_which_it_is_paused_again() -> None:
    episode, steering, heard = steered("Think: a", "Act: open fridge 1", "Act: done")
    for number in (1, 2):
        steering.step()
        tick(episode)
        assert (len(heard.heard), steering.course.paused) == (number, True)
    assert (episode.context.budget.decisions, episode.context.budget.steps) == (2, 1)


def test_a_run_is_paused_in_its_course() -> None:
    episode, steering, heard = steered("Think: a", "Think: b", "Act: done", paused=False)
    episode.tick()
    steering.pause()
    tick(episode)
    before = list(heard.heard)
    tick(episode)
    assert heard.heard == before
    assert steering.course.paused
    assert not episode.finished


def test_what_a_person_says_is_the_next_decision_and_the_model_is_not_asked() -> None:
    episode, steering, heard = steered("Act: done")
    steering.say("Act: open fridge 1")
    tick(episode)
    assert (heard.heard, steering.course.paused) == (["Act: open fridge 1"], True)
    (reply,) = (reply for _, _, reply in episode.context.replies)
    assert reply.answered_by == A_PERSON
    steering.go_on()
    assert episode.run().end == "done"
    assert heard.heard == ["Act: open fridge 1", "Act: done"]


def test_words_that_may_not_be_said_are_not_taken_and_it_says_why() -> None:
    episode, steering, heard = steered("Act: done")
    steering.say("Act: fly to the moon")
    tick(episode)
    assert (heard.heard, episode.context.budget.decisions) == ([], 0)
    assert steering.course.paused
    assert "fly to the moon" in steering.course.notice
    steering.say("Act: open fridge 1")
    assert steering.course.notice == ""
    tick(episode)
    assert heard.heard == ["Act: open fridge 1"]


def test_a_person_says_something_only_to_a_paused_run() -> None:
    episode, steering, _ = steered("Act: done", paused=False)
    with pytest.raises(UserError, match="not paused"):
        steering.say("Act: done")
    steering.pause()
    with pytest.raises(UserError, match="decision is empty"):
        steering.say(" \n")
    assert not episode.finished


def test_what_the_person_is_asked_is_shown_and_answered_by_its_number() -> None:
    desk = Desk()
    steering = Steering(ScriptedModel({}), desk)
    assert steering.course.asked is None
    one = desk.ask(Question("Which apple?", 60.0, goal="root"))
    other = desk.ask(Question("May it?", 60.0, goal="it is hot", skill="turn on stove 1"))
    shown = steering.course.asked
    assert shown is not None
    assert (shown.number, shown.text, shown.reason, shown.skill) == (1, "Which apple?", "root", "")
    answer = steering.commands(Path())["answer 1"]
    answer("the red one")
    assert (one.take().text, one.take().by) == ("the red one", "page")
    shown = steering.course.asked
    assert shown is not None
    assert (shown.number, shown.skill) == (2, "turn on stove 1")
    with pytest.raises(UserError, match="not open any more"):
        answer("yes")
    assert not other.done()
    assert "answer 1" not in steering.commands(Path())


def test_words_are_told_to_the_run() -> None:
    steering = Steering(ScriptedModel({"root": ["Think: a", "Act: done"]}))
    episode = scripted_episode({}, model=steering)
    steering.follow(episode)
    steering.commands(Path())["tell"]("the red one")
    assert episode.run().end == "done"
    assert episode.context.words == ["the red one"]
    steering.ended()
    with pytest.raises(UserError, match="has ended"):
        steering.tell("the red one")
