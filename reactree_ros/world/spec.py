"""What a world is to the registry: how it loads its tasks and makes itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

from pydantic import Field

from reactree_ros.agent.picture import PictureCheck
from reactree_ros.agent.text import same_words
from reactree_ros.errors import UserError
from reactree_ros.plugins import REGISTRIES, Registry, Spec
from reactree_ros.plugins.settings import Settings
from reactree_ros.world.port import Household, World
from reactree_ros.world.tool_servers import with_tools

#: What a robot is called in records; it is not a world that can be made.
ROBOT = "robot"
#: Most tasks that settings make up: a record of somebody else may name any number.
MOST_TASKS = 1_000_000


class Task(Protocol):
    """A task in a world; only the world itself knows more of it.

    It may have ``asks_for(instruction)`` besides, where other words than its own ask for it; see :func:`asks_for`.
    """

    @property
    def instruction(self) -> str:
        """The instruction, in natural language."""

    @property
    def task_name(self) -> str:
        """Type of the task, e.g. ``put_fridge``."""


def asks_for(task: Task, instruction: str) -> bool:
    """Return whether an instruction is one of a task's own, so that its goal is what is asked for."""
    own: Callable[[str], bool] | None = getattr(task, "asks_for", None)
    return same_words(instruction, task.instruction) if own is None else own(instruction)


T = TypeVar("T", bound=Task)


class TasksOnDemand(Mapping[int, T]):
    """Tasks that are made when they are asked for, so that their number takes no time and little memory.

    Raises UserError: there are more than :data:`MOST_TASKS`.

    Args:
        make: Makes the task of an id.
    """

    def __init__(self, ids: Iterable[int], make: Callable[[int], T]) -> None:
        self._ids = dict.fromkeys(islice(ids, MOST_TASKS + 1))
        if len(self._ids) > MOST_TASKS:
            raise UserError(f"that would be more than {MOST_TASKS} tasks; set fewer")
        self._make = make

    @classmethod
    def by_kind(
        cls, kinds: Iterable[str], stride: int, numbers: Mapping[str, Iterable[int]], make: Callable[[str, int], T]
    ) -> TasksOnDemand[T]:
        """Number tasks of several kinds: the number of the kind, from 1, times a stride, and a number within the kind.

        Args:
            stride: More than any number within a kind.
            numbers: The numbers within each kind that is chosen, in order.
            make: Makes the task of a kind that has a number within it.
        """
        known = list(kinds)
        ids = (stride * (known.index(kind) + 1) + number for kind, own in numbers.items() for number in own)
        return cls(ids, lambda one: make(known[one // stride - 1], one % stride))

    def __getitem__(self, task_id: int) -> T:
        if task_id not in self._ids:
            raise KeyError(task_id)
        return self._make(task_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


def in_house(task: object) -> dict[str, str]:
    house = getattr(task, "house", "")
    return {"house": house} if house else {}


class WorldSettings(Settings):
    """What can be set of every world."""

    task_id: int = Field(default=-1, ge=-1, description="which of its tasks, by number; -1: the first that fits")
    mcp: str = Field(default="", description="a YAML file of MCP servers, whose tools are skills of the world, too")

    @property
    def of_many(self) -> bool:
        """Whether the tasks are those of a file of many, so that a person has to say which one is meant."""
        return False


@dataclass(frozen=True, kw_only=True)
class WorldSpec(Spec):
    """A world."""

    #: its settings, a `WorldSettings`; those named in `flags` have an option of their own on the command line, the
    #: others are given as `--world-option NAME=VALUE`
    settings: type[Settings] = WorldSettings
    household: Household  # what its skills, wording, naming and limits are
    #: reads what may be done in it, by task id, e.g. from the task file that the settings name; empty if it has none
    load_tasks: Callable[[Any], Mapping[int, Task]] = lambda settings: {}
    #: makes the world for a task (None if it has none). Where `scored` is False the task's goal is not what is asked
    #: for, and there is no score
    make: Callable[..., World]
    #: returns a task like another one, with its things at other places, by a seed; None: it cannot. If it can, worlds
    #: cost nothing, and a routine is tried out in them before it is kept
    moved: Callable[[Any, int], Task] | None = None
    #: returns settings of which the goal is what needs say, unless they have one; None: only its tasks have goals
    aiming: Callable[[Any, Sequence[Mapping[str, Any]]], WorldSettings] | None = None
    flags: tuple[str, ...] = ()  # names of settings that are options of their own on the command line
    #: how eyes see whether a skill was done that is reported to be, by the skill's name; for runs with eyes
    checks: Mapping[str, PictureCheck] = field(default_factory=dict)
    #: returns what its things are called, a row a group: what they are for, their properties, their words
    words: Callable[[], Iterable[tuple[str, tuple[str, ...], tuple[str, ...]]]] = tuple


WORLDS: Registry[WorldSpec] = Registry(
    "world", "reactree_ros.worlds", WorldSpec, first=("virtualhome", "virtualhome_unity")
)


def check_prompts(household: Household) -> Household:
    """Return a household that a record or a bridge brought, once its prompts come with a registered package.

    To read them imports that package. Raises ValueError: they do not.
    """
    package, _, folder = household.prompts.partition(":")
    sound = all(part.isidentifier() for part in folder.split("/"))
    bring = (REGISTRIES.get(name) for name in ("worlds", "suites") if name in REGISTRIES.names)
    if household.prompts and not (sound and any(package in one.packages for one in bring)):
        raise ValueError(f"prompts {household.prompts[:80]!r}: come with no registered world; install what brings it")
    return household


@dataclass(frozen=True)
class Place:
    """A chosen world: its spec, its settings, and its tasks."""

    spec: WorldSpec
    settings: WorldSettings
    tasks: Mapping[int, Task]

    @classmethod
    def from_settings(cls, spec: WorldSpec, settings: WorldSettings) -> Place:
        spec.check_installed()
        return cls(spec, settings, spec.load_tasks(settings))

    def task(self, task_id: int) -> Task:
        if task_id not in self.tasks:
            near = min(self.tasks, key=lambda one: abs(one - task_id), default=None)
            meant = "" if near is None else f"; the nearest is {near}"
            raise UserError(f"there is no task {task_id} in {self.spec.name}; there are {_listed(self.tasks)}{meant}")
        return self.tasks[task_id]

    def choose(self, instruction: str | None, *, by_number: bool = False) -> tuple[Task | None, int | None]:
        """Choose what is to be done: the task that the settings name, else the first that an instruction asks for.

        Returns the task that the world is made for, and its number. There is no task if the world has none, and no
        number where its goal is not what is asked for: then it says where things are at the start, and no more. Raises
        UserError: the instruction is empty, there is no such task, or nothing says what is to be done.
        """
        if instruction is not None and not instruction.strip():
            raise UserError("the instruction is empty; say what to do, e.g. 'Put 1 apple on the coffee table'")
        if self.settings.task_id != -1:
            return self.task(self.settings.task_id), self.settings.task_id
        if by_number:
            raise UserError(f"which task is it? task_id is one of {_listed(self.tasks)}")
        if not self.tasks and instruction is None:
            raise UserError(f"{self.spec.name} has no task of its own here; say what to do in it")
        for task_id, task in self.tasks.items():
            if instruction is None or asks_for(task, instruction):
                return task, task_id
        return next(iter(self.tasks.values()), None), None

    def make(self, task: Task | None, *, scored: bool = True) -> World:
        """Make the world for a task; None if it has none."""
        return with_tools(lambda: self.spec.make(self.settings, task, scored=scored), self.settings.mcp)

    def without_tools(self) -> Place:
        return replace(self, settings=self.settings.model_copy(update={"mcp": ""}))


def _listed(tasks: Mapping[int, Task], most: int = 20) -> str:
    return ", ".join([*map(str, list(tasks)[:most]), *(["…"] if len(tasks) > most else [])]) or "none"
