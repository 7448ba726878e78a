"""``reactree lab examples``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from reactree_ros.cli.opening import DEFAULT_PLANNER, progress
from reactree_ros.cli.run import WHO_PLANS

app = typer.Typer(add_completion=False)


@app.command()
def examples(
    out: Annotated[Path, typer.Argument(help="A file that ends in .jsonl.")],
    planner: Annotated[str, typer.Option(help=WHO_PLANS)] = DEFAULT_PLANNER,
) -> None:
    """Make short experiences as examples, by the expert in generated houses.

    So were those of the memory `household` made, which comes with the package. `reactree memory import` adds them to a
    memory.
    """
    from reactree_lab.examples import make_examples
    from reactree_ros.memory.recorded import export_experiences
    from reactree_ros.planners.spec import planner as planner_of

    with progress("Making examples") as advance:
        chosen = make_examples(planner_of(planner).name, advance)
    count = export_experiences(chosen, out)
    Console().print(f"{count} experiences written to {out}", markup=False, highlight=False, soft_wrap=True)
