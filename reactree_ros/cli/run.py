"""``reactree run``."""

from __future__ import annotations

import dataclasses
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import open_memory, open_model
from reactree_ros.cli.options import Chosen, FromSettings, Named, NamedModel, takes
from reactree_ros.errors import UserError
from reactree_ros.installation import install_line
from reactree_ros.registry import WORLDS
from reactree_ros.tree.options import RunOptions, TreeOptions

app = typer.Typer(add_completion=False)
Planner = Annotated[
    str,
    typer.Option(
        help="Who plans, see `reactree list planners`; with _wm where it remembers where things were seen; with "
        "options as NAME:OPTION=VALUE."
    ),
]


@app.command()
@takes(world=Named(WORLDS, "world"), llm=NamedModel(), options=FromSettings(RunOptions))
def run(
    instruction: Annotated[str | None, typer.Argument(help="What to do; by default what the chosen task asks.")] = None,
    planner: Planner = "reactree_wm",
    memory: Annotated[
        Path | None,
        typer.Option(help="An episodic memory: examples come from it, and a run that reaches its goal is added."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
    save: Annotated[Path | None, typer.Option(help="Write the run into this new folder.")] = None,
    *,
    world: Chosen,
    llm: Chosen,
    options: RunOptions,
) -> None:
    """Carry out an instruction in a household.

    Exit code 0 where the goal was reached, 1 where it was not, 2 for bad usage or input.
    """
    from reactree_ros.episode import Episode
    from reactree_ros.planners.spec import planner as planner_of
    from reactree_ros.record.saved_run import save_run
    from reactree_ros.terminal import TerminalListener, show_result, show_tree
    from reactree_ros.world.spec import Place

    chosen = planner_of(planner)
    place = Place.of(world.spec, world.settings)
    task, task_id = place.choose(instruction, by_number=world.settings.of_many)
    if save is not None and save.exists() and (not save.is_dir() or any(save.iterdir())):
        raise UserError(f"--save {save}: is there already; name a new folder, so that no saved run is lost")
    console = Console(soft_wrap=False)
    with (
        open_model(llm) as model,
        open_memory(memory) if memory else nullcontext() as episodic,
        place.make(task, scored=task_id is not None) as household,
    ):
        episode = Episode(
            (instruction or (task.instruction if task else "")).strip(),
            world=household,
            model=model,
            planner=chosen,
            memory=episodic,
            options=TreeOptions(**dict(options)),
            listener=None if as_json else TerminalListener(console),
            task_id=task_id,
            task_name=task.task_name if task and task_id is not None else "instruction",
        )
        result = episode.run()
        if save is not None:
            save_run(episode, result, save)
        if as_json:
            print(json.dumps(dataclasses.asdict(result)))  # noqa: T201
        else:
            console.print()
            show_tree(episode.root, console)
            console.print()
            show_result(result, console)
        episode.remember(result)  # last: a memory that cannot be written loses nothing else
    if memory is None and not as_json:
        hint = f"No episodic memory: {install_line('reactree_ros[memory]')}, then add --memory FILE.db"
        console.print(hint, style="dim", markup=False, highlight=False)
    if not result.achieved:
        raise typer.Exit(NOT_ACHIEVED)
