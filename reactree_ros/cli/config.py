"""``reactree config``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli import Commands
from reactree_ros.cli.commands import COMMANDS, in_order
from reactree_ros.cli.defaults import (
    PROJECT,
    Default,
    DefaultsFile,
    check_files,
    default_of_option,
    defaults_of,
    files,
    leaves,
    user_file,
    why_not,
)
from reactree_ros.cli.trusted import NAME, Standing, remember
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import shown
from reactree_ros.plugins.settings import did_you_mean

app = typer.Typer(add_completion=False, no_args_is_help=True)
ProjectFile = Annotated[
    Path,
    typer.Argument(
        help="The project's file or its folder; by default the current folder, or the nearest above that has one."
    ),
]


@app.callback()
def config() -> None:
    """Defaults of options, from files."""


@app.command()
def show(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="A command, such as `run` or `llm check`; by default every option that a file sets."),
    ] = None,
) -> None:
    """Show the defaults of options, and where each comes from.

    They come from `reactree.toml` in this folder or the nearest above that has one, then from the user's own file. The
    command line overrides both.
    """
    console = Console()
    check_files([name for name in COMMANDS.names if name != "config"])
    names = {file.path: file.whose for file in files()}
    for path, name in names.items():
        console.print(in_one_line(f"{name}: {path}"), style="dim", soft_wrap=True, markup=False, highlight=False)
    for why in filter(None, map(why_not, files())):
        console.print(in_one_line(why), style="yellow", soft_wrap=True, markup=False, highlight=False)
    if not names:
        console.print(
            f"There is no {NAME} here, in a folder above, or at {user_file()}.", soft_wrap=True, highlight=False
        )
    table = Table("command", "option", "value", "from", box=None, pad_edge=False)
    for called in [tuple(command)] if command else [(name,) for name in in_order() if name != "config"]:
        for below, one in leaves(called, _command(called)):
            for row in _rows(below, one, names, all_of_it=bool(command)):
                table.add_row(*row)
    if table.row_count:
        console.print(table)


@app.command()
def trust(
    file: ProjectFile = Path(),
) -> None:
    """Trust a project's file with its current content; a change needs new trust."""
    chosen = _project(file)
    for fault in chosen.faults({name: _command((name,)) for name in in_order() if name != "config"}):
        raise UserError(fault)
    remember(chosen.path, chosen.content, Standing.TRUSTED)
    typer.echo(in_one_line(f"{chosen.path}: trusted with its current content; it sets {chosen.sets() or 'nothing'}"))


@app.command()
def distrust(
    file: ProjectFile = Path(),
) -> None:
    """Ignore a project's file with its current content; `reactree config trust` reverses that."""
    chosen = _project(file)
    remember(chosen.path, chosen.content, Standing.PASSED_OVER)
    typer.echo(in_one_line(f"{chosen.path}: ignored with its current content"))


def _project(file: Path) -> DefaultsFile:
    """Return the project's file at or above a path."""
    found = [one for one in files(None if file == Path() else file) if one.whose == PROJECT]
    if not found:
        raise UserError(f"{file.absolute()}: no project's {NAME} here or in a folder above")
    return found[0]


def _command(path: tuple[str, ...]) -> Any:
    found: Any = Commands(name="reactree").get_command(None, path[0])
    for name in path[1:]:
        found = getattr(found, "commands", {}).get(name)
    if found is None:
        raise UserError(f"'{' '.join(path)}' is no command; {did_you_mean(path[0], COMMANDS.names)}")
    return found


def _rows(path: tuple[str, ...], command: Any, names: Mapping[Path, str], *, all_of_it: bool) -> Iterator[list[str]]:
    set_here = defaults_of(path, command)
    for option, builtin in default_of_option(command):
        default: Default | None = set_here.get(option.name)
        if default is not None:
            value = shown(option.name, default.value)
            yield [" ".join(path), option.opts[0], in_one_line(str(value)), f"{names[default.file]}: {default.key}"]
        elif all_of_it:
            yield [" ".join(path), option.opts[0], builtin, "built in"]
