"""``reactree llm``."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reactree_ros.cli import NOT_ACHIEVED
from reactree_ros.cli.opening import chosen_planner, open_model, say
from reactree_ros.cli.options import Chosen, NamedModel, takes
from reactree_ros.cli.run import Planner

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def llm() -> None:
    """Try a language model."""


@app.command("check")
@takes(llm=NamedModel(default="openai"))
def check(planner: Planner = "", *, llm: Chosen) -> None:
    """Foretell how a language model will do: ask it a planner's own prompt and small questions, and say what to set.

    It makes some ten requests, and says what it waits for.

    Exit code 0 if it can be used, 1 if something is wrong or a decision failed, 2 if it is unreachable.
    """
    from reactree_ros.episode.lesson import lesson
    from reactree_ros.llm.check import Given, check
    from reactree_ros.llm.waiting import kept_out_of_the_log

    errors, doing = Console(stderr=True), "Asking"
    chosen = chosen_planner(planner, llm).name
    with (
        open_model(*llm) as model,
        errors.status(doing) as status,
        kept_out_of_the_log(errors.is_terminal),
    ):
        report = check(
            model,
            lesson(model, llm, chosen),
            Given(**{name: getattr(llm.settings, name, None) for name in Given.__dataclass_fields__}),
            show=lambda words: status.update(words or doing),
            tell=lambda words: errors.print(words, style="dim", markup=False, highlight=False, soft_wrap=True),
        )
    table = Table("what", "is")
    for what, value in report.facts.items():
        table.add_row(Text(what), Text(value))  # Text: a model's words may look like rich markup
    Console().print(table)
    for problem in report.problems:
        say(f"! {problem}", "yellow")
    for one in report.advice:
        say(one, "bold")
    if report.is_whole and not report.advice:
        say("nothing to set")
    if report.problems:
        raise typer.Exit(NOT_ACHIEVED)
