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
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import check_values, in_a_line
from reactree_ros.files.secrecy import shown
from reactree_ros.files.whole_file import home
from reactree_ros.plugins.installation import install_line
from reactree_ros.plugins.settings import did_you_mean

NAME = "reactree.toml"
#: The table for every command that has the option.
ALL = "all"


class Default(NamedTuple):
    """An option's default, and its key in the file, e.g. ``run.max_steps``."""

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
        """The tables in the file."""
        try:
            text = self.path.read_bytes().decode("utf-8-sig")
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{self.path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        try:
            tables: Mapping[str, Any] = _toml(self.path).loads(text)
            check_values(tables)
        except ValueError as error:  # not TOML, or a number with more digits than Python reads
            raise UserError(f"{self.path}: is not TOML: {in_a_line(error)}") from None
        except RecursionError:
            raise UserError(f"{self.path}: is not TOML: its values are nested too deeply") from None
        return tables

    def sets(self) -> str:
        """List what the file sets, in one line, e.g. ``run.max_steps = 3``."""
        return _listed(self.tables)

    def check(self) -> None:
        """Check that every table belongs to a command."""
        for name, table in self.tables.items():
            if name not in (ALL, *COMMANDS.names):
                raise UserError(f"{self.path}: '{name}' is no command; {did_you_mean(name, (ALL, *COMMANDS.names))}")
            if not isinstance(table, Mapping):
                raise UserError(f"{self.path}: '{name}' must be a table: write [{name}], and its options below")

    def faults(self, commands: Mapping[tuple[str, ...], Any]) -> Iterator[str]:
        """Yield each fault of the file once, given all commands; if its tables cannot be read, only that."""
        try:
            self.check()
        except UserError as error:
            yield str(error)
            return
        found = dict.fromkeys(self._strangers(commands))
        for path, command in commands.items():
            for entry in [*self._entries((ALL,)), *self._entries(path)]:
                try:
                    self._default(path, command, entry)
                except UserError as error:
                    found[str(error)] = None  # once, although [all] belongs to each command
        yield from found

    def _strangers(self, commands: Mapping[tuple[str, ...], Any]) -> Iterator[str]:
        """Yield entries that would be silently ignored, because they belong to no command."""
        options = {name for command in commands.values() for name, _ in _options(command)}
        for _, key, _ in self._entries((ALL,)):
            if key.replace("-", "_") not in options:
                yield f"{self.path}: {ALL}.{key}: no command has such an option; `reactree COMMAND --help` lists them"
        for group in {path[:1] for path in commands if len(path) > 1}:
            below = {path[1] for path in commands if path[:1] == group}
            for _, name, _ in self._entries(group):
                if name not in below:
                    yield f"{self.path}: '{group[0]}.{name}' is no command; {did_you_mean(name, sorted(below))}"

    def defaults(self, path: Sequence[str], command: Any) -> dict[str, Default]:
        """Return the file's defaults for a command, by parameter name.

        Raises:
            UserError: The command has no such option, or the option does not allow the value.
        """
        found: dict[str, Default] = {}
        for entry in [*self._entries((ALL,)), *self._entries(path)]:  # later entries win
            found |= self._default(path, command, entry)
        return found

    def changes(self, path: Sequence[str], command: Any) -> str:
        """Return a line that names the built-in defaults which the file changes; empty if it changes none."""
        builtin = {option.name: text for option, text in default_of_option(command)}
        changed = [
            f"{default.key} = {shown(name, default.value)}"
            for name, default in self.defaults(path, command).items()
            if str(default.value) != builtin[name]
        ]
        return f"{self.path} sets {', '.join(changed)}" if changed else ""

    def _default(self, path: Sequence[str], command: Any, entry: tuple[str, str, Any]) -> dict[str, Default]:
        """Return the default in one entry, or nothing if it is not for this command."""
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

    def _entries(self, path: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
        table: Any = self.tables
        for name in path:
            table = table.get(name, {}) if isinstance(table, Mapping) else {}
        if not isinstance(table, Mapping):
            raise UserError(f"{self.path}: '{'.'.join(path)}' must be a table: write [{'.'.join(path)}]")
        for key, value in table.items():
            yield ".".join(path), key, value

    def _converted(self, command: Any, option: Any, value: Any, where: str) -> Any:
        """Convert a value to the option's type; a path is relative to the file's folder."""
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
            if _is_path(option, option.process_value(context, values if option.multiple else value)):
                values = [str(self.path.parent / str(one)) for one in values]
        except Exception as error:
            if (said := getattr(error, "message", None)) is None:
                raise
            raise UserError(f"{self.path}: {where}: {said}") from None
        return values if option.multiple else values[0]


def _listed(tables: Mapping[str, Any], within: str = "") -> str:
    said = (
        _listed(value, f"{within}{name}.") if isinstance(value, Mapping) else f"{within}{name} = {shown(name, value)}"
        for name, value in tables.items()
    )
    return ", ".join(one for one in said if one)


def _toml(path: Path) -> Any:
    """Return the TOML reader: Python's own, or the package tomli before 3.11."""
    for name in ("tomllib", "tomli"):
        if importlib.util.find_spec(name) is not None:
            return importlib.import_module(name)
    raise UserError(f"{path}: Python before 3.11 cannot read TOML by itself: {install_line('tomli')}")


def _is_path(option: Any, value: Any) -> bool:
    """Return whether an option's value is a path; typer before 0.29 tells by the option's type."""
    values = value if isinstance(value, list | tuple) else [value]
    kind = getattr(getattr(option, "type", None), "name", "")
    return kind in ("path", "file", "directory") or any(
        isinstance(one, Path) or getattr(one, "is_path", False) for one in values
    )


def said_by_user(name: str, value: Any) -> bool:
    """Return whether the user's file sets an option, or a ``NAME=VALUE`` setting, to the same value."""
    return any(one == name and (text == value or _read(text) == value) for one, text in _of_user())


def _read(text: Any) -> Any:
    """Return the value in a ``NAME=VALUE`` text."""
    from reactree_ros.llm.settings import read_yaml

    try:
        return read_yaml(text) if isinstance(text, str) else text
    except ValueError:
        return text


def policy_of_user() -> Path | None:
    """Return the skill policy for ``reactree run`` in the user's file; None if it has none."""
    file = DefaultsFile()
    run = file.tables.get("run", {})
    policy = run.get("policy") if isinstance(run, Mapping) else None
    return None if policy is None else file.path.parent / str(policy)


def _of_user() -> Iterator[tuple[str, Any]]:
    waiting: list[Any] = [DefaultsFile().tables]
    while waiting:
        for name, value in waiting.pop().items():
            if isinstance(value, Mapping):
                waiting.append(value)
                continue
            yield name.replace("-", "_"), value
            for text in value if isinstance(value, list) else ():
                own, _, rest = str(text).partition("=")
                yield own, rest


def default_of_option(command: Any) -> Iterator[tuple[Any, str]]:
    """Yield a command's options, each with its built-in default as the help shows it."""
    for _, one in _options(command):
        shown = one.show_default if isinstance(one.show_default, str) else one.default
        yield one, "" if shown is None or shown in ((), [], False) else str(shown)


def _options(command: Any) -> Iterator[tuple[str, Any]]:
    """Yield a command's options with their names in a file."""
    for one in command.params:
        if one.param_type_name == "option":
            for name in (*one.opts, *one.secondary_opts)[:1]:
                yield name.lstrip("-").replace("-", "_"), one
