"""Recorded experiences as a folder of text files; see :mod:`reactree_ros.memory.recorded_names` for their names."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from reactree_ros.agent.text import number_of
from reactree_ros.memory.experience import LARGEST, Experience, ExperienceError, one_line
from reactree_ros.memory.recorded_names import RecordedName, checked_name, encoded, read_name


def read_folder(folder: Path) -> Iterator[Experience]:
    """Reads every ``*.txt`` of a folder, in the order of tasks, decisions and depths."""
    found: list[tuple[Path, RecordedName]] = []
    for path in folder.glob("*.txt"):
        named = read_name(path.name)
        if named is None:
            raise ExperienceError(
                f"{path}: not named <task_id>_<task_name>_dec012_depth05.txt or <task_id>_<task_name>.txt"
            )
        found.append((path, named))
    for path, named in sorted(found, key=_place):
        try:
            yield Experience.from_text(
                path.read_bytes().decode("utf-8-sig"),
                task_id=named.task_id,
                task_name=named.task_name,
                decision=named.decision,
                depth=named.depth,
            )
        except UnicodeDecodeError as error:
            raise ExperienceError(f"{path}: not UTF-8: {one_line(error)}") from error
        except ExperienceError as error:
            raise ExperienceError(f"{path}, line {error.line or 1}: {error}") from error


def write_folder(experiences: Iterable[Experience], path: Path, *, flat: bool) -> int:
    """Writes a folder of text files, which appears in one step, complete; returns their number."""
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise ExperienceError(f"{path}: is a file: name a folder, or a file that ends in .jsonl")
    if path.exists() and any(path.iterdir()):
        raise ExperienceError(f"{path}: not empty: name another folder, or a file that ends in .jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        written: dict[str, int] = {}
        for experience in experiences:
            name = checked_name(experience, flat=flat)
            written[name] = times = written.get(name, 0) + 1
            if times > 1:
                name = f"{name.removesuffix('.txt')}_{times:014d}.txt"
            (new / name).write_bytes(encoded(experience))
        new.chmod(0o777 & ~_umask())
        os.replace(new, path)
    except BaseException:
        shutil.rmtree(new)
        raise
    return sum(written.values())


def _place(found: tuple[Path, RecordedName]) -> tuple[int, str, int, int, str]:
    path, named = found
    number = number_of(named.task_id)
    return LARGEST if number is None else number, named.task_id, named.decision, named.depth, path.name


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current
