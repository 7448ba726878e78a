"""What a task suite is to the registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_ros.household.tasks import GoalCondition
from reactree_ros.lab.bench.published import Published
from reactree_ros.plugins import Registry, Spec
from reactree_ros.world.port import World
from reactree_ros.world.spec import Task


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Spec):
    """A task suite.

    Attributes:
        tasks: Returns its tasks by task id, as the settings say; where there may be many,
            :class:`~reactree_ros.world.spec.TasksOnDemand`.
        make_world: Makes the world for one of its tasks.
        goal: Says how far the goal of a task is reached in its world, condition by condition, for the failure causes of
            the report; None where the suite cannot.
        conditions: Returns the goal conditions of a task, for a simulated person to know; None where the suite cannot.
        ssr: What its papers call the SSR, e.g. ``progress rate``; empty: no other name.
        published: Figures that papers have published for its tasks.
        flags: Names of settings that are options of their own on the command line; the others are given as
            ``--suite-option NAME=VALUE``.
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
