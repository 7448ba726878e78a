"""``reactree llm``."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import open_model
from reactree_ros.cli.options import Chosen, NamedModel, takes

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def llm() -> None:
    """Try a language model."""


@app.command("check")
@takes(llm=NamedModel(default="openai"))
def check(*, llm: Chosen) -> None:
    """Connect, show what the language model is and can do, and measure one decision cold and warm.

    Exit code 0 if all is well, 1 if something could be better or a decision failed, 2 if the model is unreachable.
    """
    from reactree_ros.llm.check import check
    from reactree_ros.llm.waiting import kept_out_of_the_log
    from reactree_ros.world.spec import WORLDS

    errors = Console(stderr=True)
    with (
        open_model(*llm) as model,
        errors.status("Asking for a decision") as status,
        kept_out_of_the_log(errors.is_terminal),
    ):
        household = WORLDS.get(WORLDS.default).household
        report = check(model, household, lambda words: status.update(words or "Asking for a decision"))
    console = Console()
    table = Table("what", "is")
    for what, value in report.facts.items():
        table.add_row(Text(what), Text(value))  # Text: a model's words may look like rich markup
    console.print(table)
    for problem in report.problems:
        console.print(f"! {problem}", style="yellow", markup=False, highlight=False, soft_wrap=True)
    if report.problems:
        raise typer.Exit(NOT_ACHIEVED)


@app.command("forget")
def forget(
    base_url: Annotated[str, typer.Option(help="Forget this server only, e.g. http://127.0.0.1:8000/v1.")] = "",
) -> None:
    """Forget what servers were found to do; they are tried again when they are used next."""
    from reactree_ros.llm.known import folder, forget_all
    from reactree_ros.llm.openai.address import read_url

    console = Console()
    forgotten = list(forget_all(read_url(base_url) if base_url else ""))
    for what in forgotten or [f"nothing; {folder()} is empty" if not base_url else f"nothing of {base_url}"]:
        console.print(f"forgotten: {what}", markup=False, highlight=False, soft_wrap=True)
