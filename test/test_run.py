"""A run from its first tick to its result."""

from __future__ import annotations

import threading

import pytest
from doubles import ScriptedModel, ScriptedWorld, expand, scripted_run

from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.pending import Pending
from reactree_ros.saved_run import experiences
from reactree_ros.world.port import Score, WorldError


@pytest.mark.parametrize("instruction", ["", " ", "\n"])
def test_an_empty_instruction_is_refused(instruction: str) -> None:
    with pytest.raises(UserError, match="the instruction is empty"):
        scripted_run({}, instruction=instruction)


def test_the_goals_score_decides_whether_it_was_achieved() -> None:
    done = {"root": ["Act: done"]}
    assert scripted_run(done).run().achieved
    assert not scripted_run(done, world=ScriptedWorld(score=Score(0.0, 0.5))).run().achieved
    assert scripted_run({"root": ["Act: failure"]}, world=ScriptedWorld(score=Score(1.0, 1.0))).run().achieved


def test_a_score_that_cannot_be_had_is_named() -> None:
    class Scoreless(ScriptedWorld):
        def score(self) -> Pending[Score | None]:
            return Pending.failed(WorldError("no graph"))

    result = scripted_run({"root": ["Act: done"]}, world=Scoreless()).run()
    assert (result.gsr, result.message, result.status) == (None, "no score: no graph", "success")


def test_answers_from_another_thread_wake_the_run() -> None:
    class Threaded(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            pending = super().decide(request)
            threading.Thread(target=self.settle_all).start()
            return pending

    model = Threaded({"root": ["Think: a", "Act: open fridge 1", "Act: done"]}, settle=False)
    assert scripted_run({}, model=model).run().status == "success"


def test_experiences_are_those_of_agent_nodes_with_an_end() -> None:
    script = {"root": [expand("fallback", "a", "b", "c")], "a": ["Act: failure"], "b": ["Act: done"]}
    run = scripted_run(script)
    run.run()
    found = experiences(run.context.nodes, task_id="3", task_name="put_fridge")
    assert [(one.subgoal, one.end.value, one.decision, one.depth) for one in found] == [
        ("root", "expand", 1, 1),
        ("a", "failure", 2, 3),
        ("b", "success", 2, 3),
    ]
