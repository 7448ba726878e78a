"""Fine-tunes a base model on a dataset: LoRA by the peft library, the loop by the trl library."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from reactree_ros.errors import UserError
from reactree_ros.lab.training import dataset
from reactree_ros.lab.training.curves import write_curves
from reactree_ros.lab.training.dataset import NodeText
from reactree_ros.lab.training.graph import write_graph
from reactree_ros.lab.training.model_folder import MODEL, write_about
from reactree_ros.lab.training.prepared import pieces
from reactree_ros.lab.training.settings import TrainSettings
from reactree_ros.llm.markers import Markers, encoded
from reactree_ros.plugins.installation import check_modules

#: The folder of checkpoints, in the training's folder.
CHECKPOINTS = "checkpoints"


def fine_tune(data: Sequence[Path], out: Path, settings: TrainSettings, console: Console) -> Path:
    """Fine-tune a causal model, or resume fine-tuning; in the end, the LoRA matrices are added to its weights.

    A prompt is text, as a base model gets it, even if the model has a chat template: run the result with ``--llm-option
    chat=false``.
    """
    check_modules("reactree train --base", "reactree_ros[lora]", ("peft", "trl"))
    import torch
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.trainer_utils import get_last_checkpoint
    from trl import SFTConfig, SFTTrainer

    from reactree_ros.lab.training.loop import device_and_precision

    try:
        tokenizer = AutoTokenizer.from_pretrained(settings.base)
        model = AutoModelForCausalLM.from_pretrained(settings.base, dtype=torch.float32)
    except Exception as error:
        raise UserError(f"--base {settings.base}: cannot be loaded: {' '.join(str(error).split())[:300]}") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    nodes = {name: _encoded(data, name, tokenizer, settings) for name in (dataset.TRAIN, dataset.HELD_OUT)}
    mean = sum(len(one["input_ids"]) for one in nodes[dataset.TRAIN]) / len(nodes[dataset.TRAIN])
    steps = max(1, round(settings.tokens / settings.batch_tokens))
    each = max(1, steps // settings.reports)
    folder = out / CHECKPOINTS
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig(
            output_dir=str(folder),
            max_steps=steps,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=max(1, round(settings.batch_tokens / mean)),
            learning_rate=settings.rate,
            lr_scheduler_type="linear",
            bf16=device_and_precision(settings)[1] is torch.bfloat16,
            use_cpu=not torch.cuda.is_available(),
            max_length=None,
            completion_only_loss=True,
            logging_steps=each,
            eval_strategy="steps",
            eval_steps=each,
            save_steps=each,
            save_total_limit=2,
            report_to=[],
            seed=settings.seed,
        ),
        train_dataset=Dataset.from_list(nodes[dataset.TRAIN]),
        eval_dataset=Dataset.from_list(nodes[dataset.HELD_OUT][: settings.held_out or 1]),
        processing_class=tokenizer,
        peft_config=LoraConfig(r=settings.rank, lora_alpha=2 * settings.rank, target_modules="all-linear"),
    )
    last = get_last_checkpoint(str(folder)) if folder.is_dir() else None
    try:
        trainer.train(resume_from_checkpoint=last)
        write_curves(out, _points(trainer.state.log_history, settings))
        made = _save(trainer.model.merge_and_unload(), tokenizer, out, settings, dataset.planners_of(data))
    except OSError as error:
        raise UserError(
            f"{out}: cannot be written: {error.strerror or error}; repeat it to resume from the last checkpoint"
        ) from error
    console.print(_said(made, steps), markup=False, highlight=False, soft_wrap=True)
    return made


def _encoded(data: Sequence[Path], file: str, tokenizer: Any, settings: TrainSettings) -> list[dict[str, list[int]]]:
    """Return a file's nodes in trl's form: tokens, and which of them to learn."""
    path = data[0] / file
    markers = Markers.of(tokenizer)
    found = [_tokens(node, tokenizer, markers) for node in dataset.nodes_of(data, file)]
    if not found:
        raise UserError(f"{path}: holds no decision, so there is nothing to learn")
    longest = max(len(one["input_ids"]) for one in found)
    if longest > settings.context:
        raise UserError(f"{path}: a node has {longest} tokens, and context is {settings.context}; set a longer one")
    return found


def _tokens(node: NodeText, tokenizer: Any, markers: Markers) -> dict[str, list[int]]:
    tokens: list[int] = []
    learnt: list[int] = []
    for text, decision in pieces(node):
        ids = encoded(tokenizer, markers.apart(text), begins=not tokens)
        tokens += ids
        learnt += [int(decision is not None and decision.learn)] * len(ids)
    return {"input_ids": tokens, "completion_mask": learnt}


def _points(history: list[dict[str, float]], settings: TrainSettings) -> list[dict[str, float]]:
    """Return the points of the curves: each held-out loss, with the training loss before it."""
    return list(_paired(history, settings.batch_tokens))


def _paired(history: list[dict[str, float]], batch_tokens: int) -> Iterator[dict[str, float]]:
    loss = 0.0
    for entry in history:
        loss = entry.get("loss", loss)
        if "eval_loss" in entry:
            yield {"tokens": entry["step"] * batch_tokens, "loss": loss, "held_out_loss": entry["eval_loss"]}


def _save(model: Any, tokenizer: Any, out: Path, settings: TrainSettings, planners: str) -> Path:
    folder, new = out / MODEL, out / f"{MODEL}.unfinished"
    shutil.rmtree(new, ignore_errors=True)
    model.save_pretrained(new)
    tokenizer.save_pretrained(new)
    write_about(new, settings, planners)
    if json.loads((new / "config.json").read_text(encoding="utf-8")).get("model_type") == "llama":
        write_graph(new)
    shutil.rmtree(folder, ignore_errors=True)
    new.replace(folder)
    return folder


def _said(folder: Path, steps: int) -> str:
    runs = "small, transformers or vllm" if (folder / "model.onnx").exists() else "transformers or vllm"
    return f"{folder}: fine-tuned in {steps} steps\nRun it: reactree run … --llm {runs} --model {folder}"
