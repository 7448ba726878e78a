"""The task suite ``pyrobosim``: tasks of houses made up from seeds, for mobile manipulators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import Field

from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.bench.suites import HOUSE_STRIDE, HousesSettings, tasks_of_houses
from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim
from reactree_lab.worlds.pyrobosim.robot import PyrobosimRobot
from reactree_lab.worlds.pyrobosim.simulator import House
from reactree_lab.worlds.pyrobosim.tasks import PyrobosimTask


class PyrobosimSuiteSettings(HousesSettings):
    robots: int = Field(default=1, ge=1, le=6, description="robots in each house")
    failures: float = Field(default=0.0, ge=0, lt=1, description="share of robot actions that fail, by a seed")


def _tasks(settings: PyrobosimSuiteSettings) -> Mapping[int, PyrobosimTask]:
    rooms, tasks, varied = settings.rooms, settings.tasks_per_house, settings.varied

    def house(seed: int) -> dict[int, PyrobosimTask]:
        made = tasks_as_pyrobosim(seed=seed, rooms=rooms, tasks=tasks, varied=varied, robots=settings.robots)
        return {
            number: replace(task, seed=seed * HOUSE_STRIDE + number, failures=settings.failures)
            for number, task in made.items()
        }

    return tasks_of_houses(settings, house)


def _make_world(task: PyrobosimTask) -> PyrobosimRobot:
    first, *others = task.source.robots()
    house = House(task.source, failures=task.failures)
    return PyrobosimRobot(house, first, goal=task.goal, seed=task.seed, others=others)


SPEC = SuiteSpec(
    name="pyrobosim",
    summary="tasks of houses made up from seeds, in the world `pyrobosim`",
    settings=PyrobosimSuiteSettings,
    extra="reactree_lab[pyrobosim]",
    needs=("pyrobosim",),
    tasks=_tasks,
    make_world=_make_world,
    flags=("houses",),
)
