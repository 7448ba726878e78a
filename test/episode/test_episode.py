"""An episode from its first tick to its result."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import py_trees
import pytest
from doubles import AgentNodes, ScriptedModel, ScriptedWorld, expand, scripted_episode
from memory.word_hash_embedder import WordHashEmbedder, experience
from py_trees.common import Status
from py_trees.trees import BehaviourTree

from reactree_ros import run
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import DecisionRequest, Reply, ServerUnavailable
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.record.reader import read_record
from reactree_ros.tree.context import Growth
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Score, WorldError


@pytest.mark.parametrize("instruction", ["", " ", "\n"])
def test_an_empty_instruction_is_refused(instruction: str) -> None:
    with pytest.raises(UserError, match="the instruction is empty"):
        scripted_episode({}, instruction=instruction)


def test_the_goals_score_decides_whether_it_was_achieved() -> None:
    done = {"root": ["Act: open fridge 1", "Act: done"]}
    claimed = scripted_episode(done).run()
    assert (claimed.achieved, claimed.verdict.claimed, claimed.whole) == (False, True, True)
    assert not scripted_episode(done, world=ScriptedWorld(score=Score(0.0, 0.5))).run().whole
    at_once = {"root": ["Act: done"]}
    assert not scripted_episode(at_once).run().whole
    assert scripted_episode(at_once, world=ScriptedWorld(score=Score(1.0, 1.0))).run().achieved
    assert scripted_episode({"root": ["Act: failure"]}, world=ScriptedWorld(score=Score(1.0, 1.0))).run().achieved


def test_a_score_that_cannot_be_had_is_named() -> None:
    class Scoreless(ScriptedWorld):
        def score(self) -> Pending[Score | None]:
            return Pending.failed(WorldError("no graph"))

    result = scripted_episode({"root": ["Act: done"]}, world=Scoreless()).run()
    assert (result.gsr, result.message, result.status) == (None, "no score: no graph", "success")
    assert (result.end, result.achieved, result.broken) == ("world_gone", False, True)


def test_a_score_that_does_not_come_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(ScriptedWorld):
        def score(self) -> Pending[Score | None]:
            return Pending()

    monkeypatch.setattr("reactree_ros.episode.SCORE_TIMEOUT", 0.01)
    assert scripted_episode({"root": ["Act: done"]}, world=Silent()).run().message == "no score: TimeoutError"


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
    result = scripted_episode({}, model=Counting(TEXTS, counts)).run()
    assert (result.prompt_tokens, result.cached_tokens, result.output_tokens) == totals
    assert result.model_seconds == 1.0


def test_answers_from_another_thread_wake_the_run() -> None:
    class Threaded(ScriptedModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            pending = super().decide(request)
            threading.Thread(target=self.settle_all).start()
            return pending

    model = Threaded({"root": ["Think: a", "Act: open fridge 1", "Act: done"]}, settle=False)
    assert scripted_episode({}, model=model).run().status == "success"


def test_experiences_are_those_of_agent_nodes_with_an_end() -> None:
    script = {"root": [expand("fallback", "a", "b", "c")], "a": ["Act: failure"], "b": ["Act: done"]}
    run = scripted_episode(script)
    run.run()
    found = run.experiences()
    assert [(one.subgoal, one.end.value, one.decision, one.depth) for one in found] == [
        ("root", "expand", 1, 1),
        ("a", "failure", 2, 3),
        ("b", "success", 2, 3),
    ]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[SqliteMemory]:
    with SqliteMemory(tmp_path / "memory.db", WordHashEmbedder()) as opened:
        yield opened


class Elsewhere(ScriptedWorld):
    """A world whose observations do not begin as the recordings do; its goal is reached."""

    household = replace(WAH_NL, start_line="The garden is green")

    def __init__(self) -> None:
        super().__init__(score=Score(1.0, 1.0))

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation("The garden is green."))


class Dying(ScriptedModel):
    """Dies when it has said all that it has to say."""

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        if not self.script["root"]:
            return Pending.failed(ServerUnavailable("the server is gone"))
        return super().decide(request)


@pytest.mark.parametrize(
    ("model", "world", "kept"),
    [
        (ScriptedModel({"root": ["**act:**  Done."]}), ScriptedWorld(score=Score(1.0, 1.0)), ["Act: done"]),
        (ScriptedModel({"root": ["Act: done"]}), Elsewhere(), ["Act: done"]),
        (Dying({"root": ["Think: a"]}), ScriptedWorld(score=Score(1.0, 1.0)), []),
    ],
)
def test_a_run_that_reached_its_goal_is_remembered_whatever_its_text_looks_like(
    memory: SqliteMemory, model: ScriptedModel, world: ScriptedWorld, kept: list[str]
) -> None:
    episode = Episode("root", model=model, world=world, planner=AgentNodes(), memory=memory)
    result = episode.run()
    assert result.achieved
    assert episode.remember(result) == len(kept)
    assert [experience.text.rpartition("\n")[2] for experience in memory] == kept
    assert episode.remember(result) == 0


@pytest.mark.parametrize(("most", "shown"), [(0, 2), (1, 1), (5, 2)])
def test_an_agent_node_has_no_more_examples_than_are_allowed(memory: SqliteMemory, most: int, shown: int) -> None:
    memory.add_run([experience("root", filler=f"{number} is seen.\n") for number in range(2)])
    model = ScriptedModel({"root": ["Act: done"]})
    options = TreeOptions(max_examples=most)
    Episode("root", model=model, world=ScriptedWorld(), planner=AgentNodes(), memory=memory, options=options).run()
    assert model.requests[0].prompt.count("is seen.") == shown


def test_a_run_that_did_not_reach_its_goal_is_not_remembered(memory: SqliteMemory) -> None:
    world = ScriptedWorld(score=Score(0.0, 0.5))
    model = ScriptedModel({"root": ["Act: done"]})
    episode = Episode("root", model=model, world=world, planner=AgentNodes(), memory=memory)
    assert (episode.remember(episode.run()), len(memory)) == (0, 0)


def test_the_limits_are_the_households_unless_options_say_otherwise() -> None:
    class Short(ScriptedWorld):
        household = replace(WAH_NL, max_decisions=2, max_steps=7)

    script = {"root": ["Think: a"] * 9}
    budget = scripted_episode(script, world=Short()).context.budget
    assert (budget.max_decisions, budget.max_steps) == (2, 7)
    budget = scripted_episode(script, world=Short(), options=TreeOptions(max_decisions=5)).context.budget
    assert (budget.max_decisions, budget.max_steps) == (5, 7)


def test_an_episode_grows_in_a_tree_of_somebody_else_after_one_that_was_interrupted() -> None:
    tree, growth = BehaviourTree(py_trees.composites.Sequence("planner", memory=True)), Growth()
    growth.follow(tree)
    for stopped in (True, False):
        for child in list(tree.root.children):
            tree.prune_subtree(child.id)
        model = ScriptedModel({"root": ["Think: a", expand("sequence", "b")], "b": ["Act: done"]})
        episode = Episode("root", model=model, world=ScriptedWorld(), planner=AgentNodes(), tree=tree, growth=growth)
        episode.tick()
        if stopped:
            episode.interrupt()
            assert tree.root.status == Status.INVALID
    assert episode.run().status == "success"
    assert [child.name for child in tree.root.children] == ["root"]


# ---------------------------------------------------------------------- start


def test_one_call_carries_out_what_the_first_task_asks_and_saves_it(tmp_path: Path) -> None:
    result = run(save=tmp_path / "run.jsonl", seed=3)

    assert str(result.verdict) == "Goal reached (end: done, GSR 1.00, SSR 1.00)"
    record = read_record(tmp_path / "run.jsonl")
    assert (record.run["world"]["name"], record.run["llm"]) == ("virtualhome", {"llm": "expert"})
    assert replay(record).identical


def test_the_memory_is_named_as_on_the_command_line(tmp_path: Path) -> None:
    named = "household:index=words:planner=react_wm"
    run(planner="react_wm", memory=named, save=tmp_path / "run.jsonl")
    record = read_record(tmp_path / "run.jsonl")
    assert record.run["memory"] == named
    assert [len(event["experiences"]) > 0 for event in record.events if event["e"] == "retrieved"] == [True]


def test_a_house_a_planner_and_limits_are_named() -> None:
    result = run("Put the book on the bed", house="villa", planner="react_wm", max_decisions=3)

    why = "out of decisions: all of the 3 decisions are used up; the goal does not hold: book on bed"
    assert (result.decisions, result.verdict.because) == (3, why)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"house": "vila"}, "vila"),
        ({"planner": "reactre"}, "did you mean 'reactree'"),
        ({"llm": "expart"}, "did you mean 'expert'"),
        ({"max_decision": 3}, "max_decision"),
        ({"llm": "openai", "llm_settings": {"base_ulr": "x"}}, "base_ulr"),
        ({"instruction": " "}, "the instruction is empty"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(**given)  # type: ignore[arg-type]


def test_the_package_loads_nothing_before_run_is_asked_for() -> None:
    code = "import sys, reactree_ros; print({'pydantic', 'py_trees', 'typer'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
