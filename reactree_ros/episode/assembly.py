"""Makes a run from its specification: the episode, and the world that it names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, cast

from reactree_ros.episode import Builder, Episode
from reactree_ros.episode.eyes import with_eyes
from reactree_ros.episode.learning import Again
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.episode.telemetry import watching
from reactree_ros.errors import UserError
from reactree_ros.llm.port import LanguageModel
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.spec import is_brought, memory
from reactree_ros.person.port import Person, confirmed_by
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.options import Routines
from reactree_ros.world.port import World
from reactree_ros.world.spec import Place, Task, WorldSpec
from reactree_ros.world.wrappers import guarded


def assemble(
    spec: RunSpec,
    *,
    world: World,
    model: LanguageModel,
    person: Person | None = None,
    builder: Builder | None = None,
    write: Callable[[Event], None] | None = None,
    flush: Callable[[], None] = lambda: None,
    telling: bool = False,
    silent: Callable[[], bool] | None = None,
    **live: Any,
) -> Episode:
    """Make the episode of a run; nothing else makes one.

    Args:
        spec: What the run is.
        world: The world at the start of the task; the run's policy guards it.
        model: Decides.
        person: The person who confirms skills, and whom goal nodes ask if the specification allows it.
        builder: The planner; None: that of the specification.
        write: Takes the events of the run's record; None: the run is not recorded.
        flush: Makes them safe; see :class:`~reactree_ros.record.writer.Recorder`.
        telling: Whether spans and metrics are made of it, if this process uses OpenTelemetry: it is somebody's run, and
            no rehearsal.
        silent: Whether it only follows its record now, of which none are made; None: it never does.
        live: Further arguments of the episode, such as its memory or the tree in which it grows. Without a memory, and
            without a function that finds examples, it has those that a package brings for the run.

    Raises:
        UserError: The planner is not here or cannot be used in this world, or the instruction is empty.
    """
    if builder is None and "examples" not in live and live.get("memory") is None:
        spec = spec.with_examples(world.household.name)
        live["memory"] = brought(spec.memory)
    if spec.options.routines is not Routines.OFF:
        live.setdefault("again", again(spec))
    return Episode(
        spec.instruction,
        world=guarded_by(spec, world, person),
        model=model,
        planner=builder or spec.chosen_planner(),
        person=person if spec.person else None,
        options=spec.options,
        working_memory=spec.working_memory,
        record=None if write is None else Recorder(write, flush=flush, **spec.about()),
        task_id=cast("int | None", spec.task_id),
        task_name=spec.task_name,
        goal=spec.goal,
        telemetry=watching(spec.about(), spec.planner, silent) if telling else None,
        **live,
    )


def guarded_by(spec: RunSpec, world: World, person: Person | None) -> World:
    """Return a run's world with the guard of its policy, for which a person confirms skills; None: nobody does."""
    return guarded(world, spec.policy, confirmed_by(person, spec.options.answer_timeout))


def again(spec: RunSpec) -> Again | None:
    """Return what makes a run's world once more, with its things at other places; None if nobody can, or scores it."""
    if spec.world is None or spec.world.kind != "world" or not isinstance(spec.task_id, int):
        return None
    chosen, settings = spec.world.chosen()
    if chosen.moved is None:
        return None
    place = Place.of(chosen, settings).without_tools()
    task = place.task(spec.task_id)
    return lambda seed: place.make(chosen.moved(task, seed) if seed else task)


def brought(name: str) -> EpisodicMemory | None:
    """Return the memory of that name if a package brings it, open for as long as this process lives."""
    with _opening:
        return _open(name) if is_brought(name) else None


_opening = threading.Lock()  # runs in several threads share what is open


@cache
def _open(name: str) -> EpisodicMemory:
    return memory(name).open()


def make_world(spec: RunSpec, place: Place | None = None) -> World:
    """Make the world of a run, at the start of its task, with eyes if the run has some.

    Args:
        spec: What the run is.
        place: The world with its tasks, if they are loaded already.

    Raises:
        UserError: Nobody knows which world it is, it cannot be made, or only a record says what it would start.
    """
    vision = None if spec.vision is None else spec.chosen("vision")
    return with_eyes(lambda _: _make_world(spec, place), vision, getattr(spec.chosen("world")[0], "checks", {}))


def _make_world(spec: RunSpec, place: Place | None) -> World:
    chosen, settings = spec.chosen("world")
    task_id = spec.task_id
    if isinstance(task_id, str):
        raise UserError(f"there is no task {task_id!r}; the tasks of '{chosen.name}' have numbers")
    if not isinstance(chosen, WorldSpec):
        return _of_suite(chosen, chosen.tasks(settings), task_id)
    place = place or Place.of(chosen, settings)
    task = place.choose(spec.instruction)[0] if task_id is None else place.task(task_id)
    return place.make(task, scored=task_id is not None)


def _of_suite(suite: Any, tasks: Mapping[int, Task], task_id: int | None) -> World:
    if task_id is None or task_id not in tasks:
        raise UserError(f"there is no task {task_id} in the suite '{suite.name}' with these settings")
    return cast("World", suite.make_world(tasks[task_id]))
