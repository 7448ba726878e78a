"""Recorded experiences: files of JSON lines and folders of text files, read and written without changing a byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import bytes_of, parse_json
from reactree_ros.memory.experience import Experience, ExperienceError, one_line, shown
from reactree_ros.memory.recorded_folder import read_folder, write_folder
from reactree_ros.memory.recorded_lines import mapping, read_lines, write_lines


@dataclass(frozen=True)
class Imported:
    """What `import_experiences` read.

    Attributes:
        runs: The runs that count, each with its experiences in the order of the file.
        runs_left_out: How many runs were left out because they did not reach their goal.
    """

    runs: tuple[tuple[Experience, ...], ...]
    runs_left_out: int

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """All experiences that count, run after run."""
        return tuple(experience for run in self.runs for experience in run)


def import_experiences(path: str | Path, *, succeeded: Callable[[str], bool] | None = None) -> Imported:
    """Reads recorded experiences from a file of JSON lines or from a folder of text files.

    The experiences of one task id are one run. Every experience is checked, also those that are left out. In a folder
    only what is called ``*.txt`` is read.

    Args:
        path: The file or the folder.
        succeeded: Says of a task id whether its run reached the goal; runs that did not are left out, because episodic
            memory holds successful runs only. None for recordings that hold nothing else: then every run counts.

    Raises:
        ExperienceError: with the file, the line and what is wrong there.
    """
    path = Path(path)
    try:
        experiences = list(read_folder(path) if path.is_dir() else read_lines(path))
    except OSError as error:
        raise ExperienceError(f"{path}: cannot be read: {error.strerror}") from error
    if not experiences:
        raise ExperienceError(f"{path}: no experiences in it ({'no *.txt files' if path.is_dir() else 'no lines'})")
    runs: dict[str, list[Experience]] = {}
    for experience in experiences:
        runs.setdefault(experience.task_id, []).append(experience)
    taken = [tuple(run) for task_id, run in runs.items() if succeeded is None or succeeded(task_id)]
    return Imported(
        runs=tuple(taken),
        runs_left_out=len(runs) - len(taken),
    )


def export_experiences(experiences: Iterable[Experience], path: str | Path, *, flat: bool = False) -> int:
    """Writes experiences as the recordings are written; returns their number.

    Args:
        experiences: What to write, in this order.
        path: With the ending ``.jsonl``: a file of JSON lines, replaced if it exists. Otherwise: a folder of text
            files, which must be empty or not exist yet. Either appears in one step, complete.
        flat: Names files without decision and depth, as the ReAct recordings do.

    Raises:
        ExperienceError: the folder is not empty, or an experience cannot be written so that it reads back the same.
        OSError: writing failed.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        return write_lines(experiences, path, flat=flat)
    return write_folder(experiences, path, flat=flat)


def recorded_success(path: str | Path, *, variant: str) -> Callable[[str], bool]:
    """Reads ``recorded_outcomes.json`` (task id -> variant -> bool) for `import_experiences`.

    Args:
        path: The file.
        variant: ``react``, ``react_wm``, ``reactree`` or ``reactree_wm``.

    Returns:
        Says of a task id whether that variant's run was kept as a success; for a task that the file does not name it
        raises `ExperienceError`.

    Raises:
        ExperienceError: the file is not such a file.
    """
    try:
        document = parse_json(bytes_of(Path(path)))
    except UserError as error:
        raise ExperienceError(str(error)) from error
    except ValueError as error:
        raise ExperienceError(f"{path}: not JSON: {one_line(error)}") from error
    outcomes: dict[str, bool] = {}
    for task_id, variants in mapping(document, f"{path}").items():
        outcome = mapping(variants, f"{path}, task {task_id!r}").get(variant)
        if not isinstance(outcome, bool):
            raise ExperienceError(f"{path}, task {task_id!r}: {variant!r} must be true or false, not {shown(outcome)}")
        outcomes[task_id] = outcome

    def succeeded(task_id: str) -> bool:
        if task_id not in outcomes:
            raise ExperienceError(f"{path}: says nothing of task {task_id!r}")
        return outcomes[task_id]

    return succeeded
