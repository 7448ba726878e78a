"""Carries out ``reactree train``: prepares a dataset, trains with a progress bar, and makes the model's folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reactree_lab.dataset.settings import ABOUT
from reactree_lab.training import dataset
from reactree_lab.training.base import base_words
from reactree_lab.training.checkpoint import write_whole
from reactree_lab.training.curves import write_curves
from reactree_lab.training.loop import HELD_OUT, TOKENIZER, TRAIN, process_count, train_in_processes
from reactree_lab.training.loop import Progress as TrainProgress
from reactree_lab.training.model import begun_with
from reactree_lab.training.model_folder import make_model_folder
from reactree_lab.training.prepared import Prepared, prepare
from reactree_lab.training.settings import TrainSettings
from reactree_lab.training.vocabulary import Words, make_tokenizer, names_in
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_json

SETTINGS = "settings.json"
#: Number of nodes whose texts make a tokenizer.
_FOR_THE_TOKENIZER = 20000


def train(data: Sequence[Path], out: Path, settings: TrainSettings, console: Console) -> Path:
    """Train a model from datasets' folders, or resume an interrupted training; return the model's folder."""
    planners = dataset.planners_of(data)
    if settings.parts and len(settings.parts) != len(data):
        raise UserError(
            f"--shares {settings.shares}: {len(settings.parts)} shares for {len(data)} --data; name one for each"
        )
    with _opened(out):
        _check_settings(out, settings, data)
        _prepare(data, out, settings, console)
        with _shown(out, settings) as shown:
            progress = train_in_processes(out, settings, shown)
        write_curves(out, progress.points)
        folder = make_model_folder(out, settings, planners)
    last = progress.points[-1]
    kinds = ", ".join(f"{name[6:]} {value:.3f}" for name, value in last.items() if name.startswith("exact_"))
    tried = f"\nTry it: reactree eval {folder} --data {data[0]}" if not settings.base else ""
    console.print(
        f"{folder}: trained on {progress.tokens:,} tokens in {progress.seconds:.0f} s\n"
        f"decisions on held-out houses equal word for word: {last['exact']:.3f} ({kinds}){tried}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )
    return folder


@contextlib.contextmanager
def _opened(out: Path) -> Iterator[None]:
    """Lock a folder against other trainings."""
    if out.exists() and not out.is_dir():
        raise UserError(f"--out {out}: is a file; name a folder")
    if out.is_dir() and not (out / SETTINGS).exists() and any(one.name != "lock" for one in out.iterdir()):
        raise UserError(f"--out {out}: is not empty and holds no {SETTINGS} of a training; name a new folder")
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"--out {out}: another training is writing there; wait for its end") from error
        yield


def _check_settings(out: Path, settings: TrainSettings, data: Sequence[Path]) -> None:
    """Write the settings of a training; if there are some, check that they are the same."""
    now: dict[str, Any] = {**settings.model_dump(mode="json", exclude={"processes"}), "data": [*map(fingerprint, data)]}
    path = out / SETTINGS
    if not path.exists():
        write_whole(path, f"{json.dumps(now, indent=1)}\n".encode())
        return
    begun = read_json(path, "settings of a training; name another --out", dict)
    for name, value in now.items():
        if begun.get(name) != value:
            was = begun.get(name)
            raise UserError(
                f"--out {out}: was started with {name} {was!r}, not {value!r}; name another --out, or the same"
            )


def fingerprint(data: Path) -> str:
    """Return a dataset's fingerprint: the SHA-256 of its description and of its files' sizes."""
    try:
        sizes = [str((data / name).stat().st_size) for name in (dataset.TRAIN, dataset.HELD_OUT)]
        content = (data / ABOUT).read_bytes()
    except OSError as error:
        raise UserError(f"--data {data}: {error.filename} cannot be read: {error.strerror}") from error
    return hashlib.sha256(content + " ".join(sizes).encode()).hexdigest()


def _prepare(data: Sequence[Path], out: Path, settings: TrainSettings, console: Console) -> None:
    """Make the tokenizer and write the datasets as tokens, unless that is done already."""
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
            _save(prepared, out / name)
        _say(prepared, file, console)


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
    """Return the tokenizer of the starting model, or make one from the beginning of each dataset."""
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


def _save(prepared: Prepared, folder: Path) -> None:
    try:
        prepared.save(folder)
    except OSError as error:
        shutil.rmtree(folder.with_name(f"{folder.name}.unfinished"), ignore_errors=True)
        raise UserError(f"{folder}: cannot be written: {error.strerror or error}; nothing else is lost") from error


def _say(prepared: Prepared, file: str, console: Console) -> None:
    refused = f"; {prepared.refused} are not allowed at their places, and are not learnt" if prepared.refused else ""
    console.print(
        f"{file}: {len(prepared)} nodes, {len(prepared.first)} decisions, {len(prepared.tokens):,} tokens{refused}",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


@contextlib.contextmanager
def _shown(out: Path, settings: TrainSettings) -> Iterator[Any]:
    """Show a training's progress, and write its curves whenever they have grown."""
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
