"""Makes a run from its specification: the episode, and the world that it names; ``run`` does all in one call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any, cast

from reactree_ros.agent.text import shortened_line
from reactree_ros.episode import Builder, Episode
from reactree_ros.episode.eyes import with_eyes
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.episode.telemetry import watching
from reactree_ros.errors import UserError
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.spec import MODELS, make_model, named_model
from reactree_ros.memory.knowledge import standing_in
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.spec import is_brought, memory
from reactree_ros.person.port import Person, confirmed_by
from reactree_ros.plugins.settings import read_settings
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import EpisodeResult
from reactree_ros.record.writer import Recorder, RecordFile
from reactree_ros.routine.fitting import Routines
from reactree_ros.routine.learn import NotLearnt, came_to, overlooked, unnamed, without
from reactree_ros.routine.model import Routine
from reactree_ros.routine.skills import carried_out
from reactree_ros.routine.use import Proof, vocabulary_of
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.options import Routines as Wanted
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.spec import WORLDS, Place, Task, WorldSettings, WorldSpec
from reactree_ros.world.wrappers import guarded

#: Makes the world once more: 0 as the task starts, any other number with things moved by chance.
Again = Callable[[int], World]
#: In how many houses with other places of things a routine is tried out.
TRIALS = 4


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
        world: The world at the start of the task; the run's policy guards it.
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
    if spec.options.routines is not Wanted.OFF:
        live.setdefault("proves", proof_of(spec))
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


def run(
    instruction: str | None = None,
    *,
    house: str | None = None,
    llm: str = "expert",
    planner: str = "reactree_wm",
    world: str = "virtualhome",
    llm_settings: Mapping[str, Any] | None = None,
    world_settings: Mapping[str, Any] | None = None,
    memory: str = "",
    vision: str = "",
    save: str | Path | None = None,
    **options: Any,
) -> EpisodeResult:
    """Carry out an instruction and return the result; ``print(result.verdict)`` says how it ended.

    Args:
        instruction: What to do; None: what the world's first task asks.
        house: The house, of worlds that have several, e.g. ``villa``.
        llm: Name of the language model; ``reactree list models`` says which there are.
        planner: Name of the planner, with its options.
        world: Name of the world.
        llm_settings: Settings of the language model, e.g. ``{"base_url": "http://localhost:8000/v1"}``.
        world_settings: Settings of the world.
        memory: The episodic memory that examples come from, as ``reactree run`` takes it; it is not added to. Empty:
            the one that comes with the household, if there is one; ``none``: a fixed example.
        vision: The language model that is asked about pictures, as ``reactree run`` takes it; empty: none is.
        save: A new file for the run's record; None: there is none.
        options: Options of the run, see :class:`reactree_ros.tree.options.TreeOptions`.

    Raises:
        UserError: A name, a setting or an option is wrong, or what it needs is not installed.
        LanguageModelError: The language model does not get ready.
    """
    given = dict(world_settings or {}) | ({} if house is None else {"house": house})
    place_spec, model_spec = WORLDS.get(world), MODELS.get(llm)
    place = Place.from_settings(
        place_spec, cast("WorldSettings", read_settings(place_spec.settings, given, where="world_settings"))
    )
    settings = read_settings(model_spec.settings, dict(llm_settings or {}), where="llm_settings")
    chosen = read_settings(TreeOptions, options, where="options")
    spec = RunSpec.in_place(
        place,
        instruction,
        llm=(model_spec, settings),
        planner=planner,
        options=chosen,
        memory=memory,
        vision=Selection.from_spec("llm", *named_model(vision)) if vision else None,
    )
    named = spec.chosen_memory()
    with ExitStack() as stack:
        model = make_model(model_spec, settings)
        stack.callback(model.close)
        model.ready().result()
        live: dict[str, Any] = {"world": stack.enter_context(make_world(spec, place)), "model": model}
        if named is not None:
            live["memory"] = stack.enter_context(named.open())
        if save is not None:
            file = RecordFile(save, own=True)
            stack.callback(file.close)
            live |= {"write": file.write, "flush": file.flush}
        return assemble(spec, telling=True, **live).run()


def guarded_by(spec: RunSpec, world: World, person: Person | None) -> World:
    return guarded(world, spec.policy, confirmed_by(person, spec.options.answer_timeout))


def again(spec: RunSpec, root: GoalNode | None = None) -> Again | None:
    """Return what makes a run's world once more, with its things at other places; None if nobody can, or scores it.

    A run without a task may say by its ``root`` what it came to, which is the goal then.
    """
    if spec.world is None or spec.world.kind != "world":
        return None
    (chosen, settings), task_id = spec.world.chosen(), spec.task_id
    if task_id is None and root is not None and chosen.aiming is not None:
        settings, task_id = chosen.aiming(settings, came_to(root)[1]), 0
    if chosen.moved is None or not isinstance(task_id, int):
        return None
    place = Place.from_settings(chosen, settings).without_tools()
    task = place.task(task_id)
    return lambda seed: place.make(chosen.moved(task, seed) if seed else task)


def brought(name: str) -> EpisodicMemory | None:
    with _opening:
        return _open(name) if is_brought(name) else None


_opening = threading.Lock()  # runs in several threads share what is open


@cache
def _open(name: str) -> EpisodicMemory:
    return memory(name).open()


def make_world(spec: RunSpec, place: Place | None = None) -> World:
    vision = None if spec.vision is None else spec.chosen("vision")
    return with_eyes(lambda _: _make_world(spec, place), vision, getattr(spec.chosen("world")[0], "checks", {}))


def _make_world(spec: RunSpec, place: Place | None) -> World:
    chosen, settings = spec.chosen("world")
    task_id = spec.task_id
    if isinstance(task_id, str):
        raise UserError(f"there is no task {task_id!r}; the tasks of '{chosen.name}' have numbers")
    if not isinstance(chosen, WorldSpec):
        tasks: Mapping[int, Task] = chosen.tasks(settings)
        if task_id is None or task_id not in tasks:
            raise UserError(f"there is no task {task_id} in the suite '{chosen.name}' with these settings")
        return cast("World", chosen.make_world(tasks[task_id]))
    place = place or Place.from_settings(chosen, settings)
    task = place.choose(spec.instruction)[0] if task_id is None else place.task(task_id)
    return place.make(task, scored=task_id is not None)


# ---------------------------------------------------------------------- routines tried out


def tried_out(routine: Routine, instruction: str, again: Again) -> str:
    """Return why a routine is not to be kept: it does not do the task again, or ends well where it has not done it."""
    for seed in range(1 + TRIALS):
        with closing(again(seed)) as world:
            known = vocabulary_of(world, standing_in(world.available_skills().result()).items())
            fits = Routines([routine], known).fitting(instruction)
            came = (
                carried_out(fits[0], world).result() if fits else Observation("it does not fit", Outcome.UNKNOWN_SKILL)
            )
            is_done = came.outcome is Outcome.DONE
            score = world.score().result()
            reached = is_done if score is None else score.gsr == 1.0
        if is_done and not reached:
            return "it ends as if all were done where it is not" + (", from another start" if seed else "")
        if not seed and not reached:
            return "it does not do the same task again" + ("" if is_done else f": {shortened_line(came.text, 300)}")
    return ""


def proof(again: Again) -> Proof:

    def prove(routine: Routine, root: GoalNode) -> Routine:
        if problem := tried_out(routine, root.subgoal, again):
            raise NotLearnt(problem)
        return needed(routine, root.subgoal, again)

    return prove


def proof_of(spec: RunSpec) -> Proof:
    """Return the trial of what a run teaches; where nobody knows its goal, that must also say no more than the tree."""

    def prove(routine: Routine, root: GoalNode) -> Routine:
        known = vocabulary_of(root.context.world, root.context.known.standing.items())
        worlds = again(spec, root)
        if (worlds is None or spec.task_id is None) and (problem := overlooked(routine, known)):
            raise NotLearnt(problem)
        return routine if worlds is None else proof(worlds)(routine, root)

    return prove


def needed(routine: Routine, instruction: str, again: Again) -> Routine:
    with closing(again(0)) as world:
        names = unnamed(routine, world.household.skills)
    for name in names:
        smaller = without(routine, name)
        if smaller is not None and not tried_out(smaller, instruction, again):
            routine = smaller
    return routine
