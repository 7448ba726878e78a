"""The comparison of planners by small models: its commands, without running them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from reactree_ros.planners import spec

ROOT = Path(__file__).parents[3]
LEARNT = {"tokens": 1000}
#: A command's words.
Command = list[str]
Commands = Callable[..., list[Command]]


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    """Returns what a comparison of these settings would run."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = importlib.import_module("trained_planners")

    def run(compared: Any) -> list[Command]:
        ran: list[Command] = []

        def reactree(name: str, *arguments: object) -> None:
            ran.append([name, *map(str, arguments)])

        monkeypatch.setattr(script, "reactree", reactree)
        script.Comparison(compared, tmp_path).carry_out(None)
        return ran

    def of(config: Path | None = None, **settings: Any) -> list[Command]:
        if config is not None:
            return run(script.read(config, script.Compared))
        few = {"planners": ["react"], "presets": ["small"], "houses": 1, "varied": 1, "corrections": 1}
        return run(script.Compared.model_validate(few | settings))

    return of


def values(command: Command, option: str) -> list[str]:
    return [value for name, value in pairwise(command) if name == option]


@pytest.mark.parametrize("name", ["trained_planners", "trained_alone", "trained_sizes", "trained_from_scratch"])
def test_what_is_learnt_and_compared_was_made_before(commands: Commands, tmp_path: Path, name: str) -> None:
    made: set[str] = set()
    for command in commands(ROOT / "config" / f"{name}.yaml"):
        kind, (out, *more) = command[0], values(command, "--out") or [""]
        assert not more
        read = [*values(command, "--data"), *values(command, "--start"), *values(command, "--model")]
        assert {one for one in read if Path(one).is_absolute()} <= made
        made.add(f"{out}/model" if kind == "train" else out)
    for one in yaml.safe_load((tmp_path / "contenders.yaml").read_text(encoding="utf-8")).values():
        assert one["model"] in made
        assert spec.planner(one["planner"])


def test_a_model_s_errors_are_looked_for_once_and_only_where_somebody_learns_them(commands: Commands) -> None:
    def corrections(**settings: Any) -> set[str]:
        ran = commands(seeds=[0, 1], **settings)
        made = {values(command, "--out")[0] for command in ran if values(command, "--on-policy")}
        learnt = {data for command in ran if command[0] == "train" for data in values(command, "--data")}
        assert made <= learnt
        return made

    assert len(corrections(start="a", alone=LEARNT)) == 1
    assert len(corrections(start="a", corrected=LEARNT)) == 1
    assert len(corrections(start="a", together=LEARNT, alone=LEARNT)) == 2
    assert len(corrections(corrected=LEARNT)) == 2
    assert corrections(start="a", together=LEARNT) == set()


def test_apart_a_model_learns_nothing_of_another_planner_but_how_to_find(commands: Commands) -> None:
    planners = ["hiagent", "react"]
    ran = commands(planners=planners, apart=True, finding=LEARNT, together=LEARNT, corrected=LEARNT)
    trained = {Path(values(command, "--out")[0]).name: command for command in ran if command[0] == "train"}
    steps = ("together", "corrected")
    assert [*trained] == ["finding_small_0", *(f"{step}_{one}_small_0" for one in planners for step in steps)]
    for planner, other in (planners, reversed(planners)):
        for step in steps:
            assert not any(other in Path(data).name for data in values(trained[f"{step}_{planner}_small_0"], "--data"))
        (acting,) = [command for command in ran if "--on-policy" in command and planner in command]
        assert f"together_{planner}_small_0" in values(acting, "--model")[0]
