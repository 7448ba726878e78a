"""``reactree lab report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The --out folder of `reactree lab bench`, finished or not.")],
    prices: Annotated[
        tuple[float, float] | None,
        typer.Option(min=0, metavar="IN OUT", help="Dollars for a million tokens of input, and of output."),
    ] = None,
) -> None:
    """Compare the planners of a bench: print a table, and write report.html, report.md and plots into the folder."""
    from reactree_lab.bench.comparison import Prices
    from reactree_lab.bench.report import write_report

    write_report(folder, Console(), Prices(*prices) if prices else None)
