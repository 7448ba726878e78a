"""A run from its first tick to its result."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from doubles import ScriptedModel, ScriptedWorld, expand, scripted_run

from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.pending import Pending
from reactree_ros.saved_run import experiences, save_run
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


def test_a_score_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ScriptedWorld):
        def score(self) -> Pending[Score | None]:
            return Pending()

    monkeypatch.setattr("reactree_ros.run.SCORE_TIMEOUT", 0.01)
    assert scripted_run({"root": ["Act: done"]}, world=Silent()).run().message == "no score: TimeoutError"


class Counting(ScriptedModel):
    """Answers with counts of its own."""

    def __init__(self, texts: Sequence[str], counts: Sequence[tuple[int | None, int | None, int | None]]) -> None:
        super().__init__({"root": texts})
        self.counts = list(counts)

    def settle_all(self) -> None:
        settling, self.in_flight = self.in_flight, []
        for pending, text in settling:
            pending.succeed(Reply(text, "stop", *self.counts.pop(0), seconds=0.25, answered_by="me"))


TEXTS = ("Think: a", "nonsense", "Act: open fridge 1", "Act: done")


@pytest.mark.parametrize(
    ("counts", "totals"),
    [
        ([(10, 0, 3), (20, 10, 4), (30, 20, 5), (40, 30, 6)], (100, 60, 18)),
        ([(10, None, 3), (20, 10, 4), (30, None, 5), (40, None, None)], (100, 10, 12)),
        ([(None, None, None)] * 4, (None, None, None)),
    ],
)
def test_tokens_and_seconds_of_all_replies_are_added_up(
    counts: list[tuple[int | None, int | None, int | None]], totals: tuple[int | None, ...]
) -> None:
    result = scripted_run({}, model=Counting(TEXTS, counts)).run()
    assert (result.prompt_tokens, result.cached_tokens, result.output_tokens) == totals
    assert result.model_seconds == 1.0


def test_a_saved_run_holds_every_reply(tmp_path: Path) -> None:
    run = scripted_run({}, model=Counting(TEXTS, [(10, 0, 3), (20, 10, 4), (30, None, 5), (40, 30, 6)]))
    result = run.run()
    save_run(run, result, tmp_path / "saved", task_name="test")
    lines = (tmp_path / "saved" / "replies.jsonl").read_text().splitlines()
    replies = [json.loads(line) for line in lines]
    assert [(one["agent_node"], one["decision"], one["text"]) for one in replies] == [
        (0, 1, "Think: a"),
        (0, 2, "nonsense"),
        (0, 3, "Act: open fridge 1"),
        (0, 4, "Act: done"),
    ]
    assert replies[2] == {
        "agent_node": 0,
        "decision": 3,
        "text": "Act: open fridge 1",
        "finish_reason": "stop",
        "prompt_tokens": 30,
        "cached_tokens": None,
        "output_tokens": 5,
        "seconds": 0.25,
        "answered_by": "me",
        "objection": "",
    }
    saved = json.loads((tmp_path / "saved" / "result.json").read_text())
    assert (saved["prompt_tokens"], saved["cached_tokens"], saved["output_tokens"]) == (100, 40, 18)


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
