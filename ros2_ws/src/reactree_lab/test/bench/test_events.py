"""What is kept of each decision of a run."""

from __future__ import annotations

from doubles import ScriptedModel, ScriptedWorld

from reactree_lab.bench.results import RunEvents, Size, told_by
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.episode import Episode
from reactree_ros.llm.port import LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.record.schema import Event as Recorded
from reactree_ros.record.writer import Recorder

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


def recorded(script: dict[str, list[str]], model: LanguageModel | None = None, name: str = "reactree_wm") -> RunEvents:
    events: list[Recorded] = []
    world = ScriptedWorld(refused=["pick up apple 1"])
    Episode(
        next(iter(script)),
        world=world,
        model=model or ScriptedModel(script),
        planner=planner(name),
        record=Recorder(events.append),
    ).run()
    return told_by(events)


def test_every_decision_is_kept_with_what_came_of_it() -> None:
    told = recorded(SCRIPT)
    assert [(event.decision, event.kind, event.outcome) for event in told.events] == [
        (1, "think", ""),
        (2, "refused_act", ""),
        (3, "recall", "done"),
        (4, "expand", ""),
        (5, "act", "done"),
        (5, "end", ""),
        (6, "act", "precondition"),
        (6, "end", ""),
    ]
    assert told.events[3].subgoals == ("open the fridge", "pick up the apple")
    assert [event.skill for event in told.events if event.is_action] == [
        "go to bedroom 1",
        "open fridge 1",
        "pick up apple 1",
    ]
    assert [event.executable for event in told.events if event.is_action] == [False, True, False]


def test_each_decision_has_the_tokens_of_its_prompt_and_reply() -> None:
    told = recorded(SCRIPT)
    inputs = [event.input_tokens for event in told.events]
    assert all(inputs)
    assert [size.longest for size in told.sizes] == inputs
    assert all(size.approximate for size in told.sizes)
    assert told.events[0].output_tokens == approximate_tokens("Think: The apple is in the kitchen.")


def test_several_decisions_of_one_reply_count_its_tokens_once() -> None:
    told = recorded({"look": ["Think: First the fridge.\nAct: open fridge 1", "Act: done"]})
    assert [(event.kind, event.input_tokens is None) for event in told.events] == [
        ("think", False),
        ("act", True),
        ("end", False),
    ]
    assert len(told.sizes) == 2


class Counting(ScriptedModel):
    """Counts the tokens of its replies."""

    def settle_all(self) -> None:
        settling, self.in_flight = self.in_flight, []
        for pending, text in settling:
            pending.succeed(Reply(text, prompt_tokens=30, longest_prompt=20, output_tokens=3))


def test_what_the_model_counted_is_taken_as_it_is() -> None:
    told = recorded({"look": []}, Counting({"look": ["Act: done"]}))
    assert told.sizes == (Size(input=30, longest=20, output=3, approximate=False),)
    assert (told.events[0].input_tokens, told.events[0].output_tokens) == (20, 3)


def test_a_skill_that_a_hold_broke_off_is_told_as_halted() -> None:
    events = [
        {"e": "run"},
        {"e": "grow", "nodes": [{"node": 0, "parent": None, "kind": "agent", "name": "look", "subgoal": "look"}]},
        {"e": "decided", "node": 0, "act": "open fridge 1", "decisions": 1, "steps": 1},
        {"e": "skill", "node": 0, "skill": "open fridge 1"},
        {"e": "held", "node": 0, "reason": "stop"},
        {"e": "observation", "node": 0, "of": "observe", "text": "You are here.", "outcome": "done"},
    ]
    told = told_by({**event, "t": 0.0} for event in events)
    assert [(event.skill, event.outcome) for event in told.events] == [("open fridge 1", "halted")]


def test_what_hiagent_asks_of_its_memory_is_no_action_of_the_world() -> None:
    events = [
        {"e": "run"},
        {"e": "grow", "nodes": [{"node": 0, "parent": None, "kind": "goal", "name": "look", "subgoal": "look"}]},
        {"e": "decided", "node": 0, "act": "retrieve(2)", "decisions": 1, "steps": 1},
    ]
    (event,) = told_by({**event, "t": 0.0} for event in events).events
    assert (event.kind, event.is_action) == ("recall", False)
