"""``reactree lab bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_lab.bench.spec import SUITES
from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.options import (
    Chosen,
    Named,
    NamedModel,
    RunOptionsGiven,
    complete_planner,
    memory_option,
    takes,
)
from reactree_ros.cli.run import UNNAMED
from reactree_ros.errors import UserError
from reactree_ros.llm.spec import as_trained, model_to_dict
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.tree.options import RunOptions

app = typer.Typer(add_completion=False)


@app.command()
@takes(suite=Named(SUITES, "suite", default=""), llm=NamedModel(), options=RunOptionsGiven(without=["seed"]))
def bench(
    out: Annotated[Path, typer.Option(help="Folder for the results; an unfinished bench in it is resumed.")],
    planner: Annotated[
        str,
        typer.Option(
            help="Planners, separated by commas, e.g. react,reactree_wm; empty: those that the language model was "
            "trained for.",
            autocompletion=complete_planner,
        ),
    ] = "",
    contenders: Annotated[
        Path | None,
        typer.Option(help="Instead of planners: a YAML file of names, each with a planner and its own language model."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Number of tasks, from the first; 0: all.")] = 0,
    memory: Annotated[
        NamedMemory | None, memory_option(f"An episodic memory for examples; it is not changed. {UNNAMED}")
    ] = None,
    person: Annotated[
        str,
        typer.Option(
            help="The person whom planners with questions=N may ask: 'simulated' knows each task's goal; settings as "
            "simulated:seed=1:patience=3. Empty: nobody."
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds: 0, 1, …")] = 1,
    workers: Annotated[
        int, typer.Option(min=1, help="Worker processes; each makes its own language model, a server serves them all.")
    ] = 1,
    at_once: Annotated[
        int,
        typer.Option(min=1, help="Runs of each worker at the same time, which its one language model answers."),
    ] = 1,
    ray: Annotated[
        str | None, typer.Option(help="Workers on Ray: 'local' starts a cluster here, an address joins one.")
    ] = None,
    *,
    suite: Chosen,
    llm: Chosen,
    options: RunOptions,
) -> None:
    """Carry out every task with every planner and seed; an interrupted bench is resumed.

    Exit code 1 if a run could not be carried out. `reactree lab report` compares the planners.
    """
    from reactree_lab.bench import commands
    from reactree_lab.bench.jobs import BenchSettings, read_contenders
    from reactree_lab.household.person import read_person

    if contenders is not None and planner:
        raise UserError(f"--planner {planner} and --contenders {contenders} exclude each other; write it into the file")
    named = read_contenders(contenders) if contenders is not None else {}
    where, experiences = commands.checked_memory(memory)
    trained = llm.spec.trained_for(llm.settings)
    asked = [as_trained(one.strip(), trained) for one in planner.split(",") if one.strip()]
    settings = BenchSettings(
        suite=suite.spec.name,
        suite_settings=suite.settings.model_dump(exclude_unset=True),
        planners=tuple(named) or tuple(asked) or trained,
        seeds=seeds,
        limit=limit,
        llm=model_to_dict(llm.spec, llm.settings),
        memory=where,
        experiences=experiences,
        options=options.model_dump(exclude_unset=True),
        contenders=named,
        person=read_person(person),
    )
    if not commands.bench(settings, out, workers=workers, at_once=at_once, ray=ray, console=Console()):
        raise typer.Exit(NOT_ACHIEVED)
