"""A LoRA adapter of SmolLM2-135M: each engine in this process decides with it as the others do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from docs.blocks import ROOT
from smollm2 import need, unpacked, weights

from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.llm.spec import make_model, model_settings

pytestmark = pytest.mark.llm

#: A trial, which is not part of the package; it was trained for this planner.
ADAPTER = ROOT.parent / "shared/data/trial_adapter"
PLANNER = "reactree_wm:system_text=false:fixed_example=false"
WHOLE = {
    "transformers": {"dtype": "float32"},
    "vllm": {"dtype": "float32", "enforce_eager": True, "max_model_len": 4096},
}


class Noting(ExpertModel):
    """The expert; it notes what it is asked, and what it says."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[DecisionRequest] = []
        self.said: list[str] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pending = super().decide(request)
        self.asked.append(request)
        self.said.append(pending.result().text)
        return pending


@pytest.fixture(scope="module")
def expert() -> Noting:
    """The expert after the first decisions of runs in some houses."""
    expert = Noting()
    for seed in range(4):
        (task,) = parse_tasks(generate_house(seed=seed, rooms=3, tasks=1))
        with SymbolicWorld(task) as world:
            spec = RunSpec(planner=f"{PLANNER}").of_task(task, task.task_id)
            assemble(spec, world=world, model=expert).run()
    del expert.asked[24:], expert.said[24:]
    return expert


@pytest.fixture(scope="module")
def adapter() -> Path:
    need("peft", "test-llm")
    if not ADAPTER.exists():
        pytest.skip(f"needs {ADAPTER}")
    return ADAPTER


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("model") / "smollm2")


def decisions(llm: str, model: Path, asked: list[DecisionRequest], **settings: Any) -> list[str]:
    """What an engine decides in whole numbers, with all requests at the same time."""
    values = {"model": str(model), "chat": False, "engine_args": WHOLE[llm], **settings}
    one = make_model(*model_settings(llm, values, where="test"))
    try:
        one.ready().result(timeout=300)
        assert "grammar" not in one.status()
        return [pending.result(timeout=600).text for pending in [one.decide(request) for request in asked]]
    finally:
        one.close()


@pytest.fixture(scope="module")
def decided(expert: Noting, base: Path, adapter: Path) -> list[str]:
    return decisions("transformers", base, expert.asked, adapter=str(adapter))


def test_with_its_adapter_a_model_decides_mostly_as_it_was_taught(expert: Noting, decided: list[str]) -> None:
    right = sum(one.strip() == other.strip() for one, other in zip(decided, expert.said, strict=True))
    assert right > len(decided) / 2


def test_a_gguf_file_is_a_base_too(expert: Noting, adapter: Path, decided: list[str]) -> None:
    need("gguf", "test-llm")
    assert decisions("transformers", weights("test-llm"), expert.asked[:6], adapter=str(adapter)) == decided[:6]


def test_vllm_decides_as_transformers_does(expert: Noting, base: Path, adapter: Path, decided: list[str]) -> None:
    need("vllm", "test-llm")
    assert decisions("vllm", base, expert.asked, adapter=str(adapter)) == decided


def test_a_folder_that_is_no_adapter_is_refused_in_one_line(tmp_path: Path) -> None:
    need("vllm", "test-llm")
    (tmp_path / "adapter_config.json").write_text("{}")
    with pytest.raises(UserError, match=r"has no rank up to 512 .*; name a folder that peft wrote"):
        make_model(*model_settings("vllm", {"model": "x", "adapter": str(tmp_path)}, where="test"))
