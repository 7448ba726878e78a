"""Recorded experiences as JSON lines.

One object per experience with ``file`` (what the authors called its text file), ``task_id`` and ``task_name`` (or
``trial``, in ALFRED), ``decision``, ``depth`` and ``text``. What reading the text again would not give (the turns of a
planner whose text is no agent node's transcript) stands beside it: ``subgoal``, ``end`` and ``turns``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from reactree_ros.agent.text import number_of
from reactree_ros.agent.turns import turn_from_dict, turn_to_dict
from reactree_ros.files.read_back import LONGEST_LINE, parse_json
from reactree_ros.files.whole_file import write_whole
from reactree_ros.memory.experience import End, Experience, ExperienceError, one_line, shown

_TRIAL = re.compile(r"(?P<name>[^-]+)-.*_trial_.*", re.DOTALL)


def read_lines(path: Path) -> Iterator[Experience]:
    """Reads a file of JSON lines."""
    with path.open("rb") as file:  # bytes: only b"\n" ends a line, whatever else a text contains
        for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
            if not line.strip():
                continue
            try:
                yield _experience(parse_json(line.decode("utf-8-sig"), halves=True))
            except UnicodeDecodeError as error:
                raise ExperienceError(f"{path}, line {number}: not UTF-8: {one_line(error)}") from error
            except ExperienceError as error:
                where = "" if error.line is None else f"text, line {error.line}: "
                raise ExperienceError(f"{path}, line {number}: {where}{error}") from error
            except ValueError as error:
                raise ExperienceError(f"{path}, line {number}: not JSON: {one_line(error)}") from error


def write_lines(experiences: Iterable[Experience], path: Path) -> int:
    """Writes a file of JSON lines, which appears in one step and replaces what was there; returns their number."""
    lines = []
    for experience in experiences:
        _check_encodable(experience)
        lines.append(json.dumps(_record(experience), ensure_ascii=False) + "\n")
    write_whole(path, "".join(lines))
    return len(lines)


def mapping(value: Any, where: str = "") -> dict[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise ExperienceError(f"{where}{': ' if where else ''}must be an object, not {shown(value)}")
    return value


def _experience(record: Any) -> Experience:
    record = mapping(record)
    if "trial" in record:
        task_id: str = _field(record, "trial", str)
        task_name: str = record["task_name"] if "task_name" in record else _trial_name(task_id) or ""
    else:
        task_id = str(_field(record, "task_id", int, str))
        task_name = _field(record, "task_name", str)
    if not isinstance(task_name, str):
        raise ExperienceError(f"'task_name' must be str, not {shown(task_name)}")
    if not task_id:
        raise ExperienceError("'task_id' is empty")
    text: str = _field(record, "text", str)
    where = {
        "task_id": task_id,
        "task_name": task_name,
        "decision": _field(record, "decision", int),
        "depth": _field(record, "depth", int),
    }
    experience = _with_turns(record, where) if "turns" in record else Experience.from_text(text, **where)
    if experience.text != text:
        raise ExperienceError("'turns' do not give 'text'; leave 'turns' out to have the text read")
    _check_encodable(experience)
    return experience


def _with_turns(record: dict[str, Any], where: dict[str, Any]) -> Experience:
    subgoal, end = _field(record, "subgoal", str), _field(record, "end", str)
    if end not in [one.value for one in End]:
        raise ExperienceError(f"'end' must be one of {', '.join(one.value for one in End)}, not {shown(end)}")
    turns = tuple(turn_from_dict(mapping(turn, "'turns'")) for turn in _field(record, "turns", list))
    return Experience(subgoal=subgoal, turns=turns, end=End(end), **where)


def _record(experience: Experience) -> dict[str, object]:
    """Return one line's object, with the keys in the recordings' order."""
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


def _trial_name(task_id: str) -> str | None:
    """Return the task name that ALFRED's trials carry in them; None if it is no trial."""
    trial = _TRIAL.fullmatch(task_id)
    return trial["name"] if trial else None


def _check_encodable(experience: Experience) -> None:
    try:
        for value in (experience.subgoal, experience.task_id, experience.task_name, experience.text):
            value.encode()
    except UnicodeEncodeError as error:
        raise ExperienceError(f"not writable as UTF-8: {one_line(error)}") from error


def _is_read_from_text(experience: Experience) -> bool:
    """Whether reading the text gives the same again."""
    try:
        read = Experience.from_text(experience.text, task_id="0", task_name="", decision=0, depth=1)
    except ExperienceError:
        return False
    return (read.turns, read.subgoal, read.end) == (experience.turns, experience.subgoal, experience.end)


def _field(record: dict[str, Any], key: str, *types: type) -> Any:
    if key not in record:
        raise ExperienceError(f"{key!r} is missing")
    value = record[key]
    if not isinstance(value, types) or isinstance(value, bool):
        raise ExperienceError(f"{key!r} must be {' or '.join(t.__name__ for t in types)}, not {shown(value)}")
    return value
