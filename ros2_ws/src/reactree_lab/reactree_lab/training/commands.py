"""Carries out ``reactree lab train``: prepares a dataset, trains with a progress bar, and makes the model's folder."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from reactree_lab.bench.plots import curves
from reactree_lab.dataset.settings import ABOUT
from reactree_lab.out_folder import check_place, check_same, opened_alone, write_whole, writing
from reactree_lab.training import dataset
from reactree_lab.training.base import base_words, write_base
from reactree_lab.training.graph import write_graph
from reactree_lab.training.loop import (
    CHECKPOINT,
    HELD_OUT,
    TOKENIZER,
    TRAIN,
    load_checkpoint,
    process_count,
    train_in_processes,
)
from reactree_lab.training.loop import Progress as TrainProgress
from reactree_lab.training.model import begun_with, make_model
from reactree_lab.training.prepared import prepare
from reactree_lab.training.settings import ADAPTER, CSV, PLOT, TrainSettings
from reactree_lab.training.vocabulary import END, Words, make_tokenizer, names_in
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json
from reactree_ros.files.whole_file import whole_folder
from reactree_ros.llm.spec import ABOUT as TRAINED

SETTINGS, _LOCK = "settings.json", "lock"
#: Number of nodes whose texts make a tokenizer.
_FOR_THE_TOKENIZER = 20000


def train(data: Sequence[Path], out: Path, settings: TrainSettings) -> Path:
    """Train a model from datasets' folders, or resume an interrupted training; return the model's folder."""
    planners = ",".join(dict.fromkeys(str(dataset.about(folder)["planner"]) for folder in data))
    if settings.parts and len(settings.parts) != len(data):
        raise UserError(
            f"--shares {settings.shares}: {len(settings.parts)} shares for {len(data)} --data; name one for each"
        )
    check_place(out, f"{SETTINGS} of a training", begun=(out / SETTINGS).exists(), leftovers=(_LOCK,))
    out.mkdir(parents=True, exist_ok=True)
    with opened_alone(out, out / _LOCK):
        _check_settings(out, settings, data)
        _prepare(data, out, settings)
        with _shown(out, settings) as shown:
            progress = train_in_processes(out, settings, shown)
        write_curves(out, progress.points)
        folder = make_model_folder(out, settings, planners)
    last = progress.points[-1]
    kinds = ", ".join(f"{name[6:]} {value:.3f}" for name, value in last.items() if name.startswith("exact_"))
    tried = f"\nTry it: reactree lab eval {folder} --data {data[0]}" if not settings.base else ""
    typer.echo(
        f"{folder}: trained on {progress.tokens:,} tokens in {progress.seconds:.0f} s\n"
        f"decisions on held-out houses equal word for word: {last['exact']:.3f} ({kinds}){tried}"
    )
    return folder


def _check_settings(out: Path, settings: TrainSettings, data: Sequence[Path]) -> None:
    now: dict[str, Any] = {**settings.model_dump(mode="json", exclude={"processes"}), "data": [*map(fingerprint, data)]}
    path = out / SETTINGS
    if not path.exists():
        write_whole(path, f"{json.dumps(now, indent=1)}\n".encode())
        return
    begun = read_json(path, "settings of a training; name another --out", dict)
    check_same(out, {name: begun.get(name) for name in now}, now)


def fingerprint(data: Path) -> str:
    """Return a dataset's fingerprint: the SHA-256 of its description and of its files' sizes."""
    try:
        sizes = [str((data / name).stat().st_size) for name in (dataset.TRAIN, dataset.HELD_OUT)]
        content = (data / ABOUT).read_bytes()
    except OSError as error:
        raise UserError(f"--data {data}: {error.filename} cannot be read: {error.strerror}") from error
    return hashlib.sha256(content + " ".join(sizes).encode()).hexdigest()


def _prepare(data: Sequence[Path], out: Path, settings: TrainSettings) -> None:
    processes = settings.processes or len(os.sched_getaffinity(0))
    with Console(stderr=True).status("Making the tokenizer"):
        words = _words(data, out / TOKENIZER, settings)
    for name, file, masked in ((TRAIN, dataset.TRAIN, settings.masked), (HELD_OUT, dataset.HELD_OUT, True)):
        if (out / name).exists():
            continue
        with Console(stderr=True).status(f"Writing {file} as tokens"):
            try:
                prepared = prepare(
                    dataset.nodes_of(data, file, joined=name == TRAIN, words=words),
                    words,
                    context=settings.context,
                    masked=masked,
                    processes=processes,
                )
            except UserError as error:
                raise UserError(f"--data {' '.join(map(str, data))}: {file}: {error}") from error
            prepared.save(out / name)
        refused = f"; {prepared.refused} are not allowed at their places, and are not learnt"
        typer.echo(
            f"{file}: {len(prepared)} nodes, {len(prepared.first)} decisions, {len(prepared.tokens):,} tokens"
            f"{refused if prepared.refused else ''}"
        )


def _words(data: Sequence[Path], path: Path, settings: TrainSettings) -> Words:
    """Return the tokenizer of the training; write it unless that is done already."""
    if settings.base:
        words = base_words(settings)
    else:
        text = path.read_text(encoding="utf-8") if path.exists() else _tokenizer(data, settings)
        words = Words(text, end=0)  # of END, its first token
    if not path.exists():
        write_whole(path, words.tokenizer.encode())
    return words


def _tokenizer(data: Sequence[Path], settings: TrainSettings) -> str:
    if settings.start:
        return begun_with(settings.start).tokenizer
    texts, skills = list[str](), set[str]()
    for folder in data:
        for node in islice(dataset.node_texts(folder / dataset.TRAIN), _FOR_THE_TOKENIZER // len(data)):
            texts.append(node.text)
            for decision in node.decisions[:1]:
                skills.update(decision.may_say.acts if decision.may_say else ())
    if not texts:
        raise UserError(f"--data {data[0]}: {dataset.TRAIN} holds no decision, so there is nothing to learn")
    return str(make_tokenizer(texts, names_in(skills), settings.vocabulary).to_str())


@contextlib.contextmanager
def _shown(out: Path, settings: TrainSettings) -> Iterator[Any]:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        count = process_count(settings)
        task = bar.add_task(f"Training ({count} process{'es' * (count > 1)})", total=settings.tokens, text="")
        seen = 0

        def shown(progress: TrainProgress, loss: float) -> None:
            nonlocal seen
            exact = f", exact {progress.points[-1]['exact']:.3f}" if progress.points else ""
            bar.update(task, completed=progress.tokens, text=f"loss {loss:.3f}{exact}")
            if len(progress.points) != seen:
                seen = len(progress.points)
                write_curves(out, progress.points)

        yield shown


#: The model's folder, in the training's folder.
MODEL = "model"


def make_model_folder(out: Path, settings: TrainSettings, planners: str) -> Path:
    """Make the folder of the trained model, or of its LoRA matrices, with a description of the training.

    ``transformers`` and vLLM can load it.
    """
    name = ADAPTER if settings.base and settings.rank else MODEL
    folder = out / name
    weights = load_checkpoint(out / CHECKPOINT)["model"]
    with writing(folder), whole_folder(folder) as new:
        if settings.base:
            write_base(new, settings, weights)
        else:
            _write_own(new, settings, out / TOKENIZER, weights)
        said = settings.model_dump(mode="json")
        named = {name: Path(said[name]).name for name in ("base", "start")}  # not where they lie on this machine
        about = {"planner": planners, "settings": {**said, **named}}
        write_whole(new / TRAINED, f"{json.dumps(about, indent=1)}\n".encode())
        shutil.rmtree(folder, ignore_errors=True)
    return folder


def _write_own(folder: Path, settings: TrainSettings, tokenizer: Path, weights: Mapping[str, Any]) -> None:
    """Write a model from scratch: weights in 16 bits, tokenizer, graph."""
    words = Tokenizer.from_file(str(tokenizer))
    model = make_model(settings, words.get_vocab_size())
    model.load_state_dict(weights)
    model.to(torch.float16).save_pretrained(folder)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token=END, pad_token=END, clean_up_tokenization_spaces=False
    )
    fast.save_pretrained(folder)
    _compute_in_full(folder / "config.json")
    write_graph(folder)


def _compute_in_full(config: Path) -> None:
    """Make engines compute in 32 bits with 16-bit weights, so that all of them decide alike."""
    values = json.loads(config.read_text(encoding="utf-8"))
    write_whole(config, json.dumps({**values, "dtype": "float32"}, indent=2).encode())


def write_curves(folder: Path, points: Sequence[Mapping[str, float]]) -> None:
    if not points:
        return
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(points[0]), lineterminator="\n")
    writer.writeheader()
    for point in points:
        writer.writerow({name: f"{value:.6g}" if name != "tokens" else int(value) for name, value in point.items()})
    write_whole(folder / CSV, text.getvalue().encode())
    write_whole(folder / PLOT, curves(points))
