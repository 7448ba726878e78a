"""Commands as typer has them: each is imported when it is called, and has its defaults from the user's file then."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli.commands import COMMANDS, Command
from reactree_ros.errors import UserError
from reactree_ros.plugins import DISTRIBUTION, one_line


class Commands(TyperGroup):
    """A group whose commands are imported when they are called: the whole command line, or those ``below`` a word."""

    def __init__(self, *, below: Sequence[Command] = (), **settings: Any) -> None:
        super().__init__(**settings)
        self._below = {command.name: command for command in below}

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self._below or (command.name for command in COMMANDS))

    def _command(self, name: str) -> Command | None:
        return COMMANDS.get(name) if not self._below and name in COMMANDS.names else self._below.get(name)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        command = self._command(cmd_name)
        return command and TyperCommand(name=cmd_name, help=command.summary, rich_help_panel=command.panel)

    def loaded(self, name: str) -> Any:
        command = self._command(name)
        return command and load(command)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, rest
        command = self.loaded(name)
        if not (self._below or ctx.resilient_parsing or "--help" in rest):
            _set_defaults(ctx, name, command, rest)
        return name, command, rest


def _set_defaults(ctx: Any, name: str, command: Any, words: Sequence[str]) -> None:
    from reactree_ros.cli.defaults import DefaultsFile

    path, waiting = [name], list(words)
    while waiting and hasattr(command, "list_commands"):
        path.append(waiting.pop(0))
        command = below(command, path[-1])
    file = DefaultsFile()
    try:
        file.check()
        if command is None or hasattr(command, "list_commands"):  # typer reports it
            return
        ctx.default_map = {name: default.value for name, default in file.defaults(path, command).items()}
        for word in reversed(path):
            ctx.default_map = {word: ctx.default_map}
        if changes := file.changes(path, command):
            print(in_one_line(f"defaults: {changes}"), file=sys.stderr)  # noqa: T201
    except UserError:
        if name != "doctor":  # doctor reports what is wrong in it
            raise


def load(command: Command) -> Any:
    """Return a command as click has it, a group without its commands; a UserError if it cannot be imported."""
    if command.commands:
        settings = {"no_args_is_help": True, "add_help_option": True}
        return Commands(name=command.name, help=command.summary, below=command.commands, **settings)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # plug-ins must not print into a command's output
            module, _, name = command.module.partition(":")
            app = getattr(importlib.import_module(module), name or "app", None)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plug-in may raise SystemExit, too
        if command.module.partition(".")[0] == DISTRIBUTION:
            raise
        raise UserError(f"command '{command.name}' cannot be loaded: {one_line(error)}") from error
    if not isinstance(app, typer.Typer):
        raise UserError(f"command '{command.name}': {command.module} has no typer.Typer named '{name or 'app'}'")
    loaded: Any = typer.main.get_command(app)
    loaded.name = command.name
    return loaded


def every_command() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all commands that can be loaded, not groups, each with its words, in the order of the help."""
    for command in COMMANDS:
        with contextlib.suppress(UserError):
            yield from leaves((command.name,), load(command))


def leaves(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(None):
        yield from leaves((*path, name), below(command, name))


def below(group: Any, name: str) -> Any:
    return group.loaded(name) if isinstance(group, Commands) else group.get_command(None, name)
