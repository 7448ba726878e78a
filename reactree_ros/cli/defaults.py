"""Defaults of options from the user's own file ``reactree.toml``. No file in a project's folder sets any.

It has a table for each command, ``[run]`` or ``[llm.check]``, and ``[all]`` for every command that has an option::

    [all]
    llm = "openai"
    base_url = "http://gpu-machine:8000/v1"

    [run]
    max_steps = 100
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import typer

from reactree_ros.cli.commands import COMMANDS
from reactree_ros.cli.help import default_of
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import check_values, in_a_line, text_of
from reactree_ros.files.secrecy import shown
from reactree_ros.files.whole_file import home
from reactree_ros.plugins.installation import install_line
from reactree_ros.plugins.settings import did_you_mean

NAME = "reactree.toml"
#: The table for every command that has the option.
ALL = "all"


class Default(NamedTuple):
    value: Any
    key: str


def user_file() -> Path:
    """Return the path of the user's file, whether it exists or not.

    A relative path in the environment is ignored: it would lead into the current folder, which may be somebody else's.
    """
    folder = Path(typer.get_app_dir("reactree"))
    return (folder if folder.is_absolute() else home() / ".config" / "reactree") / NAME


class DefaultsFile:
    """The user's file of defaults; without a file there are none."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = user_file() if path is None else path

    @cached_property
    def tables(self) -> Mapping[str, Any]:
        if not self.path.is_file():
            return {}
        text = text_of(self.path)
        try:
            tables: Mapping[str, Any] = _toml(self.path).loads(text)
            check_values(tables)
        except (ValueError, RecursionError) as error:  # not TOML, or a number with more digits than Python reads
            raise UserError(f"{self.path}: is not TOML: {in_a_line(error)}") from None
        return tables

    def check(self) -> None:
        for name, table in self.tables.items():
            if name not in (ALL, *COMMANDS.names):
                raise UserError(f"{self.path}: '{name}' is not a command; {did_you_mean(name, (ALL, *COMMANDS.names))}")
            if not isinstance(table, Mapping):
                raise UserError(f"{self.path}: '{name}' must be a table: write [{name}], and its options below")

    def faults(self, commands: Mapping[tuple[str, ...], Any]) -> Iterator[str]:
        try:
            self.check()
        except UserError as error:
            yield str(error)
            return
        options = {name for command in commands.values() for name, _ in _options(command)}
        for _, key, _ in self._entries((ALL,)):
            if key.replace("-", "_") not in options:
                yield f"{self.path}: {ALL}.{key}: no command has such an option; `reactree COMMAND --help` lists them"
        for group in {path[0]: None for path in commands if len(path) > 1}:
            below = sorted(path[1] for path in commands if path[0] == group)
            for _, name, _ in self._entries((group,)):
                if name not in below:
                    yield f"{self.path}: '{group}.{name}' is not a command; {did_you_mean(name, below)}"
        found = dict[str, None]()
        for path, command in commands.items():
            for entry in self._entries((ALL,), path):
                try:
                    self._default(path, command, entry)
                except UserError as error:
                    found[str(error)] = None  # once, although [all] belongs to each command
        yield from found

    def defaults(self, path: Sequence[str], command: Any) -> dict[str, Default]:
        found: dict[str, Default] = {}
        for entry in self._entries((ALL,), path):  # later entries win
            found |= self._default(path, command, entry)
        return found

    def changes(self, path: Sequence[str], command: Any) -> str:
        builtin = {option.name: text for option, text in default_of_option(command)}
        changed = [
            f"{default.key} = {shown(name, default.value)}"
            for name, default in self.defaults(path, command).items()
            if _said(default.value) != builtin[name]
        ]
        return f"{self.path} sets {', '.join(changed)}" if changed else ""

    def values(self) -> Iterator[tuple[str, str, Any]]:
        waiting: list[tuple[str, Mapping[str, Any]]] = [("", self.tables)]
        while waiting:
            within, table = waiting.pop(0)
            for name, value in table.items():
                if isinstance(value, Mapping):
                    waiting.append((f"{within}{name}.", value))
                else:
                    yield within, name, value

    def _entries(self, *paths: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
        for path in paths:
            table: Any = self.tables
            for name in path:
                table = table.get(name, {}) if isinstance(table, Mapping) else {}
            within = ".".join(path)
            if not isinstance(table, Mapping):
                raise UserError(f"{self.path}: '{within}' must be a table: write [{within}]")
            for key, value in table.items():
                yield within, key, value

    def _default(self, path: Sequence[str], command: Any, entry: tuple[str, str, Any]) -> dict[str, Default]:
        # the default in one entry, or nothing if it is not for this command
        table, key, value = entry
        options, where = dict(_options(command)), f"{table}.{key}"
        one = options.get(key.replace("-", "_"))
        if one is not None and (table != ALL or one.name not in getattr(command.callback, "own_only", ())):
            return {one.name: Default(self._converted(command, one, value, where), where)}
        if one is None and table != ALL:
            named = [name.replace("_", "-") for name in options]
            hint = did_you_mean(key.replace("_", "-"), named)
            raise UserError(f"{self.path}: {where}: `reactree {' '.join(path)}` has no such option; {hint}")
        return {}

    def _converted(self, command: Any, option: Any, value: Any, where: str) -> Any:
        # as the option's type has it; a path is relative to the file's folder
        values = value if isinstance(value, list) else [value]
        if isinstance(value, list) and not option.multiple:
            raise UserError(f"{self.path}: {where}: takes one value, not a list")
        for one in values:
            kind = type(one)
            if kind not in (str, int, float, bool) or (option.is_flag and kind is not bool):
                wanted = "true or false" if option.is_flag else "a text, a number, true or false"
                raise UserError(f"{self.path}: {where}: must be {wanted}, not {str(one)[:60]!r}")
        try:
            read = option.process_value(typer.Context(command), values if option.multiple else value)
        except Exception as error:
            if (problem := getattr(error, "message", None)) is None:
                raise
            raise UserError(f"{self.path}: {where}: {problem}") from None
        first = read[:1] if isinstance(read, list | tuple) else [read]
        if any(isinstance(one, Path) or getattr(one, "is_path", False) for one in first):
            values = [str(self.path.parent / str(one)) for one in values]
        return values if option.multiple else values[0]


def _toml(path: Path) -> Any:
    # Python's own reader, or the package tomli before 3.11
    for name in ("tomllib", "tomli"):
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    raise UserError(f"{path}: Python before 3.11 cannot read TOML by itself: {install_line('tomli')}")


def said_by_user(name: str, value: Any) -> bool:
    for _, option, given in DefaultsFile().values():
        settings = [str(text).partition("=")[::2] for text in given] if isinstance(given, list) else []
        for own, text in [(option.replace("-", "_"), given), *settings]:
            if own == name and (text == value or _read(text) == value):
                return True
    return False


def _read(text: Any) -> Any:
    from reactree_ros.llm.spec import read_yaml

    try:
        return read_yaml(text) if isinstance(text, str) else text
    except ValueError:
        return text


def policy_of_user() -> Path | None:
    file = DefaultsFile()
    run = file.tables.get("run", {})
    policy = run.get("policy") if isinstance(run, Mapping) else None
    return None if policy is None else file.path.parent / str(policy)


def default_of_option(command: Any) -> Iterator[tuple[Any, str]]:
    for _, one in _options(command):
        yield one, default_of(one) or _said(one.default)


def _said(value: Any) -> str:
    return "none" if value in (None, "", (), []) else str(value).lower() if isinstance(value, bool) else str(value)


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    # with their names in a file
    for one in command.params:
        if one.param_type_name == "option":
            yield (*one.opts, *one.secondary_opts)[0].lstrip("-").replace("-", "_"), one
