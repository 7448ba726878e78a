"""``reactree lab dataset``."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_lab.dataset.settings import DatasetSettings, Recipe
from reactree_ros.cli.opening import DEFAULT_PLANNER, progress
from reactree_ros.cli.options import Chosen, FromSettings, OtherModel, memory_option, takes
from reactree_ros.cli.run import WHO_PLANS
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory

app = typer.Typer(add_completion=False)
#: Sources per part: a kill loses no more than these.
PART = 20


@app.command()
@takes(settings=FromSettings(DatasetSettings, panel="The dataset"), pupil=OtherModel("on_policy"))
def dataset(
    out: Annotated[Path, typer.Option(help="The folder; an unfinished dataset in it is continued.")],
    runs: Annotated[list[Path] | None, typer.Argument(help="Records of runs, or folders of them.")] = None,
    planner: Annotated[str, typer.Option(help=WHO_PLANS)] = DEFAULT_PLANNER,
    memory: Annotated[
        NamedMemory | None, memory_option("An episodic memory for --examples in generated houses.")
    ] = None,
    workers: Annotated[int, typer.Option(min=0, help="Worker processes; 0: one per core.")] = 0,
    at_once: Annotated[
        int,
        typer.Option(min=1, help="Runs of each worker at the same time, which its one --on-policy model answers."),
    ] = 1,
    *,
    settings: DatasetSettings,
    pupil: Chosen | None,
) -> None:
    """Make a dataset of decisions for training, from records or from the expert's runs in generated houses.

    Prompts have no system text and no fixed example; a planner's options may change that. With --on-policy, a language
    model acts in the houses, and the dataset has the expert's corrections.
    See docs/reference/dataset.md.
    """
    from reactree_lab.dataset.folder import DatasetFolder, make_dataset
    from reactree_lab.dataset.making import Exercise, Source
    from reactree_lab.dataset.workers import made_parts
    from reactree_ros.record.reader import records_in

    records = records_in(runs or [])
    if not (records or settings.houses or settings.exercises):
        raise UserError(
            "there is nothing to make a dataset of: name records of runs, or set --houses N or --exercises N"
        )
    recipe = _recipe(settings, records, planner, pupil, memory)
    first = settings.first_seed
    exercises = map(Exercise, range(first, first + settings.exercises))
    sources: list[Source] = [*records, *range(first, first + settings.houses), *exercises]
    parts = [sources[at : at + PART] for at in range(0, len(sources), PART)]
    with closing(DatasetFolder(out, recipe)) as folder:
        if folder.finished is None:
            left = {number: part for number, part in enumerate(parts) if not folder.has(number)}
            with progress("Making the dataset") as advance:
                made = made_parts(recipe, left, workers=workers or len(os.sched_getaffinity(0)), at_once=at_once)
                make_dataset(folder, len(parts), made, advance=advance)
        about = folder.finished or {}
    counts = about["counts"]
    console = Console(soft_wrap=True)
    for name in ("train", "held_out"):
        of = {what: counts.get(f"{name}_{what}", 0) for what in ("houses", "nodes", "decisions", "learnt")}
        text = "{decisions} decisions ({learnt} learnt) of {nodes} nodes in {houses} houses".format(**of)
        console.print(f"{out / name}.jsonl: {text}", markup=False, highlight=False)
    others = f"{counts['left_out']} of {counts['runs']} runs did not reach their goal and are left out"
    console.print(f"{others}; {counts.get('duplicate_nodes', 0)} nodes said nothing new", markup=False, highlight=False)


def _recipe(
    settings: DatasetSettings, records: list[Path], planner: str, pupil: Chosen | None, memory: NamedMemory | None
) -> Recipe:
    from reactree_lab.bench.jobs import digest
    from reactree_lab.dataset.lines import bare
    from reactree_ros.llm.spec import model_to_dict
    from reactree_ros.planners.spec import planner as planner_of

    if pupil is not None and not settings.houses:
        raise UserError("--on-policy acts in generated houses; set their number with --houses N")
    if settings.examples and settings.houses and memory is None:
        raise UserError("--examples in generated houses need --memory: `reactree lab bootstrap` fills one")
    if memory is not None:
        memory.check_exists()
    return Recipe(
        settings=settings,
        planner=planner_of(bare(planner)).name,
        records={str(path): digest(path) for path in records},
        pupil={} if pupil is None else model_to_dict(pupil.spec, pupil.settings),
        memory="" if memory is None else memory.absolute(),
    )
