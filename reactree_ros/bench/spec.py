"""What a task suite is to the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from reactree_ros.registry import Spec
from reactree_ros.world.port import World
from reactree_ros.world.spec import Task

T = TypeVar("T", bound=Task)


class TasksOnDemand(Mapping[int, T]):
    """Tasks that are made when they are asked for, so that any number of them takes neither time nor memory.

    Args:
        ids: Their ids, in order.
        make: Makes the task of an id.
    """

    def __init__(self, ids: Iterable[int], make: Callable[[int], T]) -> None:
        self._ids = dict.fromkeys(ids)
        self._make = make

    def __getitem__(self, task_id: int) -> T:
        """Make a task."""
        if task_id not in self._ids:
            raise KeyError(task_id)
        return self._make(task_id)

    def __iter__(self) -> Iterator[int]:
        """Yield the ids."""
        return iter(self._ids)

    def __len__(self) -> int:
        """Count the tasks."""
        return len(self._ids)


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Spec):
    """A task suite.

    Attributes:
        tasks: Returns its tasks by task id, as the settings say; where there may be many, :class:`TasksOnDemand`.
        make_world: Makes the world for one of its tasks.
        goal: Says how far the goal of a task is reached in its world, condition by condition, for the failure causes of
            the report; None where the suite cannot.
        flags: Names of settings that are options of their own on the command line; the others are given as
            ``--suite-option NAME=VALUE``.
    """

    tasks: Callable[[Any], Mapping[int, Task]]
    make_world: Callable[[Any], World]
    goal: Callable[[Any, Any], Any] | None = None
    flags: tuple[str, ...] = ()
