"""Experiences: what one agent node said, saw and came to (paper, section 4.2), and the files they are recorded in.

Two kinds of files hold recorded experiences, and both are read and written without changing a byte of a text:

- JSON lines: one object per experience with ``file``, ``task_id`` and ``task_name`` (or ``trial``, in ALFRED),
  ``decision``, ``depth`` and ``text``;
- a folder of text files, named ``<task_id>_<task_name>_dec012_depth05.txt`` or, where a run has one agent node only
  (ReAct), ``<task_id>_<task_name>.txt``. Where a name is taken, 14 digits follow it (a time stamp in the recordings,
  a counter in what is written here).
"""

from __future__ import annotations

import enum
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactree_ros.errors import UserError

TASK_LINE = "Your task is to: "
START_LINE = "You are in the house"

_TASK = re.compile(rf"^{TASK_LINE}", re.MULTILINE)
_TRIAL = re.compile(r"(?P<name>[^-]+)-.*_trial_.*", re.DOTALL)
_FILE_NAME = re.compile(
    r"(?P<task>.+?)(?:_dec(?P<decision>\d{3,9})_depth(?P<depth>\d{2,9}))?(?:_(?P<stamp>\d{14}))?\.txt", re.DOTALL
)
_LARGEST = 10**9


class ExperienceError(UserError, ValueError):
    """A recorded experience, or a file of them, is not what it must be; the message is one line.

    Attributes:
        line: Number of the line in question within the experience's text (from 1), where that is known.
    """

    def __init__(self, problem: str, *, line: int | None = None) -> None:
        super().__init__(problem)
        self.line = line


class End(enum.Enum):
    """How an agent node ended (paper, section 4.2: the termination state)."""

    SUCCESS = "success"
    FAILURE = "failure"
    EXPAND = "expand"


_LAST_LINES = {
    "Act: done": End.SUCCESS,
    "Act: failure": End.FAILURE,
    "Max steps": End.FAILURE,
    "Max decisions": End.FAILURE,
}


@dataclass(frozen=True)
class Experience:
    """One agent node's whole text with its subgoal and its end.

    Attributes:
        subgoal: The node's natural-language goal; several lines where an instruction has several.
        text: The node's text exactly as in the recorded files, from the first line of its header to its last decision.
        end: How the node ended.
        task_id: The task that the run was about; ALFRED's trial name, elsewhere usually a number.
        task_name: The task's type, e.g. ``put_fridge``.
        decision: The run's decision count when the node started.
        depth: The node's depth in the tree; the root is 1.

    Raises:
        ExperienceError: subgoal or text are empty, or a number is out of range.
    """

    subgoal: str
    text: str
    end: End
    task_id: str
    task_name: str
    decision: int
    depth: int

    def __post_init__(self) -> None:
        if not self.text:
            raise ExperienceError("text is empty")
        if not self.subgoal.strip():
            raise ExperienceError(f"subgoal is empty: {self.subgoal!r}")
        if not 0 <= self.decision < _LARGEST:
            raise ExperienceError(f"decision must be from 0 to {_LARGEST - 1}, not {self.decision}")
        if not 1 <= self.depth < _LARGEST:
            raise ExperienceError(f"depth must be from 1 to {_LARGEST - 1}, not {self.depth}")

    @classmethod
    def from_text(cls, text: str, *, task_id: str, task_name: str, decision: int, depth: int) -> Experience:
        """Reads subgoal and end from an agent node's text.

        Raises:
            ExperienceError: the text has no task line, no starting observation, or no end.
        """
        return cls(
            subgoal=subgoal_of(text),
            text=text,
            end=end_of(text),
            task_id=task_id,
            task_name=task_name,
            decision=decision,
            depth=depth,
        )


def subgoal_of(text: str) -> str:
    """The subgoal of an agent node's text: what stands between ``Your task is to: `` and the starting observation.

    Raises:
        ExperienceError: there is no task line, no starting observation after it, or nothing between them.
    """
    if not text.strip():
        raise ExperienceError("text is empty", line=1)
    plain = text.replace("\r\n", "\n")
    task = _TASK.search(plain)
    if task is None:
        raise ExperienceError(f"no task line (a line that starts with {TASK_LINE!r})", line=1)
    line = plain.count("\n", 0, task.start()) + 1
    start = plain.find(f"\n{START_LINE}", task.end())
    if start < 0:
        raise ExperienceError(f"no starting observation (a line that starts with {START_LINE!r})", line=line)
    subgoal = plain[task.end() : start]
    if not subgoal.strip():
        raise ExperienceError(f"nothing follows {TASK_LINE!r}", line=line)
    return subgoal


def end_of(text: str) -> End:
    """How the agent node with this text ended, read from its last line, or its last three for an expansion.

    Raises:
        ExperienceError: the text does not end in a way that an agent node ends.
    """
    lines = text.replace("\r\n", "\n").rstrip().split("\n")
    end = _LAST_LINES.get(lines[-1])
    if end is not None:
        return end
    *_, opening, control_flow, subgoals = ["", "", *lines]
    if opening == "Expand:" and control_flow.startswith("- control flow: ") and subgoals.startswith("- subgoals: "):
        return End.EXPAND
    known = ", ".join(repr(line) for line in _LAST_LINES)
    raise ExperienceError(
        f"no end: the last line is {_shown(lines[-1])}, which is none of {known} and no three-line Expand",
        line=len(lines),
    )


@dataclass(frozen=True)
class Imported:
    """What `import_experiences` read.

    Attributes:
        runs: The runs that count, each with its experiences in the order of the file.
        runs_left_out: How many runs were left out because they did not reach their goal.
        experiences_left_out: How many experiences those runs had.
    """

    runs: tuple[tuple[Experience, ...], ...]
    runs_left_out: int
    experiences_left_out: int

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
        experiences = list(_from_folder(path) if path.is_dir() else _from_json_lines(path))
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
        experiences_left_out=len(experiences) - sum(map(len, taken)),
    )


def export_experiences(experiences: Iterable[Experience], path: str | Path, *, flat: bool = False) -> int:
    """Writes experiences as the recordings are written.

    Args:
        experiences: What to write, in this order.
        path: With the ending ``.jsonl``: a file of JSON lines, replaced if it exists. Otherwise: a folder of text
            files, which must be empty or not exist yet. Either appears in one step, complete.
        flat: Names files without decision and depth, as the ReAct recordings do.

    Returns:
        The number of experiences written.

    Raises:
        ExperienceError: the folder is not empty, or an experience cannot be written so that it reads back the same.
        OSError: writing failed.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        return _to_json_lines(experiences, path, flat=flat)
    return _to_folder(experiences, path, flat=flat)


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
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise ExperienceError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ExperienceError(f"{path}: not JSON: {_one_line(error)}") from error
    outcomes: dict[str, bool] = {}
    for task_id, variants in _mapping(document, f"{path}").items():
        outcome = _mapping(variants, f"{path}, task {task_id!r}").get(variant)
        if not isinstance(outcome, bool):
            raise ExperienceError(f"{path}, task {task_id!r}: {variant!r} must be true or false, not {_shown(outcome)}")
        outcomes[task_id] = outcome

    def succeeded(task_id: str) -> bool:
        if task_id not in outcomes:
            raise ExperienceError(f"{path}: says nothing of task {task_id!r}")
        return outcomes[task_id]

    return succeeded


def _from_json_lines(path: Path) -> Iterator[Experience]:
    with path.open("rb") as file:  # bytes: only b"\n" ends a line, whatever else a text contains
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _from_record(json.loads(line.decode("utf-8-sig")))
            except UnicodeDecodeError as error:
                raise ExperienceError(f"{path}, line {number}: not UTF-8: {_one_line(error)}") from error
            except json.JSONDecodeError as error:
                raise ExperienceError(f"{path}, line {number}: not JSON: {_one_line(error)}") from error
            except RecursionError as error:
                raise ExperienceError(f"{path}, line {number}: nested too deep") from error
            except ExperienceError as error:
                where = "" if error.line is None else f"text, line {error.line}: "
                raise ExperienceError(f"{path}, line {number}: {where}{error}") from error
            except ValueError as error:  # e.g. a number of more digits than Python converts
                raise ExperienceError(f"{path}, line {number}: {_one_line(error)}") from error


def _from_record(record: Any) -> Experience:
    record = _mapping(record, None)
    if "trial" in record:
        task_id: str = _field(record, "trial", str)
        trial = _TRIAL.fullmatch(task_id)
        task_name: str = record["task_name"] if "task_name" in record else trial["name"] if trial else ""
    else:
        task_id = str(_field(record, "task_id", int, str))
        task_name = _field(record, "task_name", str)
    if not isinstance(task_name, str):
        raise ExperienceError(f"'task_name' must be str, not {_shown(task_name)}")
    if not task_id:
        raise ExperienceError("'task_id' is empty")
    text: str = _field(record, "text", str)
    experience = Experience.from_text(
        text,
        task_id=task_id,
        task_name=task_name,
        decision=_field(record, "decision", int),
        depth=_field(record, "depth", int),
    )
    _encoded(experience)
    return experience


def _from_folder(folder: Path) -> Iterator[Experience]:
    found = []
    for path in folder.glob("*.txt"):
        named = _FILE_NAME.fullmatch(path.name)
        task = None if named is None else _task_of(named["task"])
        if named is None or task is None:
            raise ExperienceError(
                f"{path}: not named <task_id>_<task_name>_dec012_depth05.txt or <task_id>_<task_name>.txt"
            )
        decision, depth = int(named["decision"] or 1), int(named["depth"] or 1)
        task_id = task[0]
        number = int(task_id) if task_id.isdecimal() else _LARGEST
        found.append(((number, task_id, decision, depth, path.name), path, task, decision, depth))
    for _, path, (task_id, task_name), decision, depth in sorted(found):
        try:
            text = path.read_bytes().decode("utf-8")
            yield Experience.from_text(text, task_id=task_id, task_name=task_name, decision=decision, depth=depth)
        except UnicodeDecodeError as error:
            raise ExperienceError(f"{path}: not UTF-8: {_one_line(error)}") from error
        except ExperienceError as error:
            raise ExperienceError(f"{path}, line {error.line or 1}: {error}") from error


def _to_json_lines(experiences: Iterable[Experience], path: Path, *, flat: bool) -> int:
    count = 0
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with new.open("wb") as file:
            for experience in experiences:
                _encoded(experience)
                line = json.dumps(_record(experience, flat=flat), ensure_ascii=False)
                file.write(line.encode() + b"\n")
                count += 1
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)
    return count


def _to_folder(experiences: Iterable[Experience], path: Path, *, flat: bool) -> int:
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
            name = _file_name(experience, flat=flat)
            written[name] = times = written.get(name, 0) + 1
            if times > 1:
                name = f"{name.removesuffix('.txt')}_{times:014d}.txt"
            (new / name).write_bytes(_encoded(experience))
        new.chmod(0o777 & ~_umask())
        os.replace(new, path)
    except BaseException:
        shutil.rmtree(new)
        raise
    return sum(written.values())


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _record(experience: Experience, *, flat: bool) -> dict[str, object]:
    """One line's object, with the keys in the recordings' order."""
    task_id, record = experience.task_id, dict[str, object](file=_file_name(experience, flat=flat, guard=False))
    if _is_trial(experience):
        record["trial"] = task_id
    else:
        number = task_id.isascii() and task_id.isdecimal() and str(int(task_id)) == task_id
        record.update(task_id=int(task_id) if number else task_id, task_name=experience.task_name)
    record.update(decision=experience.decision, depth=experience.depth, text=experience.text)
    return record


def _is_trial(experience: Experience) -> bool:
    trial = _TRIAL.fullmatch(experience.task_id)
    return trial is not None and trial["name"] == experience.task_name


def _file_name(experience: Experience, *, flat: bool, guard: bool = True) -> str:
    """The file name of an experience; with `guard`, one that says the same when it is read back."""
    stem = experience.task_id if _is_trial(experience) else f"{experience.task_id}_{experience.task_name}"
    name = f"{stem}.txt" if flat else f"{stem}_dec{experience.decision:03d}_depth{experience.depth:02d}.txt"
    if guard:
        named = _FILE_NAME.fullmatch(name)
        if (
            named is None
            or re.search(r"[/\\\0]", name)
            or named["stamp"] is not None
            or _task_of(named["task"]) != (experience.task_id, experience.task_name)
            or (int(named["decision"] or 1), int(named["depth"] or 1)) != (experience.decision, experience.depth)
        ):
            raise ExperienceError(f"{name!r} is no file name that reads back the same: export to a .jsonl file instead")
    return name


def _task_of(stem: str) -> tuple[str, str] | None:
    """Task id and task name from a file name's first part, or None where it has none."""
    trial = _TRIAL.fullmatch(stem)
    if trial is not None:
        return stem, trial["name"]
    task_id, _, task_name = stem.partition("_")
    return (task_id, task_name) if task_id and task_name else None


def _encoded(experience: Experience) -> bytes:
    try:
        for value in (experience.subgoal, experience.task_id, experience.task_name):
            value.encode()
        return experience.text.encode()
    except UnicodeEncodeError as error:
        raise ExperienceError(f"not writable as UTF-8: {_one_line(error)}") from error


def _field(record: dict[str, Any], key: str, *types: type) -> Any:
    if key not in record:
        raise ExperienceError(f"{key!r} is missing")
    value = record[key]
    if not isinstance(value, types) or isinstance(value, bool):
        raise ExperienceError(f"{key!r} must be {' or '.join(t.__name__ for t in types)}, not {_shown(value)}")
    return value


def _mapping(value: Any, where: str | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ExperienceError(f"{where + ': ' if where else ''}must be an object, not {_shown(value)}")
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
