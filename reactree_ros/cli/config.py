"""``reactree config``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli import Commands
from reactree_ros.cli.commands import COMMANDS, in_order
from reactree_ros.cli.defaults import DefaultsFile, default_of_option, leaves
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import shown
from reactree_ros.plugins.settings import did_you_mean

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def config() -> None:
    """Defaults of options, from your own file."""


@app.command()
def show(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, such as `run` or `llm check`; by default every option that the file sets."),
    ] = None,
) -> None:
    """Show the defaults of options, and where each comes from: your own `reactree.toml`, or built in.

    The command line overrides both. No file in a project's folder sets defaults.
    """
    console, file = Console(), DefaultsFile()
    said = str(file.path) if file.path.exists() else f"There is no {file.path}"
    console.print(in_one_line(said), style="dim", soft_wrap=True, markup=False, highlight=False)
    table = Table("command", "option", "value", "from", box=None, pad_edge=False)
    for called in [tuple(command)] if command else [(name,) for name in in_order()]:
        for below, one in leaves(called, _command(called)):
            for row in _rows(file, below, one, all_of_it=bool(command)):
                table.add_row(*row)
    if table.row_count:
        console.print(table)


def _command(path: tuple[str, ...]) -> Any:
    found: Any = Commands(name="reactree").get_command(None, path[0])
    for name in path[1:]:
        found = getattr(found, "commands", {}).get(name)
    if found is None:
        raise UserError(f"'{' '.join(path)}' is no command; {did_you_mean(path[0], COMMANDS.names)}")
    return found


def _rows(file: DefaultsFile, path: tuple[str, ...], command: Any, *, all_of_it: bool) -> Iterator[list[str]]:
    set_here = file.defaults(path, command)
    for option, builtin in default_of_option(command):
        if default := set_here.get(option.name):
            yield [" ".join(path), option.opts[0], in_one_line(str(shown(option.name, default.value))), default.key]
        elif all_of_it:
            yield [" ".join(path), option.opts[0], builtin, "built in"]
