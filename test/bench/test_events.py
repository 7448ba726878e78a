"""What is kept of each decision of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from doubles import ScriptedModel, ScriptedWorld

from reactree_ros.agent.decision import Act
from reactree_ros.bench.events import Event, EventKind, EventRecorder, read_events, write_events
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.llm.metered import MeteredModel
from reactree_ros.llm.port import Reply
from reactree_ros.memory.episodic import approximate_tokens
from reactree_ros.planners.spec import planner
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.skill_leaf import SkillLeaf
from reactree_ros.world.port import Observation, Outcome, Seen

SCRIPT = {
    "find the apple": [
        "Think: The apple is in the kitchen.",
        "Act: go to bedroom 1",
        "Act: recall location of apple",
        "Expand:\n- control flow: sequence\n- subgoals: open the fridge, pick up the apple",
    ],
    "open the fridge": ["Act: open fridge 1", "Act: done"],
    "pick up the apple": ["Act: pick up apple 1", "Act: failure"],
}


def recorded(script: dict[str, list[str]]) -> tuple[EventRecorder, RunContext]:
    model = MeteredModel(ScriptedModel(script))
    world = ScriptedWorld(refused=["pick up apple 1"])
    episode = Episode(next(iter(script)), world=world, model=model, planner=planner("reactree_wm"))
    episode.context.listener = recorder = EventRecorder(model, episode.context)
    episode.run()
    return recorder, episode.context


def test_every_decision_is_kept_with_what_came_of_it() -> None:
    recorder, _ = recorded(SCRIPT)
    assert [(event.decision, event.kind.value, event.outcome) for event in recorder.events] == [
        (1, "think", ""),
        (2, "refused_act", ""),
        (3, "recall", "done"),
        (4, "expand", ""),
        (5, "act", "done"),
        (5, "end", ""),
        (6, "act", "precondition"),
        (6, "end", ""),
    ]
    assert recorder.events[3].subgoals == ("open the fridge", "pick up the apple")
    assert [event.skill for event in recorder.events if event.is_action] == [
        "go to bedroom 1",
        "open fridge 1",
        "pick up apple 1",
    ]
    assert [event.executable for event in recorder.events if event.is_action] == [False, True, False]


def test_each_decision_has_the_tokens_of_its_prompt_and_reply() -> None:
    recorder, context = recorded(SCRIPT)
    inputs = [event.input_tokens for event in recorder.events]
    assert all(inputs)
    assert len(context.replies) == len(inputs)
    assert recorder.events[0].output_tokens == approximate_tokens("Think: The apple is in the kitchen.")


def test_several_decisions_of_one_reply_count_its_tokens_once() -> None:
    recorder, context = recorded({"wait": ["Act: done"]})
    node, (_, _, reply) = context.nodes[0], context.replies[0]
    recorder.events.clear()
    from reactree_ros.agent.decision import Act

    for skill in ("go to kitchen 1", "open fridge 1"):
        recorder.decided(node, Act(skill), reply)
        recorder.observed(node, Observation("", Outcome.DONE))
    assert [event.input_tokens for event in recorder.events] == [None, None]  # counted with the `done` before
    recorder.decided(node, Act("go to kitchen 1"), Reply("of another model"))
    assert recorder.events[-1].input_tokens is None


def test_a_skill_of_a_plan_is_an_action_although_no_decision_came_before_it() -> None:
    recorder, context = recorded({"wait": ["Act: done"]})
    node = context.nodes[0]
    node.leaf = SkillLeaf(context, "open fridge 1")
    seen = [Seen("fridge", 1, "kitchen 1", "fridge 1"), Seen("apple", 2, "kitchen 1", held=True)]
    recorder.observed(node, Observation("You open fridge.", Outcome.DONE, seen))
    event = recorder.events[-1]
    assert (event.kind, event.said, event.room, event.place) == (
        EventKind.ACT,
        "open fridge 1",
        "kitchen 1",
        "fridge 1",
    )
    assert event.seen == ("fridge 1", "apple 2")


def test_events_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    recorder, _ = recorded(SCRIPT)
    write_events(recorder.events, tmp_path / "events.jsonl")
    assert read_events(tmp_path / "events.jsonl") == recorder.events


def test_a_line_that_is_no_event_is_named(tmp_path: Path) -> None:
    write_events([Event(1, "", EventKind.END, "done")], tmp_path / "events.jsonl")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"decision": 1}\n')
    with pytest.raises(UserError, match=r"events\.jsonl: line 2 is no event: '\{\"decision\": 1\}'"):
        read_events(tmp_path / "events.jsonl")
    with pytest.raises(UserError, match="cannot be read"):
        read_events(tmp_path / "nowhere.jsonl")


def test_what_hiagent_asks_of_its_memory_is_no_action_of_the_world() -> None:
    recorder, context = recorded(SCRIPT)
    recorder.decided(context.nodes[0], Act("retrieve(2)"), Reply("Action: retrieve(2)"))
    assert (recorder.events[-1].kind.value, recorder.events[-1].is_action) == ("recall", False)
