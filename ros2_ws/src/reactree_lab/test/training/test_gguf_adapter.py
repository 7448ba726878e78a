"""An adapter as GGUF does in llama.cpp what it does in peft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from asked import Asked
from docs.blocks import ROOT
from tiny_gguf import HEADS, KEY_HEADS, make_tiny_gguf

from reactree_lab.household.generator import generate_house
from reactree_lab.training.base import write_gguf_adapter
from reactree_local.mind import base as base_model
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.llm.spec import make_model, model_settings
from reactree_ros.planners.spec import planner

pytestmark = pytest.mark.train

TRIAL = ROOT.parent / "shared/data/trial_adapter"
#: The planner that it was trained for.
PLANNER = "reactree_wm:system_text=false:fixed_example=false"
#: How far the scores of llama.cpp may be from those of transformers, as a share of the largest: both are in 32 bits.
CLOSE = 0.02


def scores_of_llama(model: Path, adapter: Path | None, tokens: list[int]) -> Any:
    from reactree_local.llama import Served

    server = Served(str(model), str(adapter or ""), context=512).start()
    asked = {"prompt": tokens, "n_predict": 1, "n_probs": 100_000, "grammar": 'root ::= "go"'}  # what shows is a text
    (choice,) = server.handle_completions(asked)["choices"]
    scores = {one["id"]: one["logprob"] for one in choice["logprobs"]["content"][0]["top_logprobs"]}
    return centred(np.array([scores[token] for token in range(len(scores))]))


def centred(scores: Any) -> Any:
    """Of the server, the logarithms of probabilities are known: scores, but for a number that all have in common."""
    return scores - scores.mean()


def scores_of_transformers(base: Path, adapter: Path | None, tokens: list[int]) -> Any:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(base.parent, gguf_file=base.name, dtype=torch.float32).eval()
    if adapter is not None:
        model = PeftModel.from_pretrained(model, str(adapter)).eval()
    with torch.inference_mode():
        return centred(model(torch.tensor([tokens])).logits[0, -1].numpy())


def make_adapter(folder: Path, base: Path, **settings: Any) -> Path:
    """Make an adapter of random weights, with peft, for all matrices of the base."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(base.parent, gguf_file=base.name, dtype=torch.float32)
    config = LoraConfig(**{"target_modules": "all-linear", **settings}, r=4, lora_alpha=24, init_lora_weights=False)
    get_peft_model(model, config).save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft", reason="needs peft; `make test-train` has it")
    pytest.importorskip("xllamacpp", reason="needs xllamacpp; `make test-train` has it")
    return make_tiny_gguf(tmp_path_factory.mktemp("base") / "tiny.gguf")


@pytest.mark.parametrize("settings", [{}, {"target_modules": ["q_proj", "down_proj"]}])
def test_an_adapter_adds_what_it_adds_in_peft(base: Path, tmp_path: Path, settings: dict[str, Any]) -> None:
    tokens = list(range(5, 60))
    folder = make_adapter(tmp_path / "adapter", base, **settings)
    write_gguf_adapter(folder, tmp_path / "adapter.gguf", heads=HEADS, key_heads=KEY_HEADS)
    with_it = scores_of_llama(base, tmp_path / "adapter.gguf", tokens)
    wanted = scores_of_transformers(base, folder, tokens)
    assert np.abs(with_it - wanted).max() <= CLOSE * np.abs(wanted).max()
    without = scores_of_llama(base, None, tokens)
    assert np.abs(without - wanted).max() > 5 * CLOSE * np.abs(wanted).max()


def asked(count: int) -> list[DecisionRequest]:
    """What a planner asks on its way through a house."""
    expert = Asked()
    for task in parse_tasks(generate_house(seed=9_000_200, tasks=2)):
        with SymbolicWorld(task) as world:
            Episode(task.instruction, world=world, model=expert, planner=planner(PLANNER)).run()
    return expert.requests[:count]


def decisions(requests: list[DecisionRequest], llm: str, **settings: Any) -> list[str]:
    model = make_model(*model_settings(llm, settings, where="test"))
    try:
        return [model.decide(request).result(timeout=300).text for request in requests]
    finally:
        model.close()


def test_a_trained_adapter_decides_in_llama_cpp_as_in_peft(tmp_path: Path, sweep: int) -> None:
    """On the quantized base, and merged into the same weights in 32 bits."""
    pytest.importorskip("xllamacpp", reason="needs xllamacpp; `make test-train` has it")
    if not TRIAL.is_dir():
        pytest.skip(f"needs {TRIAL.name} in ../shared/data")
    try:
        gguf = base_model()
    except UserError as error:
        pytest.skip(str(error))
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    plain = LlamaForCausalLM(loaded.config)  # what comes from a GGUF is not saved as it is
    plain.load_state_dict(loaded.state_dict())
    del loaded.config.quantization_config
    PeftModel.from_pretrained(plain, str(TRIAL)).merge_and_unload().save_pretrained(tmp_path / "merged")
    AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(tmp_path / "merged")
    config = loaded.config
    heads = {"heads": config.num_attention_heads, "key_heads": config.num_key_value_heads}
    write_gguf_adapter(TRIAL, tmp_path / "adapter.gguf", **heads)
    requests = asked(8 if sweep == 1 else 4)
    by_llama = decisions(requests, "mind", adapter=str(tmp_path / "adapter.gguf"))
    assert by_llama == decisions(requests, "transformers", model=str(tmp_path / "merged"), chat=False)
    assert len(set(by_llama)) > len(requests) // 2
