"""A small model from a dataset: it learns, survives a kill, and is run by several engines alike."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import Cli
from short_trainings import SHORT, train

from reactree_lab.dataset.settings import ABOUT
from reactree_lab.household.generator import generate_house
from reactree_lab.training import dataset
from reactree_lab.training.prepared import Prepared
from reactree_lab.training.settings import CSV, PLOT
from reactree_local.small import PACKAGED, WEIGHTS
from reactree_ros.agent.control_flow import default_flows
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import About, Told
from reactree_ros.episode import Episode
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.llm.spec import make_model, model_settings, trained_for
from reactree_ros.planners.spec import planner
from reactree_ros.record.reader import read_record
from reactree_ros.tree.options import TreeOptions

pytestmark = pytest.mark.train

SWEEP = int(os.environ.get("SWEEP", "1"))
#: Runs the command line, and kills itself in the middle of a step.
KILLED = """
import os, signal, sys
from reactree_ros.cli import main
from reactree_lab.training import loop
from reactree_lab.training.loop import _Trainer

loop._CHECKPOINT_EVERY = float(os.environ["CHECKPOINT_EVERY"])
step = _Trainer._step

def killed(self, nodes):
    if self._progress.step == int(os.environ["KILLED_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return step(self, nodes)

_Trainer._step = killed
main()
"""


def curves(out: Path) -> list[dict[str, float]]:
    names, *rows = (line.split(",") for line in (out / CSV).read_text().splitlines())
    return [dict(zip(names, map(float, row), strict=True)) for row in rows]


def test_it_learns_and_the_curves_say_so(trained: Path) -> None:
    points = curves(trained)
    assert [round(point["tokens"], -5) for point in points] == [100000, 200000, 300000]
    assert points[-1]["held_out_loss"] < 0.6 * points[0]["held_out_loss"]
    assert points[-1]["exact"] > max(0.18, points[0]["exact"])  # an untrained one has 0
    assert {"exact_act", "exact_think", "exact_expand"} < set(points[0])
    assert b"exact: act" in (trained / PLOT).read_bytes()


@pytest.mark.parametrize(("every", "kept"), [("inf", {1, 2}), ("0", {3})], ids=["with the curves", "by the clock"])
def test_a_training_that_is_killed_goes_on_to_the_same_numbers(
    data: Path, straight: Path, tmp_path: Path, every: str, kept: set[int]
) -> None:
    from reactree_lab.training.loop import load_checkpoint

    out = tmp_path / "out"
    arguments = [*map(str, ("lab", "train", "--data", data, "--out", out, *SHORT))]
    setting = {"KILLED_AT": "3", "CHECKPOINT_EVERY": every}
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], env={**os.environ, **setting}, timeout=600)
    assert killed.returncode == -signal.SIGKILL
    assert load_checkpoint(out / "checkpoint.pt")["progress"]["step"] in kept
    train(data, out, SHORT)
    assert (out / CSV).read_bytes() == (straight / CSV).read_bytes()
    model = Path("model") / "model.safetensors"
    assert (out / model).read_bytes() == (straight / model).read_bytes()


def test_two_processes_stay_in_step_with_one(data: Path, straight: Path, cli: Cli, tmp_path: Path) -> None:
    two = [2 if one == 1 else one for one in SHORT]
    assert cli("lab", "train", "--data", data, "--out", tmp_path / "out", *two).code == 0
    for one, other in zip(curves(straight), curves(tmp_path / "out"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-3)
        assert one["held_out_loss"] == pytest.approx(other["held_out_loss"], rel=1e-3)


def test_what_is_done_is_done(data: Path, straight: Path, cli: Cli) -> None:
    before = (straight / CSV).read_bytes()
    assert cli("lab", "train", "--data", data, "--out", straight, *SHORT).code == 0
    assert (straight / CSV).read_bytes() == before


def test_what_was_learnt_is_begun_with_and_two_datasets_are_learnt_together(
    data: Path, trained: Path, straight: Path, cli: Cli, tmp_path: Path
) -> None:
    command = ("lab", "train", "--data", data, "--out", tmp_path / "out", *SHORT)
    assert cli(*command, "--data", data, "--start", trained / "model").code == 0
    assert curves(tmp_path / "out")[0]["held_out_loss"] < 0.7 * curves(straight)[0]["held_out_loss"]
    nodes = [len(Prepared.load(out / "prepared_train")) for out in (straight, tmp_path / "out")]
    assert nodes[1] == 2 * nodes[0]
    about = json.loads((tmp_path / "out" / "model" / "training.json").read_text())
    assert about["planner"] == json.loads((data / ABOUT).read_text())["planner"]


def test_a_smaller_model_begins_with_layers_of_a_larger_one(data: Path, cli: Cli, tmp_path: Path) -> None:
    short = [{"tiny": "compact", 12000: 2000, 3: 1}.get(one, one) for one in SHORT]
    assert cli("lab", "train", "--data", data, "--out", tmp_path / "out", *short, "--start", PACKAGED).code == 0
    assert curves(tmp_path / "out")[0]["exact"] > 0.3, "what it began with is not forgotten"
    assert json.loads((tmp_path / "out" / "model" / "config.json").read_text())["num_hidden_layers"] == 3


def test_what_cannot_be_begun_with_is_named(data: Path, trained: Path, cli: Cli, tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    command = ("lab", "train", "--data", data, *SHORT)
    ended = cli(*command, "--out", tmp_path / "nothing", "--start", tmp_path)
    assert (ended.code, f"--start {tmp_path}: is not a model folder" in ended.err) == (2, True)
    other = [("compact" if one == "tiny" else one) for one in command]
    ended = cli(*other, "--out", tmp_path / "other", "--start", trained / "model")
    assert (ended.code, "does not have the architecture of preset compact" in ended.err) == (2, True)
    strange = shutil.copytree(trained / "model", tmp_path / "strange")
    save_file({"model.layers.first.weight": np.zeros(1)}, strange / WEIGHTS)
    ended = cli(*command, "--out", tmp_path / "third", "--start", strange)
    assert (ended.code, "does not have the architecture of preset tiny" in ended.err) == (2, True)


# ---------------------------------------------------------------------- engines


def requests(data: Path, count: int) -> Iterator[tuple[DecisionRequest, dict[str, Any]]]:
    """Held-out decisions as they are asked for."""
    for line in islice(dataset.read_lines(data / dataset.HELD_OUT), count):
        grammar = DecisionGrammar(tuple(line["may_say"]["skills"]), default_flows())
        yield DecisionRequest([Told(line["prompt"].removesuffix("\n"), About.TASK)], grammar), line


def said_by(llm: str, data: Path, count: int, **settings: Any) -> tuple[list[str], int]:
    """What a language model decides, and how many tokens of prompts it knew."""
    model = make_model(*model_settings(llm, settings, where="test"))
    try:
        replies = [model.decide(request).result(timeout=120) for request, _ in requests(data, count)]
    finally:
        model.close()
    return [reply.text for reply in replies], sum(reply.cached_tokens or 0 for reply in replies)


@pytest.mark.parametrize("packaged", [False, True])
def test_engines_decide_alike_with_the_same_weights(trained: Path, data: Path, *, packaged: bool) -> None:
    folder, count = str(PACKAGED if packaged else trained / "model"), 120
    small, known = said_by("small", data, count, model=folder)
    transformers, _ = said_by("transformers", data, count, model=folder)
    differ = [pair for pair in zip(small, transformers, strict=True) if pair[0] != pair[1]]
    print(f"{len(differ)} of {count} decisions differ")  # noqa: T201
    assert not differ
    assert known > 0  # what was read of a node's prompt is not read again


def test_the_small_model_runs_without_torch(trained: Path, tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from reactree_ros.cli import main; main()"
    )
    command = ["run", "Put the book on the bed", "--house", "villa", "--llm", "small", "--model", trained / "model"]
    run = [sys.executable, "-c", script, *map(str, [*command, "--max-decisions", 5, "--json"])]
    ended = subprocess.run(run, capture_output=True, text=True, timeout=300)
    assert ended.returncode in (0, 1), ended.stderr
    assert json.loads(ended.stdout)["decisions"] > 0


def test_the_model_that_comes_with_the_package_reaches_goals_in_houses_that_it_was_not_trained_in(
    cli: Cli, tmp_path: Path
) -> None:
    houses = 6 if SWEEP == 1 else 3
    options = ("--limit", houses, "--suite-option", "first_seed=9000000", "--suite-option", f"houses={houses}")
    options = ("--suite", "generated", *options, "--suite-option", "tasks_per_house=1")
    ended = cli("lab", "bench", "--llm", "small", "--out", tmp_path / "bench", *options)
    assert ended.code == 0, ended.err
    results = [json.loads(line) for line in (tmp_path / "bench" / "results.jsonl").read_text().splitlines()]
    reached: dict[str, list[float]] = {one: [] for one in trained_for(PACKAGED)}
    for result in results:
        reached[result["planner"]].append(result["gsr"])
    assert [len(goals) for goals in reached.values()] == [houses] * 4
    name, *others = reached
    assert sum(reached[name]) >= houses * 2 / 3, ended.out
    assert all(map(any, (reached[other] for other in others))), ended.out


#: What no household robot can do, in words that no template has.
UNCLEAR = (
    "Sing me a song.",
    "What is the capital of France?",
    "Fly to the moon",
    "asdf qwer zxcv",
    "Tell me a joke about cats.",
    "I am hungry",
    "Paint the wall blue.",
    "How are you today?",
    "Book a flight to Rome for Tuesday.",
    "Walk the dog",
    "Do my homework",
    "Water the plants on the balcony",
    "Delete all files",
    "Why is the sky blue?",
    "Cut the grass and wash the car.",
    "Could you explain how fridges work?",
    "Put the dragon in the castle",
    "Place one elephant on the roof",
    "Give the baby a bath",
    "You are useless.",
)


def test_most_of_what_it_does_not_understand_ends_in_failure_at_once() -> None:
    (task,) = parse_tasks(generate_house(seed=9_000_300, tasks=1))
    name, *_ = trained_for(PACKAGED)
    model = make_model(*model_settings("small", {}, where="test"))
    at_once = 0
    try:
        for unclear in UNCLEAR:
            with SymbolicWorld(task, scored=False) as world:
                options = TreeOptions(max_decisions=20)
                ended = Episode(unclear, world=world, model=model, planner=planner(name), options=options).run()
            at_once += ended.end == "failure" and ended.decisions <= 2
    finally:
        model.close()
    print(f"{at_once} of {len(UNCLEAR)}")  # noqa: T201
    assert at_once >= 14


def test_who_plans_follows_from_the_model_where_nobody_is_named(cli: Cli, tmp_path: Path) -> None:
    run = ("run", "Put 1 apple on the coffee table", "--llm", "small", "--max-decisions", 5)
    of_its_own, other = tmp_path / "own.jsonl", tmp_path / "other.jsonl"
    assert "was trained for" not in cli(*run, "--save", of_its_own).err
    name, *_ = trained_for(PACKAGED)
    assert read_record(of_its_own).run["planner"]["name"] == name
    said = cli(*run, "--planner", "react:questions=1", "--save", other).err
    trained = ", ".join(trained_for(PACKAGED))
    warning = f"the language model was trained for {trained}, and its decisions may be useless here"
    assert f"--planner react:questions=1: {warning}" in said
    assert read_record(other).run["planner"]["name"] == "react:questions=1"
    without_options = tmp_path / "without.jsonl"
    assert "was trained for" not in cli(*run, "--planner", "reactree_wm", "--save", without_options).err
    assert read_record(without_options).run["planner"]["name"] == name
    options = ("--limit", 1, "--max-decisions", 5)
    assert (
        cli("lab", "bench", "--llm", "small", "--suite", "generated", "--out", tmp_path / "bench", *options).code == 0
    )
    results = (tmp_path / "bench" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["planner"] for line in results] == [*trained_for(PACKAGED)]
    asks = f"{name}:questions=1"
    bench = cli(
        "lab", "bench", "--llm", "small", "--suite", "generated", "--planner", asks, "--out", tmp_path / "2", *options
    )
    assert f"{asks}: the language model was trained for {trained}, and its decisions may be useless here" in bench.err


def test_the_model_that_comes_with_the_package_is_small_and_says_what_it_is() -> None:
    assert sum(file.stat().st_size for file in PACKAGED.iterdir()) < 8e6
    card = (PACKAGED / "README.md").read_text(encoding="utf-8")
    assert "GSR" in card
    assert json.loads((PACKAGED / "training.json").read_text())["planner"].startswith("reactree_wm")


def test_evaluation_agrees_with_the_curves(trained: Path, data: Path, cli: Cli) -> None:
    ended = cli("lab", "eval", trained / "model", "--data", data, "--decisions", 0)
    assert ended.code == 0
    (share,) = [float(line.split()[1]) for line in ended.out.splitlines() if line.split()[:1] == ["all"]]
    assert share == pytest.approx(curves(trained)[-1]["exact"], abs=0.02)  # bf16 against fp32
    assert "calibration error" in ended.out


#: A short training of LoRA matrices, in full precision.
LORA = ("--rank", 4, "--tokens", 6000, "--batch-tokens", 2000, "--reports", 3, "--held-out", 4)
LORA = (*LORA, "--processes", 1, "--precision", "fp32")


@pytest.fixture(scope="module")
def adapted(trained: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a short training of LoRA matrices for the trained model."""
    return train(data, tmp_path_factory.mktemp("adapted") / "out", ("--base", str(trained / "model"), *LORA))


def test_all_weights_of_a_base_model_are_learnt_and_every_engine_runs_them(
    trained: Path, data: Path, cli: Cli, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    rank = [0 if one == 4 else one for one in LORA[:2]]
    assert cli("lab", "train", "--data", data, "--out", out, "--base", trained / "model", *rank, *LORA[2:]).code == 0
    assert len(curves(out)) == 3
    small, _ = said_by("small", data, 5, model=str(out / "model"))
    transformers, _ = said_by("transformers", data, 5, model=str(out / "model"))
    assert small == transformers


def test_lora_matrices_are_written_apart_and_peft_puts_them_to_the_base(trained: Path, adapted: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from reactree_lab.training.base import put_back
    from reactree_lab.training.loop import load_checkpoint

    assert not (adapted / "model").exists()
    about = json.loads((adapted / "adapter" / "training.json").read_text())
    assert about["planner"].startswith("reactree_wm")
    assert about["settings"]["base"] == "model"  # and not where it lies on this machine
    base = AutoModelForCausalLM.from_pretrained(trained / "model", dtype=torch.float32)
    plain = base(torch.arange(9)[None]).logits
    both = PeftModel.from_pretrained(base, adapted / "adapter")
    put_back(both.base_model.model, load_checkpoint(adapted / "checkpoint.pt")["model"])
    learnt = both(torch.arange(9)[None]).logits
    again = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(trained / "model", dtype=torch.float32), adapted / "adapter"
    )
    assert torch.allclose(again(torch.arange(9)[None]).logits, learnt, atol=0.02)  # it is written in 16 bits
    assert not torch.allclose(learnt, plain, atol=0.02)


def test_lora_matrices_of_a_training_that_is_killed_come_out_the_same(
    trained: Path, data: Path, adapted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    arguments = [*map(str, ("lab", "train", "--data", data, "--out", out, "--base", trained / "model", *LORA))]
    setting = {"KILLED_AT": "2", "CHECKPOINT_EVERY": "inf"}
    killed = subprocess.run([sys.executable, "-c", KILLED, *arguments], env={**os.environ, **setting}, timeout=600)
    assert killed.returncode == -signal.SIGKILL
    train(data, out, ("--base", str(trained / "model"), *LORA))
    assert (out / CSV).read_bytes() == (adapted / CSV).read_bytes()
    name = Path("adapter") / "adapter_model.safetensors"
    assert (out / name).read_bytes() == (adapted / name).read_bytes()


def test_lora_matrices_are_begun_with_those_of_an_earlier_training(
    trained: Path, data: Path, adapted: Path, cli: Cli, tmp_path: Path
) -> None:
    command = ("lab", "train", "--data", data, "--base", trained / "model", *LORA, "--recompute")
    still = ("--learning-rate", 1e-9, "--out", tmp_path / "out")  # so that each loss is that of the beginning
    assert cli(*command, *still, "--start", adapted / "adapter").code == 0
    assert curves(tmp_path / "out")[0]["loss"] < curves(adapted)[0]["loss"]  # of the same batch, which it has learnt
    ended = cli(*command, "--out", tmp_path / "other", "--start", trained / "model")
    assert (ended.code, "holds no LoRA matrices of `reactree lab train`" in ended.err) == (2, True)
    other = [2 if one == 4 else one for one in LORA]
    command = ("lab", "train", "--data", data, "--base", trained / "model", *other, "--start", adapted / "adapter")
    ended = cli(*command, "--out", tmp_path / "third")
    assert (ended.code, "does not have the architecture of rank 2" in ended.err) == (2, True)


def test_a_chat_is_learnt_as_the_model_will_be_asked(trained: Path, cli: Cli, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    base, chats = tmp_path / "base", tmp_path / "chats"
    shutil.copytree(trained / "model", base)
    tokenizer = AutoTokenizer.from_pretrained(base)
    command = ("lab", "train", "--data", chats, "--base", base, "--chat", *LORA)
    houses = ("--houses", 2, "--first-seed", 7, "--rooms", 3, "--no-varied", "--held-out", 0.5, "--workers", 1)
    assert cli("lab", "dataset", *houses, "--format", "chat", "--out", chats).code == 0
    ended = cli(*command, "--out", tmp_path / "none")
    assert (ended.code, "has no chat template" in ended.err) == (2, True)
    tokenizer.chat_template = (
        "{% for one in messages %}[{{ one.role }}]{{ one.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}[assistant]{% endif %}"
    )
    tokenizer.save_pretrained(base)
    assert cli(*command, "--out", tmp_path / "out").code == 0
    prepared = Prepared.load(tmp_path / "out" / "prepared_train")
    for node, first, length in zip(prepared.nodes[1:], prepared.first, prepared.length, strict=True):
        assert prepared.tokens[node - 1] == tokenizer.eos_token_id  # the marker itself, and nothing after it
        assert first + length == node
        assert tokenizer.decode(prepared.tokens[first - 11 : first]).endswith("[assistant]")


# ---------------------------------------------------------------------- what cannot be used


def test_a_dataset_that_holds_nothing_is_refused(data: Path, cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "nothing"
    folder.mkdir()
    ended = cli("lab", "train", "--data", folder, "--out", tmp_path / "out")
    assert (ended.code, "holds no dataset.json" in ended.err) == (2, True)
    (folder / "dataset.json").write_text((data / "dataset.json").read_text())
    for name in ("train.jsonl", "held_out.jsonl"):
        (folder / name).touch()
    ended = cli("lab", "train", "--data", folder, "--out", tmp_path / "other")
    assert (ended.code, "train.jsonl holds no decision, so there is nothing to learn" in ended.err) == (2, True)


def test_a_broken_line_is_named(data: Path, cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    for name in ("dataset.json", "held_out.jsonl"):
        (folder / name).write_text((data / name).read_text())
    first = (data / "train.jsonl").read_text().split("\n", 1)[0]
    (folder / "train.jsonl").write_text(f'{first}\n{{"prompt": "x"}}\n')
    ended = cli("lab", "train", "--data", folder, "--out", tmp_path / "out")
    assert (ended.code, "line 2 is not a decision of a dataset" in ended.err) == (2, True)


def test_a_node_that_is_longer_than_the_context_is_named_and_not_dropped(data: Path, cli: Cli, tmp_path: Path) -> None:
    ended = cli("lab", "train", "--data", data, "--out", tmp_path / "out", *SHORT, "--context", 64)
    assert ended.code == 2
    assert "tokens, and the model's context 64" in ended.err


def test_a_training_of_another_architecture_is_not_gone_on_with(
    data: Path, straight: Path, trained: Path, cli: Cli, tmp_path: Path
) -> None:
    ended = cli("lab", "train", "--data", data, "--out", straight, *SHORT, "--preset", "compact")
    assert (ended.code, 'other settings: preset was "tiny", now "compact"' in ended.err) == (2, True)
    out = tmp_path / "out"
    other = [("compact" if one == "tiny" else one) for one in SHORT]
    out.mkdir()
    (out / "settings.json").write_text((straight / "settings.json").read_text().replace('"tiny"', '"compact"'))
    (out / "checkpoint.pt").write_bytes((straight / "checkpoint.pt").read_bytes())
    ended = cli("lab", "train", "--data", data, "--out", out, *other)
    assert (ended.code, "has another architecture" in ended.err) == (2, True)
    (out / "checkpoint.pt").write_bytes(b"no checkpoint")
    ended = cli("lab", "train", "--data", data, "--out", out, *other)
    assert (ended.code, "is not a checkpoint of `reactree lab train`" in ended.err) == (2, True)


def test_a_model_of_another_architecture_has_no_graph(trained: Path, tmp_path: Path) -> None:
    from reactree_lab.training.graph import write_graph
    from reactree_ros.errors import UserError

    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((trained / "model" / name).read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "model_type": "qwen3"}))
    with pytest.raises(UserError, match="model_type is 'qwen3', and `llm: small` runs 'llama' only"):
        write_graph(tmp_path)


def test_a_folder_without_a_graph_is_named(cli: Cli, tmp_path: Path) -> None:
    ended = cli("run", "Put the book on the bed", "--house", "villa", "--llm", "small", "--model", tmp_path)
    assert ended.code == 2
    assert "it must be a folder that `reactree lab train` made" in ended.err


def test_where_the_disk_is_full_the_checkpoint_before_stays_whole(
    data: Path, straight: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reactree_lab.training import loop
    from reactree_lab.training.loop import load_checkpoint

    out, step = tmp_path / "out", loop._Trainer._step

    def interrupted(self: Any, nodes: Any) -> Any:
        if self._progress.step == 3:
            raise KeyboardInterrupt
        return step(self, nodes)

    arguments = ("lab", "train", "--data", data, "--out", out, *SHORT)
    with monkeypatch.context() as patched:
        patched.setattr(loop._Trainer, "_step", interrupted)
        assert cli(*arguments).code == 130
    before = load_checkpoint(out / "checkpoint.pt")["progress"]["step"]
    (out / "checkpoint.pt.unfinished").symlink_to("/dev/full")
    ended = cli(*arguments)
    assert ended.code == 2
    assert "cannot be written: No space left on device; make room, then repeat the command to continue" in ended.err
    assert load_checkpoint(out / "checkpoint.pt")["progress"]["step"] == before
    assert cli(*arguments).code == 0
    assert (out / CSV).read_bytes() == (straight / CSV).read_bytes()


def test_a_model_without_a_chat_template_is_asked_with_text(trained: Path) -> None:
    model = make_model(*model_settings("transformers", {"model": str(trained / "model")}, where="test"))
    try:
        model.ready().result(timeout=120)
        assert model.status()["prompts"] == "completion"
    finally:
        model.close()
