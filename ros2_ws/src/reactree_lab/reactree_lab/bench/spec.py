"""The registry's entry of a task suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_lab.bench.published import Published
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.plugins import Registry, Spec
from reactree_ros.world.port import World
from reactree_ros.world.spec import Task


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Spec):
    """A task suite.

    Attributes:
        tasks: Returns its tasks by task id, from the settings; :class:`~reactree_ros.world.spec.TasksOnDemand` if there
            may be many.
        make_world: Makes the world for one of its tasks.
        goal: Returns how far a task's goal is reached in its world, by condition, for the report's failure causes; None
            if the suite cannot tell.
        conditions: Returns a task's goal conditions for a simulated person; None if the suite cannot tell.
        ssr: The SSR's name in its papers, e.g. ``progress rate``; empty if it is the same.
        published: Published figures for its tasks.
        flags: Settings that are command-line options of their own; the others are given as ``--suite-option
            NAME=VALUE``.
    """

    tasks: Callable[[Any], Mapping[int, Task]]
    make_world: Callable[[Any], World]
    goal: Callable[[Any, Any], Any] | None = None
    conditions: Callable[[Any], Sequence[GoalCondition]] | None = None
    ssr: str = ""
    published: tuple[Published, ...] = ()
    flags: tuple[str, ...] = ()


SUITES: Registry[SuiteSpec] = Registry(
    "task suite", "reactree_ros.suites", SuiteSpec, first=("wah_nl", "generated", "vague")
)
