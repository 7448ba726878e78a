"""Agent nodes that ask a person, and a person who says something in the middle of a run."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from doubles import Clock, ScriptedModel, ScriptedWorld, expand
from persons import Says, replays, told_by_the_person

from reactree_ros.agent.kinds.think import Ask
from reactree_ros.agent.turns import Said, Told, turn_from_dict, turn_to_dict
from reactree_ros.episode import Episode
from reactree_ros.episode.going_on import go_on, stop_of
from reactree_ros.errors import UserError
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import NobodyAnswers, Person
from reactree_ros.planners.spec import planner
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import TreeOptions


def run_of(
    script: dict[str, Sequence[str]],
    person: Person | None,
    *,
    name: str = "reactree:questions=2",
    clock: Clock | None = None,
) -> tuple[Episode, ScriptedModel, list[Event]]:
    model, events = ScriptedModel(script), list[Event]()
    given = {} if clock is None else {"clock": clock}
    episode = Episode(
        "root",
        world=ScriptedWorld(),
        model=model,
        planner=planner(name),
        person=person,
        options=TreeOptions(answer_timeout=5.0),
        record=Recorder(events.append),
        **given,
    )
    return episode, model, events


def test_a_question_is_one_decision_and_no_step_and_its_answer_is_told() -> None:
    person = Says("the red one")
    episode, _, events = run_of({"root": ["Ask: Which apple?", "Act: open fridge 1", "Act: done"]}, person)
    result = episode.run()
    assert (result.end, result.decisions, result.steps, result.questions) == ("done", 2, 1, 1)
    assert told_by_the_person(episode) == ['The person answers: "the red one".']
    assert [(one.text, one.goal, one.seconds) for one in person.asked] == [("Which apple?", "root", 5.0)]
    assert replays(events)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (NobodyAnswers("nobody is there"), "Nobody answers: nobody is there."),
        (RuntimeError("the radio is off"), "Nobody answers: the radio is off."),
        (ValueError(), "Nobody answers: ValueError."),
    ],
)
def test_where_nobody_answers_the_model_is_told_why_and_goes_on(answer: Exception, told: str) -> None:
    episode, _, events = run_of({"root": ["Ask: Which apple?", "Act: done"]}, Says(answer))
    assert episode.run().end == "done"
    assert told_by_the_person(episode) == [told]
    assert replays(events)


def test_an_answer_that_does_not_come_in_its_time_is_not_waited_for() -> None:
    clock, desk = Clock(), Desk()
    episode, _, events = run_of({"root": ["Ask: Which apple?", "Act: done"]}, desk, clock=clock)
    for _ in range(3):
        episode.tick()
    one = desk.next
    assert one is not None
    clock.now += 6.0
    while not episode.finished:
        episode.tick()
    episode.conclude()
    assert told_by_the_person(episode) == ["Nobody answers: no answer within 5 s."]
    with pytest.raises(UserError, match=f"question {one.number} is not open any more"):
        desk.answer(one.number, "the red one")
    assert replays(events)


def test_no_more_is_asked_than_may_be_in_the_whole_run() -> None:
    script = {
        "root": [expand("sequence", "a", "b")],
        "a": ["Ask: One?", "Act: done"],
        "b": ["Ask: Two?", "Ask: Three?", "Act: done"],
    }
    person = Says("1", "2")
    episode, model, events = run_of(script, person)
    assert episode.run().end == "done"
    assert [one.text for one in person.asked] == ["One?", "Two?"]
    assert told_by_the_person(episode, 2) == ['The person answers: "2". You may ask no more questions.']
    refused = [turn.text for turn in episode.context.nodes[2].turns if isinstance(turn, Told)]
    assert any(text.startswith("No more questions may be asked.") for text in refused)
    assert "Ask" in model.requests[0].may_say.regex()  # type: ignore[union-attr]
    assert "Ask" not in model.requests[-1].may_say.regex()  # type: ignore[union-attr]
    assert replays(events)


def test_the_same_question_is_not_put_twice() -> None:
    person = Says("the red one")
    script = {"root": ["Ask: Which apple?", "Ask: which Apple?", "Act: done"]}
    episode, _, events = run_of(script, person, name="react:questions=5")
    assert episode.run().questions == 1
    told = [turn.text for turn in episode.context.nodes[0].turns if isinstance(turn, Told)]
    assert 'That was asked already; the answer was "the red one".' in told
    assert replays(events)


def test_the_root_asks_before_it_gives_up_and_a_node_below_it_does_not() -> None:
    person = Says("the red one")
    script = {"root": ["Think: I do not understand.", "Act: failure", "Act: open fridge 1", expand("sequence", "a")]}
    episode, _, events = run_of({**script, "a": ["Act: failure"]}, person)
    assert episode.run().end == "failure"
    assert [one.text for one in person.asked] == ["I do not understand. What should I do?"]
    assert replays(events)
    person = Says("nothing")
    episode, _, events = run_of({"root": ["Ask: Which apple?", "Act: failure"]}, person)
    assert (episode.run().end, len(person.asked)) == ("failure", 1)
    assert replays(events)


@pytest.mark.parametrize(("name", "person"), [("reactree", Says()), ("reactree:questions=2", None)])
def test_without_questions_or_a_person_nothing_can_be_asked(name: str, person: Person | None) -> None:
    episode, model, events = run_of({"root": ["Ask: Which apple?", "Act: done"]}, person, name=name)
    result = episode.run()
    assert (result.end, result.questions) == ("done", 0)
    assert all("Ask" not in request.prompt.split("Which apple?")[0] for request in model.requests[:1])
    assert all("Ask: [" not in request.may_say.regex() for request in model.requests)  # type: ignore[union-attr]
    assert replays(events)


def test_the_system_text_tells_who_may_ask_that_it_may() -> None:
    episode, model, _ = run_of({"root": ["Act: done"]}, Says())
    episode.run()
    assert "4. Ask: Put a question to a person" in model.requests[0].prompt


# ---------------------------------------------------------------------- words in the middle of a run


def test_words_are_told_to_each_node_that_decides_from_then_on_once() -> None:
    script = {
        "root": ["Think: hm", expand("sequence", "a", "b")],
        "a": ["Think: 1", "Think: 2", "Act: done"],
        "b": ["Act: done"],
    }
    episode, _, events = run_of(script, None)
    while len(episode.context.nodes) < 2:
        episode.tick()
    episode.hear("not that one, the red one")
    episode.run()
    words = 'The person says: "not that one, the red one".'
    assert [told_by_the_person(episode, node) for node in range(3)] == [[], [words], [words]]
    assert replays(events)


@pytest.mark.parametrize(
    "words", ["stop", "STOP!", "please stop", "no, stop!", "Stop it, that is hot", "hey robot: halt"]
)
def test_stop_ends_the_run(words: str) -> None:
    episode, _, events = run_of({"root": ["Think: 1"] * 3}, None)
    episode.tick()
    episode.hear(words)
    assert episode.run().status == "interrupted"
    assert [event["text"] for event in events if event["e"] == "heard"] == [words]
    assert replays(events)


@pytest.mark.parametrize("words", ["don't stop", "the stop sign, please", "not that one", "first close the fridge"])
def test_other_words_do_not(words: str) -> None:
    episode, _, _ = run_of({"root": ["Think: 1", "Act: done"]}, None)
    episode.tick()
    episode.hear(words)
    assert episode.run().end == "done"


def test_stop_as_the_answer_to_a_question_is_none_and_ends_the_run() -> None:
    desk = Desk()
    episode, _, events = run_of({"root": ["Ask: Which apple?", "Act: done"]}, desk)
    desk.follow(episode.hear)
    while (one := desk.next) is None:
        episode.tick()
    desk.answer(one.number, "stop!")
    assert episode.run().status == "interrupted"
    assert not desk.open
    assert replays(events)


def test_a_run_that_a_person_has_stopped_can_be_gone_on_with() -> None:
    episode, _, events = run_of({"root": ["Act: open fridge 1", "Think: 1", "Act: done"]}, None)
    while not episode.context.budget.decisions:
        episode.tick()
    episode.hear("the red one")
    while not told_by_the_person(episode):
        episode.tick()
    episode.hear("stop")
    episode.tick()
    assert episode.finished, "a tick decides nothing any more"
    episode.conclude()
    record = Record(tuple(events), "test")
    model, again = ScriptedModel({"root": ["Act: done"]}), list[Event]()
    resumed = go_on(record, stop_of(record), world=ScriptedWorld(), model=model, write=again.append)
    assert resumed.run().end == "done"
    assert told_by_the_person(resumed) == ['The person says: "the red one".']
    assert replays(again)


def test_a_planner_that_takes_no_words_in_says_so_but_stops() -> None:
    episode, _, _ = run_of({"root": ["Think: 1"]}, None, name="tree_planner")
    with pytest.raises(UserError, match="takes in nothing but 'stop'"):
        episode.hear("the red one")
    episode.hear("stop")
    assert episode.run().status == "interrupted"


def test_after_the_end_nobody_takes_words_in() -> None:
    episode, _, _ = run_of({"root": ["Act: done"]}, None)
    episode.run()
    with pytest.raises(UserError, match="the run has ended"):
        episode.hear("the red one")


# ---------------------------------------------------------------------- what is kept


def test_a_question_survives_being_written_down() -> None:
    turn = Said("Ask: Which?", Ask("Which?"))
    assert turn_from_dict(turn_to_dict(turn)) == turn
