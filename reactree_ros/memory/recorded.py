"""Recorded experiences: files of JSON lines, read and written without changing a byte of their texts.

One object per experience with ``file`` (what the authors called its text file), ``task_id`` and ``task_name`` (or
``trial``, in ALFRED), ``decision``, ``depth`` and ``text``. What reading the text again would not give (the turns of a
planner whose text is not an agent node's transcript) stands beside it: ``subgoal``, ``end`` and ``turns``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactree_ros.agent.text import number_of
from reactree_ros.agent.turns import turn_from_dict, turn_to_dict
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import LONGEST_LINE, bytes_of, in_a_line, parse_json
from reactree_ros.files.whole_file import write_whole
from reactree_ros.memory.experience import End, Experience, ExperienceError, quoted

_TRIAL = re.compile(r"([^-]+)-.*_trial_.*", re.DOTALL)


@dataclass(frozen=True)
class Imported:
    runs: tuple[tuple[Experience, ...], ...]  # the runs that count, each with its experiences in the order of the file
    runs_left_out: int  # how many runs were left out because they did not reach their goal

    @property
    def experiences(self) -> tuple[Experience, ...]:
        return tuple(experience for run in self.runs for experience in run)


def import_experiences(path: str | Path, *, succeeded: Callable[[str], bool] | None = None) -> Imported:
    """Read recorded experiences from a file of JSON lines; those of one task id are one run.

    Runs that did not succeed are left out, because episodic memory holds successful runs only; they are checked, too.
    An ExperienceError names file and line.
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

    The file, which must end in ``.jsonl``, appears in one step, complete, and replaces what was there.
    """
    path = Path(path)
    if path.suffix != ".jsonl":
        raise ExperienceError(f"{path}: experiences are written as JSON lines; name a file that ends in .jsonl")
    lines = [json.dumps(_record(one), ensure_ascii=False) + "\n" for one in experiences]
    write_whole(path, "".join(lines))
    return len(lines)


def recorded_success(path: str | Path, *, variant: str) -> Callable[[str], bool]:
    """Read ``recorded_outcomes.json`` (task id -> variant -> bool) for :func:`import_experiences`."""
    try:
        document = parse_json(bytes_of(Path(path)))
    except UserError as error:
        raise ExperienceError(str(error)) from error
    except ValueError as error:
        raise ExperienceError(f"{path}: not JSON: {in_a_line(error)}") from error
    outcomes: dict[str, bool] = {}
    for task_id, variants in _mapping(document, f"{path}: ").items():
        outcome = _mapping(variants, f"{path}, task {task_id!r}: ").get(variant)
        if not isinstance(outcome, bool):
            raise ExperienceError(f"{path}, task {task_id!r}: {variant!r} must be true or false, not {quoted(outcome)}")
        outcomes[task_id] = outcome

    def succeeded(task_id: str) -> bool:
        if task_id not in outcomes:
            raise ExperienceError(f"{path}: says nothing of task {task_id!r}")
        return outcomes[task_id]

    return succeeded


def read_lines(path: Path) -> Iterator[Experience]:
    with path.open("rb") as file:  # bytes: only b"\n" ends a line, whatever else a text contains
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if not line.strip():
                continue
            try:
                yield _experience(parse_json(line.decode("utf-8-sig"), halves=True))
            except ExperienceError as error:
                within = "" if error.line is None else f"text, line {error.line}: "
                raise ExperienceError(f"{path}, line {number}: {within}{error}") from error
            except ValueError as error:
                form = "UTF-8" if isinstance(error, UnicodeDecodeError) else "JSON"
                raise ExperienceError(f"{path}, line {number}: not {form}: {in_a_line(error)}") from error


def _experience(record: Any) -> Experience:
    record = _mapping(record)
    if "trial" in record:
        task_id: str = _field(record, "trial", str)
        task_name: str = _field({"task_name": _trial_name(task_id) or ""} | record, "task_name", str)
    else:
        task_id = str(_field(record, "task_id", int, str))
        task_name = _field(record, "task_name", str)
    if not task_id:
        raise ExperienceError("'task_id' is empty")
    text: str = _field(record, "text", str)
    numbers = {name: _field(record, name, int) for name in ("decision", "depth")}
    if "turns" not in record:
        experience = Experience.from_text(text, task_id=task_id, task_name=task_name, **numbers)
    else:
        subgoal, end = _field(record, "subgoal", str), _field(record, "end", str)
        if end not in [one.value for one in End]:
            raise ExperienceError(f"'end' must be one of {', '.join(one.value for one in End)}, not {quoted(end)}")
        turns = tuple(turn_from_dict(_mapping(turn, "'turns': ")) for turn in _field(record, "turns", list))
        experience = Experience(subgoal, turns, End(end), task_id, task_name, **numbers)
    if experience.text != text:
        raise ExperienceError("'turns' do not give 'text'; leave 'turns' out to have the text read")
    _check_encodable(experience)
    return experience


def _record(experience: Experience) -> dict[str, object]:
    # one line's object, with the keys in the recordings' order
    _check_encodable(experience)
    task_id = experience.task_id
    is_trial = _trial_name(task_id) == experience.task_name
    stem = task_id if is_trial else f"{task_id}_{experience.task_name}"
    record: dict[str, object] = {"file": f"{stem}_dec{experience.decision:03d}_depth{experience.depth:02d}.txt"}
    if is_trial:
        record["trial"] = task_id
    else:
        number = number_of(task_id)
        record["task_id"] = number if number is not None and str(number) == task_id else task_id
        record["task_name"] = experience.task_name
    record.update(decision=experience.decision, depth=experience.depth, text=experience.text)
    if not _is_read_from_text(experience):
        turns = [turn_to_dict(turn) for turn in experience.turns]
        record.update(subgoal=experience.subgoal, end=experience.end.value, turns=turns)
    return record


def _is_read_from_text(experience: Experience) -> bool:
    with suppress(ExperienceError):
        read = Experience.from_text(experience.text, task_id="0", task_name="", decision=0, depth=1)
        return (read.turns, read.subgoal, read.end) == (experience.turns, experience.subgoal, experience.end)
    return False


def _trial_name(task_id: str) -> str | None:
    # the task name that ALFRED's trials carry in them
    trial = _TRIAL.fullmatch(task_id)
    return trial[1] if trial else None


def _check_encodable(experience: Experience) -> None:
    try:
        for value in (experience.subgoal, experience.task_id, experience.task_name, experience.text):
            value.encode()
    except UnicodeEncodeError as error:
        raise ExperienceError(f"not writable as UTF-8: {in_a_line(error)}") from error


def _mapping(value: Any, where: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ExperienceError(f"{where}must be an object, not {quoted(value)}")
    return value


def _field(record: dict[str, Any], key: str, *types: type) -> Any:
    if key not in record:
        raise ExperienceError(f"{key!r} is missing")
    value = record[key]
    if not isinstance(value, types) or isinstance(value, bool):
        raise ExperienceError(f"{key!r} must be {' or '.join(t.__name__ for t in types)}, not {quoted(value)}")
    return value
