"""Tasks in world files of pyrobosim: instructions and goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reactree_ros.agent.text import same_words
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import read_yaml
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.plugins.settings import fault_of

#: The key of the task in a world file; pyrobosim itself ignores it.
KEY = "task"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class GoalEntry(_Entry):
    """A number of things of a category, on or in one piece of furniture of another; ``_`` is worded as a space."""

    relation: Literal["on", "inside"]
    item: Annotated[str, Field(min_length=1)]
    target: Annotated[str, Field(min_length=1)]
    count: Annotated[int, Field(ge=1)] = 1


class TaskEntry(_Entry):
    task_id: Annotated[int, Field(ge=0)]
    task_name: str = "instruction"
    nl_instructions: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
    goal: Annotated[list[GoalEntry], Field(min_length=1)]
    house: str = ""


@dataclass(frozen=True)
class Source:
    file: str = ""  # the file; empty takes the document
    document: Mapping[str, Any] = field(default_factory=dict)  # the content of such a file
    #: The content of the files of categories, for ``locations`` and ``objects``.
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def robots(self) -> tuple[str, ...]:
        entries = (_read(Path(self.file)) if self.file else self.document).get("robots") or ()
        if not entries:
            raise UserError(f"{self.file or 'the world'}: has no robot")
        return tuple(str(entry.get("name", f"robot{number}")) for number, entry in enumerate(entries))


@dataclass(frozen=True)
class PyrobosimTask:
    entry: TaskEntry  # instruction and goal
    source: Source  # the world at the start
    seed: int = 0  # seed of its random events
    failures: float = 0.0  # share of failing robot actions; 0 keeps the file's

    @property
    def instruction(self) -> str:
        return self.entry.nl_instructions[0]

    @property
    def task_name(self) -> str:
        return self.entry.task_name

    @property
    def house(self) -> str:
        return self.entry.house

    def asks_for(self, instruction: str) -> bool:
        return any(same_words(instruction, own) for own in self.entry.nl_instructions)

    @property
    def goal(self) -> tuple[GoalCondition, ...]:
        return tuple(
            GoalCondition(one.relation, in_words(one.item), in_words(one.target), one.count) for one in self.entry.goal
        )


def in_words(category: str) -> str:
    """Return a category in words: ``trash can`` for ``trash_can``."""
    return " ".join(category.replace("_", " ").split()) or "thing"


def load_tasks(path: Path) -> dict[int, PyrobosimTask]:
    """Read the tasks of a world file or of a folder, by task id; a world file may have no task."""
    tasks: dict[int, PyrobosimTask] = {}
    for file in _files(path):
        document = _read(file)
        if KEY not in document:
            continue
        try:
            entry = TaskEntry.model_validate(document[KEY])
        except ValidationError as error:
            fault = fault_of(error, TaskEntry)
            where = ".".join(map(str, (KEY, *fault.path)))
            raise UserError(f"{file}: {where}: {fault.said}") from None
        if entry.task_id in tasks:
            raise UserError(f"{file}: {KEY}.task_id: {entry.task_id} is the task of another file, too")
        tasks[entry.task_id] = PyrobosimTask(entry, Source(file=str(file.resolve())))
    return dict(sorted(tasks.items()))


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = sorted(path.glob("task_*.yaml"))
    if not files:
        what = "has no file task_*.yaml" if path.is_dir() else "does not exist"
        raise UserError(
            f"{path}: {what}; name a world file of pyrobosim, or a folder of `reactree lab house --as pyrobosim`"
        )
    return files


def _read(file: Path) -> dict[str, Any]:
    document, _ = read_yaml(file, LOADER)
    if not isinstance(document, dict) or not document.get("rooms"):
        raise UserError(f"{file}: is not a world of pyrobosim: it has no rooms")
    return document


#: Reads YAML, fast if PyYAML was built with libyaml.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
