"""What a model learns by: attention in blocks, and the loss of what is read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from reactree_lab.training.settings import TrainSettings
from reactree_local.small import PACKAGED

pytestmark = pytest.mark.train


@pytest.mark.parametrize("length", [1, 96, 1100])
def test_attention_in_blocks_comes_to_the_same_as_pytorchs(length: int) -> None:
    import torch
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    from reactree_lab.training.model import attend

    torch.manual_seed(0)
    module = SimpleNamespace(is_causal=True, training=True)
    found = []
    for function in (attend, sdpa_attention_forward):
        torch.manual_seed(1)
        given = [torch.randn(2, 3, length, 32, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
        attended, _ = function(module, *given, None, scaling=32**-0.5)
        (attended * torch.linspace(-1, 1, length).view(1, -1, 1, 1)).sum().backward()
        found.append([attended, *(one.grad for one in given)])
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        assert torch.allclose(ours.float(), theirs.float(), atol=0.02, rtol=0.05)


def test_what_is_read_is_learnt_from_all_tokens_but_those_that_fill_up(data: Path, straight: Path) -> None:
    import torch

    from reactree_lab.training.model import Learner, make_model
    from reactree_lab.training.prepared import Prepared, make_pass

    prepared = Prepared.load(straight / "prepared_train")
    vocabulary = int(prepared.tokens.max()) + 1
    model = make_model(TrainSettings(preset="tiny"), vocabulary)
    learner = Learner(model, torch.float32)
    nodes = [int(node) for node in prepared.lengths.argsort()[[0, -1]]]  # the shorter one is filled up
    one = make_pass(prepared, nodes)
    expected = 0.0
    for node in nodes:
        tokens = torch.tensor(prepared.tokens[prepared.nodes[node] : prepared.nodes[node + 1]].astype("int64"))[None]
        expected += model(tokens, labels=tokens).loss.item() * (tokens.numel() - 1)
    assert learner(one, reading=True).read.item() == pytest.approx(expected, rel=1e-4)
    assert learner(one).read.item() == 0


def test_lora_matrices_in_the_weights_learn_as_beside_them(straight: Path) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from reactree_lab.training.model import Learner
    from reactree_lab.training.prepared import Prepared, make_pass

    base = AutoModelForCausalLM.from_pretrained(straight / "model", dtype=torch.float32)
    model = get_peft_model(base, LoraConfig(r=3, target_modules="all-linear")).base_model.model
    matrices = {name: one for name, one in model.named_parameters() if "lora_" in name}
    torch.manual_seed(0)
    for one in matrices.values():
        torch.nn.init.normal_(one, std=0.05)
    learner = Learner(model, torch.float32)
    one = make_pass(Prepared.load(straight / "prepared_train"), [0, 1], learnt=True)
    learner.train(learning=True)
    for _ in range(2):  # as two passes of a step
        learner.learn(learner(one).losses.sum() / 2)
    learner.hand_over()
    ours = {name: one.grad for name, one in matrices.items()}
    model.zero_grad()
    scores = model(input_ids=torch.from_numpy(one.tokens)).logits.flatten(0, 1)[torch.from_numpy(one.before)]
    refused = torch.from_numpy(one.held)[:, None].repeat(1, scores.shape[1])
    refused[tuple(torch.from_numpy(one.may))] = False
    scores = scores.masked_fill(refused, -torch.inf)
    torch.nn.functional.cross_entropy(scores, torch.from_numpy(one.targets), reduction="sum").backward()
    for name, parameter in matrices.items():
        assert torch.allclose(ours[name], parameter.grad, rtol=1e-3, atol=1e-4 * float(parameter.grad.abs().max())), (
            name
        )


def test_a_model_begins_with_one_of_other_layers() -> None:
    import torch

    from reactree_lab.training.model import begun_with, make_model, with_layers

    weights = begun_with(str(PACKAGED)).weights
    text = torch.arange(40).view(1, -1)
    said = {}
    for preset in ("compact", "small", "large"):
        settings = TrainSettings(preset=preset)
        model = make_model(settings, len(weights["model.embed_tokens.weight"]))
        fitted = with_layers(weights, len(model.model.layers))
        model.load_state_dict(fitted | {"lm_head.weight": fitted["model.embed_tokens.weight"]})
        said[preset] = model(text).logits
        if preset == "compact":
            for number, kept in enumerate((0, 2, 5)):
                name = "self_attn.q_proj.weight"
                assert torch.equal(fitted[f"model.layers.{number}.{name}"], weights[f"model.layers.{kept}.{name}"])
    assert torch.equal(said["large"], said["small"])
    assert not torch.allclose(said["compact"], said["small"])
