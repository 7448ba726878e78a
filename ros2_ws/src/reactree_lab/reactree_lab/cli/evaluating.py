"""``reactree eval``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_lab.bench.spec import SUITES
from reactree_ros.cli import NOT_ACHIEVED, completion
from reactree_ros.cli.opening import progress
from reactree_ros.cli.options import Chosen, FromSettings, Named, takes
from reactree_ros.errors import UserError
from reactree_ros.llm.trained import ABOUT, as_trained, trained_for
from reactree_ros.plugins.installation import check_modules
from reactree_ros.tree.options import RunOptions

app = typer.Typer(add_completion=False)
AFTER = "train"


@app.command("eval")
@takes(suite=Named(SUITES, "suite", default="generated"), options=FromSettings(RunOptions, without=["seed"]))
def evaluate(
    model: Annotated[Path, typer.Argument(help="The model's folder, as `reactree train` makes it.")],
    data: Annotated[
        Path | None, typer.Option(help="A dataset: make its held-out decisions, and compare them word for word.")
    ] = None,
    decisions: Annotated[int, typer.Option(min=0, help="Most held-out decisions; 0: all.")] = 2000,
    out: Annotated[Path | None, typer.Option(help="Folder of a bench: make whole runs of the suite.")] = None,
    planner: Annotated[
        str,
        typer.Option(
            help="Planners of these runs, separated by commas; empty: the one it was trained for.",
            autocompletion=completion.planners,
        ),
    ] = "",
    workers: Annotated[int, typer.Option(min=1, help="Worker processes of these runs.")] = 1,
    limit: Annotated[int, typer.Option(min=0, help="Number of tasks, from the first; 0: all.")] = 0,
    *,
    suite: Chosen,
    options: RunOptions,
) -> None:
    """Measure a small model's decisions: held-out ones (--data), whole runs (--out), or both.

    `--suite generated` makes houses up from seeds: choose a `first_seed` outside of the dataset. Exit code 1 if a run
    could not be carried out.
    """
    check_modules("reactree eval", "reactree_ros[small]", ("onnxruntime", "tokenizers", "llguidance"))
    if data is None and out is None:
        raise UserError("nothing to do: name --data for held-out decisions, --out for whole runs, or both")
    console = Console()
    if data is not None:
        _held_out(model, data, decisions, console)
    if out is not None and not _runs(model, out, planner, workers, limit, suite, options, console):
        raise typer.Exit(NOT_ACHIEVED)


def _held_out(model: Path, data: Path, decisions: int, console: Console) -> None:
    from reactree_lab.bench.comparison import wilson
    from reactree_lab.training import evaluation

    with progress("Deciding") as shown:
        looked = evaluation.look(model, data, limit=decisions, shown=shown)
    lines = ["held-out decisions equal word for word:"]
    for kind, (right, count) in evaluation.exact_by_kind(looked).items():
        low, high = wilson(right / count, count)
        lines.append(f"  {kind:8} {right / count:.3f} [{low:.3f}, {high:.3f}] of {count}")
    error, bins = evaluation.calibration(looked)
    lines.append(f"calibration error {error:.3f}; confidence, and share of correct decisions:")
    lines += [f"  {one.sure:.2f} {one.right:.2f} of {one.count}" for one in bins]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _runs(
    model: Path,
    out: Path,
    planner: str,
    workers: int,
    limit: int,
    suite: Chosen,
    options: RunOptions,
    console: Console,
) -> bool:
    from reactree_lab.bench import commands
    from reactree_lab.bench.comparison import wilson
    from reactree_lab.bench.folder import read_results
    from reactree_lab.bench.jobs import BenchSettings

    settings = BenchSettings(
        suite=suite.spec.name,
        suite_settings=suite.settings.model_dump(exclude_unset=True),
        planners=_planners(model, planner),
        limit=limit,
        llm={"llm": "small", "model": str(model.resolve())},
        options=options.model_dump(exclude_unset=True),
    )
    done = commands.bench(settings, out, workers=workers, ray=None, console=console)
    for name in settings.planners:
        runs = [line for line in read_results(out) if line.planner == name]
        if runs:
            right, count = sum(line.achieved for line in runs), len(runs)
            low, high = wilson(right / count, count)
            text = f"{name}: GSR {right / count:.3f} [{low:.3f}, {high:.3f}] of {count} runs"
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    return done


def _planners(model: Path, named: str) -> tuple[str, ...]:
    found = trained_for(model)
    if named:
        return tuple(as_trained(one, found) for one in named.split(","))
    if found:
        return found
    raise UserError(f"{model}: holds no {ABOUT} that names its planner; name one with --planner")
