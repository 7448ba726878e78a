"""The commands of the lab on the way to a model: house, examples, dataset, train, eval."""

from __future__ import annotations

import enum
import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from reactree_lab.dataset.settings import DatasetSettings, Recipe
from reactree_lab.training.settings import TrainSettings, read_recipe
from reactree_ros.cli.opening import DEFAULT_PLANNER, progress
from reactree_ros.cli.options import Chosen, FromSettings, OtherModel, memory_option, takes
from reactree_ros.cli.run import WHO_PLANS
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.installation import check_modules

house_app = typer.Typer(add_completion=False)


class Format(str, enum.Enum):
    WAH_NL = "wah_nl"
    PYROBOSIM = "pyrobosim"


@house_app.command(epilog="reactree lab house --seed 7 --rooms 5 --out house.json")
def house(
    seed: Annotated[int, typer.Option(help="Seed: the same arguments make the same house.")],
    out: Annotated[Path, typer.Option(help="File to write; for pyrobosim, the folder.")],
    rooms: Annotated[int, typer.Option(min=3, max=8, help="Number of rooms.")] = 5,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks.")] = 5,
    varied: Annotated[bool, typer.Option("--varied", help="Use more types of task, words and things.")] = False,
    written_as: Annotated[
        Format,
        typer.Option(
            "--as",
            help="The WAH-NL schema, or a folder of pyrobosim's world files, one for each task that turns nothing on.",
        ),
    ] = Format.WAH_NL,
) -> None:
    """Make up a house with tasks, in the WAH-NL schema or as pyrobosim's worlds."""
    write = _write_pyrobosim if written_as is Format.PYROBOSIM else _write_wah_nl
    for number, name, instruction in write(out, seed=seed, rooms=rooms, tasks=tasks, varied=varied):
        typer.echo(f"{number} {name}: {' '.join(instruction.split())}")


def _write_wah_nl(out: Path, *, seed: int, rooms: int, tasks: int, varied: bool) -> Iterator[tuple[int, str, str]]:
    from reactree_lab.household.generator import generate_house
    from reactree_ros.files.whole_file import write_whole

    document = generate_house(seed=seed, rooms=rooms, tasks=tasks, varied=varied)
    write_whole(out, json.dumps(document, separators=(",", ":")) + "\n")
    return ((task["task_id"], task["task_name"], task["nl_instructions"][0]) for task in document)


def _write_pyrobosim(out: Path, *, seed: int, rooms: int, tasks: int, varied: bool) -> Iterator[tuple[int, str, str]]:
    from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim, write_house

    made = tasks_as_pyrobosim(seed=seed, rooms=rooms, tasks=tasks, varied=varied)
    write_house(made, out)
    return ((number, task.task_name, task.instruction) for number, task in made.items())


examples_app = typer.Typer(add_completion=False)


@examples_app.command(epilog="reactree lab examples examples.jsonl --planner react")
def examples(
    out: Annotated[Path, typer.Argument(help="A file that ends in .jsonl.")],
    planner: Annotated[str, typer.Option(help=WHO_PLANS, metavar="NAME")] = DEFAULT_PLANNER,
) -> None:
    """Make short experiences as examples, by the expert in generated houses.

    So were those of the memory `household` made, which comes with the package. `reactree memory import` adds them to a
    memory.
    """
    from reactree_lab.bootstrap import make_examples
    from reactree_ros.memory.recorded import export_experiences
    from reactree_ros.planners.spec import planner as planner_of

    with progress("Making examples") as advance:
        chosen = make_examples(planner_of(planner).name, advance)
    typer.echo(f"{export_experiences(chosen, out)} experiences written to {out}")


dataset_app = typer.Typer(add_completion=False)
#: Sources per part: a kill loses no more than these.
PART = 20


@dataset_app.command(
    epilog="reactree lab dataset --houses 20 --out my_dataset\nreactree lab dataset my_bench/runs --out my_dataset"
)
@takes(settings=FromSettings(DatasetSettings, panel="The dataset"), pupil=OtherModel("on_policy"))
def dataset(
    out: Annotated[Path, typer.Option(help="The folder; an unfinished dataset in it is continued.")],
    runs: Annotated[list[Path] | None, typer.Argument(help="Records of runs, or folders of them.")] = None,
    planner: Annotated[str, typer.Option(help=WHO_PLANS, metavar="NAME")] = DEFAULT_PLANNER,
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
    from reactree_lab.dataset.making import Exercise, Source, made_parts
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
    for name in ("train", "held_out"):
        of = {what: counts.get(f"{name}_{what}", 0) for what in ("houses", "nodes", "decisions", "learnt")}
        text = "{decisions} decisions ({learnt} learnt) of {nodes} nodes in {houses} houses".format(**of)
        typer.echo(f"{out / name}.jsonl: {text}")
    others = f"{counts['left_out']} of {counts['runs']} runs did not reach their goal and are left out"
    typer.echo(f"{others}; {counts.get('duplicate_nodes', 0)} nodes said nothing new")


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


train_app = typer.Typer(add_completion=False)


@train_app.command(epilog="reactree lab train --data my_dataset --out my_training --preset tiny")
@takes(settings=FromSettings(TrainSettings, panel="The training"))
def train(
    data: Annotated[list[Path], typer.Option(help="A dataset of `reactree lab dataset`; may be given several times.")],
    out: Annotated[Path, typer.Option(help="Folder of the training; an interrupted training in it is resumed.")],
    recipe: Annotated[
        Path | None, typer.Option(help="A YAML file with settings, e.g. config/train_two_cores.yaml.")
    ] = None,
    *,
    settings: TrainSettings,
) -> None:
    """Train a small language model on a dataset of decisions, from scratch or from a base model.

    A new model is written into OUT/model, for `--llm small`, transformers and vLLM. Repeat the command to resume an
    interrupted training; the numbers are the same.
    """
    check_modules("reactree lab train", "reactree_lab[train]", ("torch", "transformers", "onnx", "matplotlib"))
    from reactree_lab.training.commands import train as carry_out

    if recipe is not None:
        settings = read_recipe(recipe, settings.model_dump(exclude_unset=True))
    carry_out(data, out, settings)


eval_app = typer.Typer(add_completion=False)


@eval_app.command("eval", epilog="reactree lab eval my_training/model --data my_dataset")
def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's folder, as `reactree lab train` makes it.")],
    data: Annotated[Path, typer.Option(help="A dataset, whose held-out decisions the model makes.")],
    decisions: Annotated[int, typer.Option(min=0, help="Most held-out decisions; 0: all.")] = 2000,
) -> None:
    """Measure a small model's decisions: held-out ones, compared word for word.

    `reactree lab bench --llm small --model MODEL` measures whole runs.
    """
    check_modules("reactree lab eval", "reactree_local[small]", ("onnxruntime", "tokenizers", "llguidance"))
    from reactree_lab.bench.comparison import wilson
    from reactree_lab.training import evaluation

    with progress("Deciding") as shown:
        looked = evaluation.look(model, data, limit=decisions, shown=shown)
    typer.echo("held-out decisions equal word for word:")
    for kind, (right, count) in evaluation.exact_by_kind(looked).items():
        low, high = wilson(right / count, count)
        typer.echo(f"  {kind:8} {right / count:.3f} [{low:.3f}, {high:.3f}] of {count}")
    error, bins = evaluation.calibration(looked)
    typer.echo(f"calibration error {error:.3f}; confidence, and share of correct decisions:")
    for one in bins:
        typer.echo(f"  {one.sure:.2f} {one.right:.2f} of {one.count}")
