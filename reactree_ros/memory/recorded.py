"""Recorded experiences: files of JSON lines, read and written without changing a byte of their texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import bytes_of, parse_json
from reactree_ros.memory.experience import Experience, ExperienceError, one_line, shown
from reactree_ros.memory.recorded_lines import mapping, read_lines, write_lines


@dataclass(frozen=True)
class Imported:
    """What `import_experiences` read."""

    runs: tuple[tuple[Experience, ...], ...]  # the runs that count, each with its experiences in the order of the file
    runs_left_out: int  # how many runs were left out because they did not reach their goal

    @property
    def experiences(self) -> tuple[Experience, ...]:
        """All experiences that count, run after run."""
        return tuple(experience for run in self.runs for experience in run)


def import_experiences(path: str | Path, *, succeeded: Callable[[str], bool] | None = None) -> Imported:
    """Read recorded experiences from a file of JSON lines.

    The experiences of one task id are one run. Every experience is checked, also those that are left out.

    Args:
        path: The file.
        succeeded: Says of a task id whether its run reached the goal; runs that did not are left out, because episodic
            memory holds successful runs only. None for recordings that hold nothing else: then every run counts.

    Raises:
        ExperienceError: with the file, the line and what is wrong there.
    """
    path = Path(path)
    runs: dict[str, list[Experience]] = {}
    try:
        for experience in read_lines(path):
            runs.setdefault(experience.task_id, []).append(experience)
    except OSError as error:
        raise ExperienceError(f"{path}: cannot be read: {error.strerror}") from error
    if not runs:
        raise ExperienceError(f"{path}: no experiences in it (no lines)")
    taken = [tuple(run) for task_id, run in runs.items() if succeeded is None or succeeded(task_id)]
    return Imported(runs=tuple(taken), runs_left_out=len(runs) - len(taken))


def export_experiences(experiences: Iterable[Experience], path: str | Path) -> int:
    """Write experiences as the recordings are written; return their number.

    Args:
        experiences: What to write, in this order.
        path: A file that ends in ``.jsonl``, replaced if it exists. It appears in one step, complete.

    Raises:
        ExperienceError: the file is called otherwise, or an experience is not writable as UTF-8.
        OSError: writing failed.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise ExperienceError(f"{path}: experiences are written as JSON lines; name a file that ends in .jsonl")
    return write_lines(experiences, path)


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
