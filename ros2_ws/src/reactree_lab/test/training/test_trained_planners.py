"""The comparison of planners by small models: its commands, and once with a base also what they make."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from command_line import Cli

from reactree_lab.bench.jobs import read_contenders
from reactree_ros.planners import spec

ROOT = Path(__file__).parents[5]
#: A command's words.
Command = list[str]
Commands = Callable[..., list[Command]]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("trained_planners")


@pytest.fixture
def commands(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Commands:
    """Returns what a comparison of these settings would run."""

    def run(compared: Any) -> list[Command]:
        ran: list[Command] = []

        def reactree(_lab: str, name: str, *arguments: object) -> None:
            ran.append([name, *map(str, arguments)])

        monkeypatch.setattr(script, "reactree", reactree)
        script.Comparison(compared, tmp_path).carry_out(None)
        return ran

    def commands_of(config: Path | None = None, **settings: Any) -> list[Command]:
        if config is not None:
            return run(script.read(config, script.Compared, settings))
        few = {"planners": ["react"], "presets": ["small"], "houses": 1, "varied": 1, "corrections": 1}
        return run(script.Compared.model_validate(few | settings))

    return commands_of


def values(command: Command, option: str) -> list[str]:
    return [value for name, value in pairwise(command) if name == option]


@pytest.mark.parametrize(
    ("name", "given"),
    [
        *((name, {}) for name in ("trained_planners", "trained_alone", "trained_sizes", "trained_from_scratch")),
        ("trained_with_base", {"base": "a.gguf"}),
        ("trained_with_base", {"base": "a.gguf", "llm": "llama"}),
    ],
)
def test_what_is_learnt_and_compared_was_made_before(
    commands: Commands, tmp_path: Path, name: str, given: dict[str, str]
) -> None:
    made: set[str] = set()
    for command in commands(ROOT / "config" / f"{name}.yaml", **given):
        kind, (out, *more) = command[0], values(command, "--out") or [""]
        assert not more
        read = [*values(command, "--data"), *values(command, "--start"), *values(command, "--model")]
        read += [one.removeprefix("adapter=") for one in values(command, "--on-policy-option") if "adapter" in one]
        assert {one for one in read if Path(one).is_absolute()} <= made
        folder = f"{out}/{'adapter' if given else 'model'}"
        made |= {folder, f"{folder}/adapter.gguf"} if kind == "train" else {out}
    contenders = tmp_path / "contenders.yaml"
    assert read_contenders(contenders)
    for one in yaml.safe_load(contenders.read_text(encoding="utf-8")).values():
        assert one["adapter" if given else "model"] in made
        assert one["llm"] == ("small" if not given else given.get("llm", "transformers"))
        assert Path(one.get("adapter", "")).suffix == (".gguf" if one["llm"] == "llama" else "")
        assert spec.planner(one["planner"])


def test_of_a_base_every_planner_learns_as_much_of_the_same_houses_and_no_exercise(commands: Commands) -> None:
    planners = ["reactree_wm", "react"]
    ran = commands(ROOT / "config" / "trained_with_base.yaml", base="a", planners=planners)
    assert not any("--exercises" in command for command in ran)
    made = [command for command in ran if command[0] == "dataset"]
    houses = [
        {(*values(one, "--houses"), *values(one, "--first-seed")) for one in made if who in one} for who in planners
    ]
    assert houses[0] == houses[1]
    trained = [command for command in ran if command[0] == "train"]
    assert len(trained) == 2 * 2 * 2  # planners, seeds, steps
    steps = {tuple(values(one, option)[0] for option in ("--tokens", "--shares", "--rank")) for one in trained}
    assert len(steps) == 2
    suites = [(Path(values(one, "--out")[0]).name, "varied=True" in one) for one in ran if one[0] == "bench"]
    assert suites == [("bench_generated", False), ("bench_varied", True)]


@pytest.mark.parametrize(
    ("settings", "said"), [({"base": "a"}, "presets"), ({"base": "a", "presets": []}, "learnt no planner")]
)
def test_a_base_with_nothing_to_act_by_or_beside_models_from_scratch_is_refused(
    commands: Commands, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        commands(**settings)


@pytest.mark.train
def test_lora_matrices_of_a_base_are_learnt_corrected_and_compared(
    script: ModuleType, cli: Cli, trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def reactree(*arguments: object) -> None:
        short = ("--max-decisions", 3) if arguments[1] == "bench" else ()
        ended = cli(*arguments, *short)
        assert ended.code == 0, ended.err

    monkeypatch.setattr(script, "reactree", reactree)
    learnt = {"tokens": 4000, "rank": 2, "batch_tokens": 2048, "reports": 1, "held_out": 2, "processes": 1}
    few = {"planners": ["react"], "houses": 3, "varied": 3, "corrections": 1, "workers": 1, "at_once": 2}
    suites = {"suite": {"houses": 2, "tasks_per_house": 1}, "suites": {"varied": {"varied": True}}}
    base = {"base": str(trained / "model"), "together": learnt, "corrected": learnt}
    script.Comparison(script.Compared.model_validate(few | suites | base), tmp_path).carry_out(None)
    weights = [tmp_path / "models" / f"{step}_model_0" / "adapter" for step in ("together", "corrected")]
    assert len({(one / "adapter_model.safetensors").read_bytes() for one in weights}) == 2
    for suite in ("generated", "varied"):
        bench = tmp_path / f"bench_{suite}"
        lines = [json.loads(line) for line in (bench / "results.jsonl").read_text().splitlines()]
        assert [line["planner"] for line in lines] == ["react, model, seed 0"] * 2
        assert "longest input, tokens" in (bench / "report.md").read_text()
