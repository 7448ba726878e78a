"""The world ``pyrobosim``: a robot of pyrobosim in one of its worlds, or in one of our houses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from reactree_lab.bench.spec import SuiteSpec
from reactree_lab.bench.suites import HOUSE_STRIDE, HousesSettings, tasks_of_houses
from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim
from reactree_lab.worlds.pyrobosim.robot import HOUSEHOLD, PyrobosimRobot
from reactree_lab.worlds.pyrobosim.simulator import House
from reactree_lab.worlds.pyrobosim.tasks import PyrobosimTask, Source, load_tasks
from reactree_ros.agent.text import number_of
from reactree_ros.errors import UserError
from reactree_ros.household.pictures import CHECKS
from reactree_ros.plugins.settings import Harmless, or_nearest, plain
from reactree_ros.world.spec import WorldSettings, WorldSpec


def check_factor(factor: float) -> float:
    """Refuse a factor with which time would stand still."""
    if factor == 0:
        raise ValueError("time would stand still; 1 is real time, -1 as fast as can be")
    return factor


class PyrobosimSettings(WorldSettings):
    house: Annotated[str, Harmless(lambda house: number_of(house) is not None)] = Field(
        default="0",
        description="a world file of pyrobosim, a folder of `reactree lab house --as pyrobosim`, or a house's seed",
    )
    robot: Annotated[str, Harmless(plain)] = Field(
        default="", description="name of a single robot to use; empty: all of them, starting with the first"
    )
    robots: int = Field(default=1, ge=1, le=6, description="number of robots in a house made up from a seed")
    realtime_factor: float = Field(
        default=-1.0, ge=-1, le=1000, description="simulated seconds per real second; -1: as fast as possible"
    )
    failures: float = Field(default=0.0, ge=0, lt=1, description="share of robot actions that fail, by a seed")
    pictures: bool = Field(default=False, description="whether the robots have cameras, and skills to look with them")
    time_limit: float = Field(default=120.0, gt=0, le=3600, description="longest time for one motion, in seconds")

    _passes = field_validator("realtime_factor")(check_factor)


def tasks_of(settings: PyrobosimSettings) -> dict[int, PyrobosimTask]:
    if (seed := number_of(settings.house)) is not None:
        return tasks_as_pyrobosim(seed=seed, robots=settings.robots)
    if not settings.house:
        raise UserError("house is empty; name a world file of pyrobosim, a folder with some, or a seed")
    return load_tasks(Path(settings.house))


def _make(settings: PyrobosimSettings, task: PyrobosimTask | None, *, scored: bool = True) -> PyrobosimRobot:
    source = Source(file=str(Path(settings.house).resolve())) if task is None else task.source
    first, *others = robots = source.robots()
    if settings.robot and settings.robot not in robots:
        there = f"{', '.join(robots)}{or_nearest(settings.robot, robots)}"
        raise UserError(f"house {settings.house}: has no robot {settings.robot}; its robots are {there}")
    return PyrobosimRobot(
        House(source, realtime_factor=settings.realtime_factor, failures=settings.failures),
        settings.robot or first,
        goal=task.goal if task is not None and scored else None,
        seed=0 if task is None else task.seed,
        time_limit=settings.time_limit,
        others=() if settings.robot else others,
        pictures=settings.pictures,
    )


SPEC = WorldSpec(
    name="pyrobosim",
    summary="a mobile manipulator in pyrobosim's 2-D worlds, or in generated houses",
    settings=PyrobosimSettings,
    extra="reactree_lab[pyrobosim]",
    needs=("pyrobosim",),
    household=HOUSEHOLD,
    load_tasks=tasks_of,
    make=_make,
    flags=("house", "task_id"),
    checks=CHECKS,
)


class PyrobosimSuiteSettings(HousesSettings):
    robots: int = Field(default=1, ge=1, le=6, description="robots in each house")
    failures: float = Field(default=0.0, ge=0, lt=1, description="share of robot actions that fail, by a seed")


def _suite_tasks(settings: PyrobosimSuiteSettings) -> Mapping[int, PyrobosimTask]:
    rooms, tasks, varied = settings.rooms, settings.tasks_per_house, settings.varied

    def house(seed: int) -> dict[int, PyrobosimTask]:
        made = tasks_as_pyrobosim(seed=seed, rooms=rooms, tasks=tasks, varied=varied, robots=settings.robots)
        return {
            number: replace(task, seed=seed * HOUSE_STRIDE + number, failures=settings.failures)
            for number, task in made.items()
        }

    return tasks_of_houses(settings, house)


def _suite_world(task: PyrobosimTask) -> PyrobosimRobot:
    first, *others = task.source.robots()
    house = House(task.source, failures=task.failures)
    return PyrobosimRobot(house, first, goal=task.goal, seed=task.seed, others=others)


SUITE = SuiteSpec.in_world(
    SPEC,
    summary="tasks of houses made up from seeds, in the world `pyrobosim`",
    settings=PyrobosimSuiteSettings,
    tasks=_suite_tasks,
    make_world=_suite_world,
    flags=("houses",),
)
