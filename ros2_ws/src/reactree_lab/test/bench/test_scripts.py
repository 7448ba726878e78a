"""The scripts in benchmarks/ that measure offers and real models: that they start, and what they print."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from common import ROOT
from openai_peer import Peer

from reactree_lab.household.generator import generate_house
from reactree_ros.planners.spec import planner
from reactree_ros.plugins.settings import read_settings
from reactree_ros.tree.options import RunOptions


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Call a script in this process, and return the lines that it prints."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")

    def call(name: str, *arguments: object) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        capfd.readouterr()
        import_module(name).main()
        return capfd.readouterr().out.splitlines()

    return call


@pytest.mark.slow
def test_what_the_expert_does_is_on_offer_and_what_is_possible_is_counted(printed: Any, tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps(generate_house(seed=11, rooms=3, tasks=1)))  # a short way
    lines = printed("offers", "--tasks", tmp_path / "tasks.json", "--tried", 1, "--offers", "all")
    shares = {words[1]: words[-1] for line in lines if (words := line.split())[0] == "all"}
    assert int(shares["put"].strip("%")) < 20
    assert shares["go"] == "100%"
    assert "1 tasks, 1 reached" in lines[-1]
    assert " 0 not on offer" in lines[-1]


@pytest.mark.slow
def test_a_finished_bench_is_printed_and_not_made_again(printed: Any, tmp_path: Path) -> None:
    few = {"models": {"peer": {"package": "none", "sha256": ""}}, "planners": ["react_wm"], "tasks": 1, "first_seed": 1}
    parts = {"none": {}, "short": {"stuck_after": 2, "fixed_example": False}}
    config = tmp_path / "few.yaml"
    config.write_text(yaml.safe_dump({**few, "max_decisions": 3, "without": {"stuck_after": 5}, "parts": parts}))
    with Peer() as peer:
        out = ("--config", config, "run", "--out", tmp_path / "out", "--base-url", peer.base_url)
        lines = printed("real_models", *out)
        asked = len(peer.asked)
        assert [line.split()[:2] for line in lines[1:]] == [["none/peer_react_wm", "1"], ["short/peer_react_wm", "1"]]
        assert printed("real_models", *out) == lines
        assert len(peer.asked) == asked


def test_what_a_cache_could_serve_is_printed_with_its_cost(printed: Any, tmp_path: Path) -> None:
    (tmp_path / "tasks.json").write_text(json.dumps(generate_house(seed=1, rooms=3, tasks=1)))
    own, *_, shared, first, second, third = printed(
        "prompt_cache", "--tasks", tmp_path / "tasks.json", "--planners", "reactree_wm"
    )
    cached = [float(line.partition("% cached")[0].split()[-1]) for line in (own, shared)]
    assert cached[0] < cached[1] < 100
    for line in (first, second, third):
        costs = [float(words.split()[0]) for words in line.split(": ")[1].split(", ")]
        assert 0 < costs[0] < costs[1]


@pytest.mark.parametrize("part", ["none", "offers", "line", "refusals", "names", "rules", "all", "own"])
def test_each_part_of_the_shipped_comparison_is_options_that_there_are(printed: Any, part: str) -> None:
    script = import_module("real_models")
    settings = script.read(script.CONFIG, script.RealModels)
    said = script.arguments("react_wm", settings.without | settings.parts[part])
    given = dict(one.split("=", 1) for one in said[2:] if "=" in one)
    assert planner(said[1]).name == "react_wm" + (":own_examples=true" if part == "own" else "")
    assert read_settings(RunOptions, given, where=part).model_fields_set == {"offers", "tells"}
