"""How the recordings name their files: ``<task_id>_<task_name>_dec012_depth05.txt``, or ``<task_id>_<task_name>.txt``.

The second one is flat: it says nothing of decision and depth, where a run has one agent node only (ReAct). ALFRED's
trial stands for task id and task name. Where a name is taken, 14 digits follow it (a time stamp in the recordings, a
counter in what is written here).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from reactree_ros.memory.experience import Experience, ExperienceError, one_line

_TRIAL = re.compile(r"(?P<name>[^-]+)-.*_trial_.*", re.DOTALL)
_FILE_NAME = re.compile(
    r"(?P<task>.+?)(?:_dec(?P<decision>\d{3,9})_depth(?P<depth>\d{2,9}))?(?:_(?P<stamp>\d{14}))?\.txt", re.DOTALL
)


@dataclass(frozen=True)
class RecordedName:
    """What the name of a recorded file says.

    Attributes:
        task_id: The task, or ALFRED's trial.
        task_name: Type of the task.
        decision: The run's decision count when the node started; 1 in a flat name.
        depth: The node's depth in the tree; 1 in a flat name.
        stamped: Whether the name was taken, so that digits follow it.
    """

    task_id: str
    task_name: str
    decision: int
    depth: int
    stamped: bool


def read_name(name: str) -> RecordedName | None:
    """Reads a file's name; None if it is none of the recordings'."""
    named = _FILE_NAME.fullmatch(name)
    if named is None:
        return None
    task_id = named["task"]
    task_name = trial_name(task_id)
    if task_name is None:
        task_id, _, task_name = task_id.partition("_")
    if not task_id or not task_name:
        return None
    return RecordedName(
        task_id, task_name, int(named["decision"] or 1), int(named["depth"] or 1), named["stamp"] is not None
    )


def trial_name(task_id: str) -> str | None:
    """The task name that ALFRED's trials carry in them; None if it is no trial."""
    trial = _TRIAL.fullmatch(task_id)
    return trial["name"] if trial else None


def is_trial(experience: Experience) -> bool:
    """Whether an experience is of one of ALFRED's trials."""
    return trial_name(experience.task_id) == experience.task_name


def write_name(experience: Experience, *, flat: bool) -> str:
    """The name of an experience's file."""
    stem = experience.task_id if is_trial(experience) else f"{experience.task_id}_{experience.task_name}"
    return f"{stem}.txt" if flat else f"{stem}_dec{experience.decision:03d}_depth{experience.depth:02d}.txt"


def checked_name(experience: Experience, *, flat: bool) -> str:
    """The name of an experience's file, which says the same when it is read back."""
    name = write_name(experience, flat=flat)
    same = RecordedName(experience.task_id, experience.task_name, experience.decision, experience.depth, False)
    if re.search(r"[/\\\0]", name) or read_name(name) != same:
        raise ExperienceError(f"{name!r} is no file name that reads back the same: export to a .jsonl file instead")
    return name


def encoded(experience: Experience) -> bytes:
    """The text of an experience as bytes."""
    try:
        for value in (experience.subgoal, experience.task_id, experience.task_name):
            value.encode()
        return experience.text.encode()
    except UnicodeEncodeError as error:
        raise ExperienceError(f"not writable as UTF-8: {one_line(error)}") from error
