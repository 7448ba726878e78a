"""The commands of the lab that carry out runs: recordings, import, bench, report, bootstrap."""

from __future__ import annotations

import dataclasses
import enum
import json
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_lab.bench.spec import SUITES
from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import chosen_planner, open_memory, open_model, progress
from reactree_ros.cli.options import (
    Chosen,
    Named,
    NamedModel,
    RunOptionsGiven,
    complete_planner,
    memory_option,
    takes,
)
from reactree_ros.cli.output import print_table
from reactree_ros.cli.run import UNNAMED, Planner
from reactree_ros.errors import UserError
from reactree_ros.llm.spec import as_trained, model_to_dict
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.tree.options import RunOptions, TreeOptions

recordings_app = typer.Typer(add_completion=False)


class ReplayWorld(str, enum.Enum):
    RECORDED = "recorded"
    SYMBOLIC = "symbolic"


@recordings_app.command(epilog="reactree lab recordings reactree_wm.jsonl --tasks tasks.json")
def recordings(
    trajectories: Annotated[
        Path,
        typer.Argument(help="The authors' recorded runs of WAH-NL or ALFRED: JSON lines, one agent node per line."),
    ],
    tasks: Annotated[Path | None, typer.Option(help="The recordings' task file; needed for --world symbolic.")] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="react, react_wm, reactree or reactree_wm; by default the trajectories' file name."),
    ] = None,
    world: Annotated[ReplayWorld, typer.Option(help="Source of the observations.")] = ReplayWorld.RECORDED,
    outcomes: Annotated[
        Path | None,
        typer.Option(
            help="A file that says which runs succeeded; by default recorded_outcomes.json next to the task file."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Repeat the authors' recorded decisions with the real tree, and compare the result with the recording.

    The symbolic world reproduces the simulator's quirks that the task file records.
    Exit code 1 if a run in the recorded world is not identical.
    """
    from reactree_lab.recordings import Replay, load_outcomes, load_recording, variant_of
    from reactree_ros.household.tasks import load_tasks

    variant = variant_of(trajectories, variant)
    if tasks is None and world is ReplayWorld.SYMBOLIC:
        raise UserError("--world symbolic needs --tasks: the recordings' task file")
    if outcomes is None and tasks is not None and (beside := tasks.with_name("recorded_outcomes.json")).exists():
        outcomes = beside
    one = Replay(
        tasks={} if tasks is None else {task.task_id: task for task in load_tasks(tasks)},
        variant=variant,
        symbolic=world is ReplayWorld.SYMBOLIC,
        outcomes=None if outcomes is None else load_outcomes(outcomes, variant),
    )
    recorded = load_recording(trajectories)
    with progress("Replaying", quiet=as_json) as advance:
        for number, run_ in enumerate(recorded, 1):
            one.replay(run_)
            advance(number / len(recorded))
    report = one.report
    if as_json:
        print(json.dumps(dataclasses.asdict(report)))  # noqa: T201
    else:
        counts = {**report.by_kind, "all": [report.lines, report.lines_identical]}
        rows = (
            (kind, str(lines), str(identical), f"{100 * identical / lines:.1f}" if lines else "")
            for kind, (lines, identical) in counts.items()
        )
        print_table(("kind of line", "lines", "identical", "%"), rows)
        for line in [*report.differences, *report.overwritten]:
            typer.echo(line)
        typer.echo(
            f"{report.runs_identical} of {report.runs} runs identical ({report.runs_overwritten} of them with "
            f"overwritten files), {report.nodes_identical} of {report.nodes} agent nodes"
        )
        if report.successes_recorded is not None:
            said = f"{report.successes_reproduced} of {report.successes_recorded} recorded successes"
            typer.echo(f"{said} reach their goal")
    if world is ReplayWorld.RECORDED and report.runs_identical < report.runs:
        raise typer.Exit(NOT_ACHIEVED)


import_app = typer.Typer(add_completion=False)


@import_app.command("import", epilog="reactree lab import reactree_wm.jsonl --out records")
def import_(
    trajectories: Annotated[
        list[Path], typer.Argument(help="The authors' recorded runs of WAH-NL or ALFRED: JSON lines.")
    ],
    out: Annotated[Path, typer.Option(help="The new folder for the records, with a subfolder for each file.")],
    variant: Annotated[
        str | None,
        typer.Option(help="react, react_wm, reactree or reactree_wm; by default each file's name."),
    ] = None,
) -> None:
    """Convert recorded trajectories to records, one per run, by repeating each in the recorded world."""
    from reactree_lab.recordings import episode_of, load_recording, variant_of
    from reactree_ros.record.writer import RecordFile

    if out.exists():
        raise UserError(f"--out {out}: exists already; name a new folder")
    chosen = {path: variant_of(path, variant) for path in trajectories}
    recorded = [(path, run) for path in trajectories for run in load_recording(path)]
    with progress("Importing") as advance:
        for number, (path, run) in enumerate(recorded, 1):
            file = RecordFile(out / path.stem / f"{run.run}.jsonl")
            episode_of(run, chosen[path], write=file.write, flush=file.flush).run()
            file.close()
            if file.problem:
                raise UserError(file.problem)
            advance(number / len(recorded))
    typer.echo(f"{len(recorded)} runs in {out}")


bench_app = typer.Typer(add_completion=False)


@bench_app.command(
    epilog="reactree lab bench --suite generated --houses 10 --planner react_wm,reactree_wm --out my_bench"
)
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
    where, experiences = "", 0
    if memory is not None:
        memory.check_exists()
        with memory.open() as opened:  # by its name for workers anywhere on this machine
            where, experiences = memory.absolute(), len(opened)
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
    if not commands.bench(settings, out, workers=workers, at_once=at_once, ray=ray):
        raise typer.Exit(NOT_ACHIEVED)


report_app = typer.Typer(add_completion=False)


class ReportKind(str, enum.Enum):
    PAGE = "page"
    LATEX = "latex"


@report_app.command(epilog="reactree lab report my_bench\nreactree lab report my_bench --as latex")
def report(
    folder: Annotated[Path, typer.Argument(help="The --out folder of `reactree lab bench`, finished or not.")],
    prices: Annotated[
        Path | None,
        typer.Option(help="A YAML file of price lists; config/prices.yaml has some."),
    ] = None,
    kind: Annotated[
        ReportKind,
        typer.Option(
            "--as",
            help="page: report.html, report.md and plots, and the table here; latex: a paper's table, here and as "
            "report.tex.",
        ),
    ] = ReportKind.PAGE,
) -> None:
    """Compare the planners of a bench, and write the report into its folder."""
    from reactree_lab.bench.comparison import read_prices
    from reactree_lab.bench.report import write_latex, write_report

    if kind is ReportKind.PAGE:
        write_report(folder, Console(), read_prices(prices) if prices else None)
    elif prices:
        raise UserError(f"--prices {prices}: the LaTeX table has no prices; leave it out, or use --as page")
    else:
        write_latex(folder, Console())


bootstrap_app = typer.Typer(add_completion=False)


@bootstrap_app.command(epilog="reactree lab bootstrap --tasks train.json --llm small --memory trained.db")
@takes(suite=Named(SUITES, "suite"), llm=NamedModel(), options=RunOptionsGiven())
def bootstrap(
    memory: Annotated[NamedMemory, memory_option("The episodic memory to fill; an unfinished one is continued.")],
    seed_memory: Annotated[
        NamedMemory | None, memory_option("A memory with a few trajectories to start with; without, a fixed example.")
    ] = None,
    planner: Planner = "",
    *,
    suite: Chosen,
    llm: Chosen,
    options: RunOptions,
) -> None:
    """Fill an episodic memory with the successful runs of training tasks.

    A tree's experiences are stored by subgoal, a flat planner's run as a whole. Exit code 1 if the memory is still
    empty, or a run broke off.
    """
    from reactree_lab.bootstrap import Bootstrap
    from reactree_ros.episode.run_spec import RunSpec, Selection

    chosen = chosen_planner(planner, llm)
    spec = RunSpec(
        planner=chosen.name,
        options=TreeOptions(**dict(options)),
        world=Selection.from_spec("suite", *suite),
        llm=Selection.from_spec("llm", *llm),
        memory=memory.absolute(),
    ).decided_by(llm.spec.trained_for(llm.settings))
    suite.spec.check_installed()
    todo = suite.spec.tasks(suite.settings)
    if seed_memory is not None:
        seed_memory.check_exists()
    with (
        open_model(*llm) as model,
        open_memory(memory) as episodic,
        open_memory(seed_memory) if seed_memory else nullcontext() as other,
    ):
        one = Bootstrap(episodic, spec, model=model, make_world=suite.spec.make_world)
        begun_with = episodic.keep(other) if other is not None else 0
        before, attempts = len(episodic), []
        with progress("Bootstrapping") as advance:
            for attempt in one.attempts(todo):
                attempts.append(attempt)
                advance(len(attempts) / len(todo))
        total = len(episodic)
    done = [attempt.achieved for attempt in attempts if not attempt.broken]
    half, broken = len(done) // 2, len(attempts) - len(done)
    again = f"{broken} runs broke off; repeat the command to run them again.\n" if broken else ""
    typer.echo(
        f"{sum(done)} of {len(done)} tasks reached their goal ({sum(done[:half])} of the first {half}, "
        f"{sum(done[half:])} of the rest).\n{again}"
        f"{memory}: {total} experiences; {begun_with} from --seed-memory, {total - before} new ones from these runs."
    )
    if broken or not total:
        raise typer.Exit(NOT_ACHIEVED)
