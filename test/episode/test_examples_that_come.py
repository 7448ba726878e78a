"""Runs that name no memory have the examples that come with the household, where those can help."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from doubles import ScriptedModel, ScriptedWorld

from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.going_on import go_on
from reactree_ros.episode.player import replay
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.llm.spec import MODELS
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.spec import memory
from reactree_ros.planners.spec import planner_names
from reactree_ros.record.reader import Record
from reactree_ros.tree.options import TreeOptions

if TYPE_CHECKING:
    from command_line import Cli

PLANNER, ROOT, CHILD = "reactree_wm", "move the apple on the coffee table", "find and pick up the apple"
EXPANDS = f"Expand:\n- control flow: sequence\n- subgoals: {CHILD}, find the coffee table"
SCRIPT = {ROOT: [EXPANDS], CHILD: ["Act: go to kitchen 1", "Act: done"], "find the coffee table": ["Act: done"]}
#: What only the fixed example says.
FIXED = "Find one wine glass and one cutlery fork and put them on the kitchen table."
#: Planners that have examples, and options with which they have none.
GIVEN = ("reactree", "reactree_wm", "react", "react_wm")
NOT_GIVEN = tuple(name for name in planner_names() if name not in GIVEN)


@pytest.fixture(autouse=True)
def by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reactree_ros.memory.embedding.lacking", lambda extra: {extra: ""})


def spec_of(planner: str = PLANNER, *, llm: str | None = "openai", **fields: Any) -> RunSpec:
    chosen = None if llm is None else Selection(kind="llm", name=llm)
    return RunSpec(instruction=ROOT, planner=planner, llm=chosen, **fields)


def carried_out(spec: RunSpec, **live: Any) -> tuple[Record, ScriptedModel]:
    model, events = ScriptedModel(SCRIPT), list[dict[str, Any]]()
    live = {"world": ScriptedWorld()} | live
    result = assemble(spec, model=model, write=events.append, **live).run()
    assert result.end == "done"
    return Record(json.loads(json.dumps(events))), model


def shown(record: Record) -> dict[str, list[str]]:
    """The subgoals of the examples of each goal node, by its goal."""
    grown = [node for event in record.events if event["e"] == "grow" for node in event["nodes"]]
    goals = {node["node"]: node.get("subgoal", "") for node in grown}
    return {
        goals[event["node"]]: [one["subgoal"] for one in event["experiences"]]
        for event in record.events
        if event["e"] == "retrieved"
    }


def test_for_a_trained_model_each_node_is_shown_examples_of_its_own_subgoal() -> None:
    record, model = carried_out(spec_of())
    assert record.run["memory"] == f"household:index=words:planner={PLANNER}"
    assert {goal: examples[0] for goal, examples in shown(record).items() if goal != "find the coffee table"} == {
        ROOT: ROOT,
        CHILD: CHILD,
    }
    first: Experience = next(one for one in memory(record.run["memory"]).open() if one.subgoal == ROOT)
    assert first.text in model.requests[0].prompt
    assert first.text not in model.requests[1].prompt


@pytest.mark.parametrize(("of", "begin_alike"), [("", True), (":own_examples=true", False)])
def test_for_a_model_that_is_not_trained_the_nodes_of_a_tree_share_examples(of: str, begin_alike: bool) -> None:
    options = TreeOptions(check_done=False, thoughts_in_a_row=1)
    record, model = carried_out(spec_of(PLANNER + of, options=options))
    found, starts = shown(record), {request.turns[0] for request in model.requests}
    assert (set(found) == {ROOT}, len(starts) == 1) == (begin_alike, begin_alike)
    told = [any(one.startswith(goal) for one in found[ROOT]) for goal in (CHILD, "find the coffee table")]
    assert (found[ROOT][0], *told) == (ROOT, begin_alike, begin_alike)
    assert replay(record).identical


@pytest.mark.parametrize(
    "spec",
    [
        *(pytest.param(spec_of(name), id=name) for name in NOT_GIVEN),
        *(pytest.param(spec_of(llm=one.name), id=one.name) for one in MODELS if not one.examples),
        pytest.param(spec_of(llm=None), id="nobody knows who decides"),
        pytest.param(spec_of("reactree_wm:fixed_example=false"), id="trained without examples"),
        pytest.param(spec_of("reactree_wm:control_flow=seq"), id="expands by sequence alone"),
    ],
)
def test_who_has_no_use_for_examples_is_given_none(spec: RunSpec) -> None:
    assert spec.with_examples("wah_nl") == spec


def test_rules_are_the_models_that_take_no_notice_of_examples() -> None:
    assert {one.name for one in MODELS if not one.examples} == {"expert", "lapsing"}


def test_another_household_has_no_examples_of_this_one() -> None:
    class Elsewhere(ScriptedWorld):
        household = replace(ScriptedWorld.household, name="elsewhere")

    record, _ = carried_out(spec_of(), world=Elsewhere())
    assert "memory" not in record.run
    assert shown(record) == {}


def test_a_language_model_that_is_not_known_here_is_given_examples() -> None:
    assert spec_of(llm="of another machine").with_examples("wah_nl").memory.startswith("household:")


def test_the_memory_that_a_user_names_replaces_them() -> None:
    assert spec_of(memory="own.db").with_examples("wah_nl").memory == "own.db"


def test_by_the_memory_none_they_are_left_out_for_the_fixed_one() -> None:
    record, model = carried_out(spec_of(memory="none"))
    assert record.run["memory"] == "none"
    assert set(map(len, shown(record).values())) == {0}
    assert FIXED in model.requests[0].prompt


def test_a_run_with_them_is_played_again_and_gone_on_with_and_nothing_is_added() -> None:
    record, _ = carried_out(spec_of())
    replayed = replay(record)
    assert replayed.identical, replayed.difference
    spec = RunSpec.of_record(record)
    assert spec.unsaid("memory") == {}
    began = next(at for at, event in enumerate(record.events) if event["e"] == "retrieved") + 1
    events: list[dict[str, Any]] = []
    model = ScriptedModel(SCRIPT)
    episode = go_on(record, began, spec.but(recorded=""), world=ScriptedWorld(), model=model, write=events.append)
    result = episode.run()
    assert result.end == "done"
    again = Record(json.loads(json.dumps(events)))
    assert again.run["memory"] == record.run["memory"]
    assert shown(again) == shown(record)
    assert episode.remember(replace(result, gsr=1.0)) == 0


def test_a_run_with_them_can_be_resumed_without_naming_them(cli: Cli, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    named = f"household:index=words:planner={PLANNER}"
    assert cli("run", "Put 1 apple on the coffee table", "--memory", named, "--json", "--save", whole).code == 0
    lines = whole.read_text(encoding="utf-8").splitlines(keepends=True)
    cut.write_text("".join(lines[: len(lines) // 2]), encoding="utf-8")
    ended = cli("resume", cut, "--json", "--save", tmp_path / "again.jsonl")
    assert (ended.code, "add --memory" in ended.err) == (0, False)
    assert f'"memory":"{named}"' in (tmp_path / "again.jsonl").read_text(encoding="utf-8").replace('": "', '":"')
