"""``reactree run``."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_ros.cli import NOT_ACHIEVED, completion
from reactree_ros.cli.opening import (
    carried_out,
    chosen_planner,
    described,
    flush_of,
    guarded,
    open_memory,
    open_model,
    open_record,
    person_at,
    shown_events,
)
from reactree_ros.cli.options import Chosen, FromSettings, Named, NamedModel, are_planners, memory_option, takes
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.installation import install_line
from reactree_ros.plugins.settings import Harmless
from reactree_ros.tree.options import RunOptions, TreeOptions
from reactree_ros.world.spec import WORLDS

app = typer.Typer(add_completion=False)
WHO_PLANS = (
    "Who plans, see `reactree list planners`; with _wm where it remembers where things were seen; with options as "
    "NAME:OPTION=VALUE."
)
Planner = Annotated[
    str,
    typer.Option(
        help=f"{WHO_PLANS} Empty: the one that the language model was trained for, or reactree_wm.",
        autocompletion=completion.planner,
    ),
    Harmless(are_planners),
]


@app.command()
@takes(world=Named(WORLDS, "world"), llm=NamedModel(), options=FromSettings(RunOptions))
def run(
    instruction: Annotated[str | None, typer.Argument(help="What to do; by default what the chosen task asks.")] = None,
    planner: Planner = "",
    memory: Annotated[
        NamedMemory | None,
        memory_option("An episodic memory: examples come from it, and a run that reaches its goal is added."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write the run's record into this new file as it happens.")] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="A skill policy: what may be done, what a person must confirm, what is never done."),
    ] = None,
    view: Annotated[bool, typer.Option("--view", help="Show the run on a page, where it can be steered.")] = False,
    paused: Annotated[bool, typer.Option("--paused", help="With --view: wait before the first decision.")] = False,
    *,
    world: Chosen,
    llm: Chosen,
    options: RunOptions,
) -> None:
    """Carry out an instruction in a household.

    Exit code 0 where the goal was reached, 1 where it was not, 2 for bad usage or input.
    """
    from reactree_ros.cli.view import kept_for_the_page, watched
    from reactree_ros.episode import Episode
    from reactree_ros.record.writer import Recorder
    from reactree_ros.view import check_installed
    from reactree_ros.view.steering import Steering
    from reactree_ros.world.skill_policy import load_policy
    from reactree_ros.world.spec import Place

    if paused and not view:
        raise UserError("--paused needs --view: only on the page can the run be told to go on")
    if view:
        check_installed()
    chosen, rules = chosen_planner(planner, llm), load_policy(policy) if policy else None
    place = Place.of(world.spec, world.settings)
    console = Console(stderr=as_json)
    task, task_id = place.choose(instruction, by_number=world.settings.of_many)
    with (
        open_model(llm) as model,
        open_memory(memory) if memory else nullcontext() as episodic,
        kept_for_the_page(save) if view else nullcontext(save) as record,
        open_record(record) as file,
        place.make(task, scored=task_id is not None) as made,
        person_at(console, chosen, page=view) as desk,
        shown_events(file, save, as_json=as_json, console=console, model=model) as events,
    ):
        household = guarded(made, rules, desk, options.answer_timeout)
        steering = Steering(model, desk, paused=paused) if view else None
        about = described(world, llm, task, scored=task_id is not None, policy=rules)
        episode = Episode(
            (instruction or (task.instruction if task else "")).strip(),
            world=household,
            model=steering or model,
            planner=chosen,
            person=desk,
            memory=episodic,
            options=TreeOptions(**dict(options)),
            record=None if events is None else Recorder(events, flush=flush_of(file), **about),
            task_id=task_id,
            task_name=task.task_name if task and task_id is not None else "instruction",
        )
        if desk is not None:
            desk.follow(episode.hear)
        with watched(episode, record, steering) if steering and record else nullcontext():
            result = carried_out(episode, as_json=as_json)
            episode.remember(result)  # last: a memory that cannot be written loses nothing else
    if memory is None and not as_json:
        hint = f"No episodic memory: {install_line('reactree_ros[memory]')}, then add --memory FILE.db"
        Console().print(hint, style="dim", markup=False, highlight=False)
    if not result.achieved:
        raise typer.Exit(NOT_ACHIEVED)
