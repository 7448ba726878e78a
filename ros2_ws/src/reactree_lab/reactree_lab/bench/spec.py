"""The registry's entry of a task suite."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reactree_lab.bench.published import Published
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.plugins import Registry, Spec
from reactree_ros.world.port import World
from reactree_ros.world.spec import Task, WorldSpec


@dataclass(frozen=True, kw_only=True)
class SuiteSpec(Spec):
    """A task suite.

    The tasks come by task id from the settings; :class:`~reactree_ros.world.spec.TasksOnDemand` if there may be many.
    ``goal`` tells how far a task's goal is reached in its world, by condition, for the report's failure causes;
    ``conditions`` tells the goal to a simulated person. A suite that cannot tell has none.
    """

    tasks: Callable[[Any], Mapping[int, Task]]
    make_world: Callable[[Any], World]  # for one of its tasks
    goal: Callable[[Any, Any], Any] | None = None
    conditions: Callable[[Any], Sequence[GoalCondition]] | None = None
    ssr: str = ""  # the SSR's name in its papers, e.g. ``progress rate``; empty if it is the same
    published: tuple[Published, ...] = ()  # figures for its tasks
    flags: tuple[str, ...] = ()  # settings that are options of their own; the others are ``--suite-option NAME=VALUE``

    @classmethod
    def in_world(cls, world: WorldSpec, **more: Any) -> SuiteSpec:
        """Return a suite of a world's name, which needs what the world needs."""
        return cls(name=world.name, extra=world.extra, needs=world.needs, **more)


SUITES: Registry[SuiteSpec] = Registry(
    "task suite", "reactree_ros.suites", SuiteSpec, first=("wah_nl", "generated", "vague")
)
