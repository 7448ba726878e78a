"""Defaults of options from files: ``reactree.toml`` of the project, then that of the user.

A file has a table for each command, ``[run]`` or ``[llm.check]``, and ``[all]`` for every command that has an option::

    [all]
    llm = "openai"
    base_url = "http://gpu-machine:8000/v1"

    [run]
    max_steps = 100
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from reactree_ros.errors import UserError
from reactree_ros.installation import install_line
from reactree_ros.settings import did_you_mean

NAME = "reactree.toml"
#: The table of what holds for every command that has the option.
ALL = "all"


@dataclass(frozen=True)
class Default:
    """An option's default that a file sets.

    Attributes:
        value: What it is.
        file: Which file says so.
        key: Where in it, e.g. ``run.max_steps``.
    """

    value: Any
    file: Path
    key: str


class DefaultsFile:
    """One file.

    Args:
        path: The file.
        whose: ``project`` or ``user``.
    """

    def __init__(self, path: Path, whose: str) -> None:
        self.path = path
        self.whose = whose

    @cached_property
    def tables(self) -> Mapping[str, Any]:
        """What it says.

        Raises:
            UserError: It cannot be read, or is no TOML.
        """
        toml = _toml(self.path)
        try:
            tables: Mapping[str, Any] = toml.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.path}: cannot be read: {error}") from None
        except toml.TOMLDecodeError as error:
            raise UserError(f"{self.path}: is no TOML: {error}") from None
        return tables

    def check(self, commands: Sequence[str]) -> None:
        """Look whether all its tables are of commands.

        Raises:
            UserError: One is not.
        """
        for name, table in self.tables.items():
            if name not in (ALL, *commands):
                raise UserError(f"{self.path}: '{name}' is no command; {did_you_mean(name, (ALL, *commands))}")
            if not isinstance(table, Mapping):
                raise UserError(f"{self.path}: '{name}' must be a table: write [{name}], and its options below")

    def faults(self, commands: Mapping[str, Any]) -> Iterator[str]:
        """Yield everything that is wrong in it, each thing once; where its tables cannot be told, that alone.

        Args:
            commands: All commands by their names, as typer has them.
        """
        try:
            self.check(list(commands))
        except UserError as error:
            yield str(error)
            return
        found = dict.fromkeys(self._strangers(commands))
        for name, one in commands.items():
            for path, command in leaves((name,), one):
                found |= dict.fromkeys(self._refused(path, command))  # once: [all] is of each command
        yield from found

    def _refused(self, path: Sequence[str], command: Any) -> Iterator[str]:
        """Yield what is wrong in each entry that is of a command."""
        try:
            entries = [*self._entries((ALL,)), *self._entries(path)]
        except UserError as error:
            yield str(error)
            return
        for entry in entries:
            try:
                self._default(path, command, entry)
            except UserError as error:
                yield str(error)

    def _strangers(self, commands: Mapping[str, Any]) -> Iterator[str]:
        """Yield what is passed over in silence, because no command asks for it."""
        every = [command for name, one in commands.items() for _, command in leaves((name,), one)]
        options = {name for command in every for name, _ in _options(command)}
        for _, key, _ in self._entries((ALL,)):
            if key.replace("-", "_") not in options:
                yield f"{self.path}: {ALL}.{key}: no command has such an option; `reactree COMMAND --help` lists them"
        for group in commands:
            below = _below(commands[group]) or {}
            for _, name, _ in self._entries((group,)) if below else ():
                if name not in below:
                    yield f"{self.path}: '{group}.{name}' is no command; {did_you_mean(name, list(below))}"

    def defaults(self, path: Sequence[str], command: Any) -> dict[str, Default]:
        """Return what it sets of a command's options, by the names of their parameters.

        Args:
            path: The command, e.g. ``("llm", "check")``.
            command: As typer has it.

        Raises:
            UserError: The command has no such option, or the option no such value.
        """
        found: dict[str, Default] = {}
        for entry in [*self._entries((ALL,)), *self._entries(path)]:  # the later one wins
            found |= self._default(path, command, entry)
        return found

    def _default(self, path: Sequence[str], command: Any, entry: tuple[str, str, Any]) -> dict[str, Default]:
        """Return what one entry sets of a command's options: one of them, or none."""
        table, key, value = entry
        options, where = dict(_options(command)), f"{table}.{key}"
        one = options.get(key.replace("-", "_"))
        if one is not None and (table != ALL or one.name not in getattr(command.callback, "own_only", ())):
            return {one.name: Default(self._converted(command, one, value, where), self.path, where)}
        if one is None and table != ALL:
            named = [name.replace("_", "-") for name in options]
            hint = did_you_mean(key.replace("_", "-"), named)
            raise UserError(f"{self.path}: {where}: `reactree {' '.join(path)}` has no such option; {hint}")
        return {}

    def _entries(self, path: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
        table: Any = self.tables
        for name in path:
            table = table.get(name, {}) if isinstance(table, Mapping) else {}
        if not isinstance(table, Mapping):
            raise UserError(f"{self.path}: '{'.'.join(path)}' must be a table: write [{'.'.join(path)}]")
        for key, value in table.items():
            yield ".".join(path), key, value

    def _converted(self, command: Any, option: Any, value: Any, where: str) -> Any:
        """Return a value as the option takes it; a path is of the file's folder."""
        values = value if isinstance(value, list) else [value]
        if isinstance(value, list) and not option.multiple:
            raise UserError(f"{self.path}: {where}: takes one value, not a list")
        for one in values:
            kind = type(one)
            if kind not in (str, int, float, bool) or (option.is_flag and kind is not bool):
                wanted = "true or false" if option.is_flag else "a text, a number, true or false"
                raise UserError(f"{self.path}: {where}: must be {wanted}, not {str(one)[:60]!r}")
        context = typer.Context(command)
        try:
            if _is_path(option, option.process_value(context, value)):
                values = [str(self.path.parent / str(one)) for one in values]
        except Exception as error:
            if (said := getattr(error, "message", None)) is None:
                raise
            raise UserError(f"{self.path}: {where}: {said}") from None
        return values if option.multiple else values[0]


def _toml(path: Path) -> Any:
    """Return what reads TOML: Python's own, before 3.11 the package tomli."""
    for name in ("tomllib", "tomli"):
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    raise UserError(f"{path}: before 3.11 Python reads no TOML by itself: {install_line('tomli')}")


def _is_path(option: Any, value: Any) -> bool:
    """Whether an option's value is a path; typer before 0.29 says so by the option's type."""
    values = value if isinstance(value, list | tuple) else [value]
    kind = getattr(getattr(option, "type", None), "name", "")
    return kind in ("path", "file", "directory") or any(isinstance(one, Path) for one in values)


def user_file() -> Path:
    """Return where the user's file is, if there is one."""
    return Path(typer.get_app_dir("reactree")) / NAME


def files() -> list[DefaultsFile]:
    """Return the files that there are, those that count first: the project's, and the user's."""
    here, user = Path.cwd(), user_file()
    project = next((folder / NAME for folder in (here, *here.parents) if (folder / NAME).is_file()), None)
    found = [DefaultsFile(user, "user")] if user.is_file() else []
    return [DefaultsFile(project, "project"), *found] if project not in (None, user) else found


def check_files(commands: Sequence[str]) -> None:
    """Look whether all that the files set is of commands; see :meth:`DefaultsFile.check`."""
    for file in files():
        file.check(commands)


def defaults_of(path: Sequence[str], command: Any) -> dict[str, Default]:
    """Return what the files set of a command's options; see :meth:`DefaultsFile.defaults`."""
    found: dict[str, Default] = {}
    for file in reversed(files()):
        found |= file.defaults(path, command)
    return found


def default_map(path: Sequence[str], command: Any) -> dict[str, Any]:
    """Return the same as typer takes it; of a group, of each of its commands."""
    if (below := _below(command)) is not None:
        return {name: default_map((*path, name), one) for name, one in below.items()}
    return {name: default.value for name, default in defaults_of(path, command).items()}


def leaves(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command with its path; of a group, each of its commands."""
    if (below := _below(command)) is None:
        yield path, command
        return
    for name, one in below.items():
        yield from leaves((*path, name), one)


def _below(command: Any) -> Mapping[str, Any] | None:
    """Return the commands of a group; None where it is no group."""
    return getattr(command, "commands", None)


def default_of_option(command: Any) -> Iterator[tuple[Any, str]]:
    """Yield a command's options, each with the default that it has without any file, as its help shows it."""
    for _, one in _options(command):
        shown = one.show_default if isinstance(one.show_default, str) else one.default
        yield one, "" if shown is None or shown in ((), [], False) else str(shown)


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command's options by their names, as in a file."""
    for one in command.params:
        if one.param_type_name == "option":
            for name in (*one.opts, *one.secondary_opts)[:1]:
                yield name.lstrip("-").replace("-", "_"), one
