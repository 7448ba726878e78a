"""A dataset's folder, written so that a kill at any moment loses only unfinished parts."""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import metadata
from itertools import groupby
from pathlib import Path
from typing import Any, TextIO

from reactree_lab.dataset.making import DatasetPart
from reactree_lab.dataset.settings import ABOUT, HELD_OUT, SCHEMA, TRAIN, Recipe
from reactree_lab.out_folder import check_place, check_same, opened_alone, writing
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LONGEST_LINE, checked, in_a_line, parse_json, read_json
from reactree_ros.files.whole_file import write_whole

_PARTS, _RECIPE, _LOCK = "parts", "recipe.json", "lock"


class DatasetFolder:
    """A dataset's folder, made if it does not exist, and open for writing by this process only.

    Finished parts are kept in ``parts/``. When all of them exist, they become the dataset, and ``dataset.json`` is
    written last.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path, self.recipe = path, recipe
        self._parts = path / _PARTS
        self.finished = self._read(path / ABOUT)  # content of ``dataset.json``; None until it is finished
        known = self.finished or self._read(self._parts / _RECIPE)
        check_place(path, "dataset", begun=known is not None, leftovers=(_PARTS,))
        now = recipe.as_dict()
        if known is not None:
            check_same(path, {name: known.get(name) for name in now}, now)
        with writing(path):
            self._parts.mkdir(parents=True, exist_ok=True)
            self._lock = opened_alone(path, self._parts / _LOCK)
            if known is None:
                _write(self._parts / _RECIPE, now)

    def close(self) -> None:
        self._lock.close()
        if self.finished is not None:
            shutil.rmtree(self._parts, ignore_errors=True)

    def has(self, number: int) -> bool:
        return self._part(number).exists()

    def keep(self, number: int, part: DatasetPart) -> None:
        head = {"runs": part.runs, "left_out": part.left_out, "houses": sorted(part.houses)}
        text = "".join(f"{line}\n" for line in (json.dumps(head), *part.lines))
        with writing(self.path):
            write_whole(self._part(number), gzip.compress(text.encode("ascii"), 3, mtime=0))

    def finish(self, parts: int) -> None:
        heads = [self._head(number) for number in range(parts)]
        runs, left_out = (sum(head[name] for head in heads) for name in ("runs", "left_out"))
        houses = {house for head in heads for house in head["houses"]}
        if not houses:
            shutil.rmtree(self._parts)
            raise UserError(f"--out {self.path}: {_nothing(runs, left_out)}")
        held_out = those_held_out(houses, self.recipe.settings.held_out)
        with writing(self.path), _Files(self.path, self.recipe, held_out) as files:
            for number in range(parts):
                lines = self._lines(number)
                next(lines)
                for node in _nodes(lines):
                    files.take(node)
            if not files.learnt:
                raise UserError(f"--out {self.path}: {_nothing(runs, left_out)}")
            counts = {"runs": runs, "left_out": left_out, **files.counts()}
            about = {"schema": SCHEMA, **self.recipe.as_dict(), "counts": counts, "versions": _versions()}
            files.close()
            _write(self.path / ABOUT, about)
        self.finished = about

    def _head(self, number: int) -> dict[str, Any]:
        try:
            head: dict[str, Any] = checked(dict[str, int | list[str]], parse_json(next(self._lines(number), "")))
            return {name: head[name] for name in ("runs", "left_out", "houses")}
        except (ValueError, KeyError) as error:
            raise self._broken(number, error) from None

    def _lines(self, number: int) -> Iterator[str]:
        try:
            with gzip.open(self._part(number), "rt", encoding="ascii") as part:
                while line := part.readline(LONGEST_LINE):
                    yield line
        except (OSError, EOFError, zlib.error, ValueError) as error:
            raise self._broken(number, error) from None

    def _broken(self, number: int, error: Exception) -> UserError:
        return UserError(f"{self._part(number)}: is broken: {in_a_line(error)}; remove it to have it made again")

    def _part(self, number: int) -> Path:
        return self._parts / f"{number:06d}.jsonl.gz"

    def _read(self, path: Path) -> dict[str, Any] | None:
        if not path.exists():
            return None
        values: Any = read_json(path, "description of a dataset; name a new folder")
        return values if isinstance(values, dict) else {}


class _Files(ExitStack):
    def __init__(self, path: Path, recipe: Recipe, held_out: Collection[str]) -> None:
        super().__init__()
        self.learnt = 0
        self._layout, self._held_out = recipe.settings.format, held_out
        self._seen: set[bytes] = set()
        self._counts: Counter[str] = Counter()
        self._kinds: Counter[str] = Counter()
        self._houses: dict[str, set[str]] = {TRAIN: set(), HELD_OUT: set()}
        self._tasks: set[tuple[str, str]] = set()
        layouts = ["", f".{recipe.settings.format}"] if recipe.settings.format != "plain" else [""]
        self._files: dict[str, TextIO] = {
            f"{name}{layout}": self.enter_context((path / f"{name}{layout}.jsonl").open("w", encoding="ascii"))
            for name in (TRAIN, HELD_OUT)
            for layout in layouts
        }

    def take(self, lines: Sequence[dict[str, Any]]) -> None:
        keys = {_key(line) for line in lines if line["learn"]}
        if keys <= self._seen:
            self._counts["duplicate_nodes"] += 1
            return
        self._seen |= keys
        house = lines[0]["house"]
        name = HELD_OUT if house in self._held_out else TRAIN
        self._houses[name].add(house)
        self._tasks.add((house, lines[0]["task"]))
        self._counts[f"{name}_nodes"] += 1
        for line in lines:
            self._counts[f"{name}_decisions"] += 1
            self._counts[f"{name}_learnt"] += line["learn"]
            self._kinds[line["kind"]] += line["learn"]
            self.learnt += line["learn"]
            other = line.pop("format", None)
            self._files[name].write(f"{json.dumps(line)}\n")
            if other is not None and line["learn"]:
                self._files[f"{name}.{self._layout}"].write(f"{json.dumps(other)}\n")

    def counts(self) -> dict[str, Any]:
        houses = {f"{name}_houses": len(found) for name, found in self._houses.items()}
        return {**houses, "tasks": len(self._tasks), **dict(sorted(self._counts.items())), "kinds": dict(self._kinds)}


def those_held_out(houses: Collection[str], share: float) -> set[str]:
    """Return the held-out houses. Each is chosen independently of others, so that it is held out in every dataset.

    If none of several would be held out, one is.
    """
    places = {house: int.from_bytes(hashlib.sha256(house.encode()).digest()[:6], "big") / 2**48 for house in houses}
    chosen = {house for house, place in places.items() if place < share}
    return chosen or ({min(houses, key=places.__getitem__)} if share and len(houses) > 1 else set())


def _nodes(part: Iterable[str]) -> Iterator[list[dict[str, Any]]]:
    lines: Iterator[dict[str, Any]] = map(json.loads, part)
    for _, node in groupby(lines, key=lambda line: (line["house"], line["task"], line["node"])):
        yield list(node)


def _key(line: Mapping[str, Any]) -> bytes:
    return hashlib.blake2b(f"{line['prompt']}\0{line['completion']}".encode(), digest_size=12).digest()


def _nothing(runs: int, left_out: int) -> str:
    if left_out:
        return (
            f"there is nothing to learn from: {left_out} of {runs} runs did not reach their goal; --all-runs "
            "includes such recorded runs"
        )
    return f"there is nothing to learn from: these {runs} runs made no decision"


def _write(path: Path, values: Mapping[str, Any]) -> None:
    write_whole(path, f"{json.dumps(values, indent=1)}\n".encode())


def _versions() -> dict[str, str]:
    try:
        own = metadata.version("reactree_ros")
    except metadata.PackageNotFoundError:  # run from its source
        own = ""
    return {"python": platform.python_version(), "reactree_ros": own}


def make_dataset(
    folder: DatasetFolder, parts: int, made: Iterator[tuple[int, DatasetPart]], *, advance: Callable[[float], None]
) -> None:
    """Store parts as they come, then make the dataset from them."""
    done = sum(map(folder.has, range(parts)))
    for number, part in made:
        folder.keep(number, part)
        done += 1
        advance(done / parts)
    folder.finish(parts)
