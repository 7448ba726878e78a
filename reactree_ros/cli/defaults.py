"""Defaults of options from files: ``reactree.toml`` of the project, then that of the user.

The user's own file may set every option. A project's file may come from somebody else. It counts only once the user has
trusted its content (see :mod:`reactree_ros.cli.trusted`). It can never set an option that starts, opens, loads or sends
something.

A file has a table for each command, ``[run]`` or ``[llm.check]``, and ``[all]`` for every command that has an option::

    [all]
    llm = "openai"
    base_url = "http://gpu-machine:8000/v1"

    [run]
    max_steps = 100
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import typer

from reactree_ros.cli.asking import agreed
from reactree_ros.cli.trusted import NAME, Standing, own_content, remember, standing_of, user_folder
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import check_values, in_a_line
from reactree_ros.files.secrecy import shown
from reactree_ros.plugins.installation import install_line
from reactree_ros.plugins.settings import did_you_mean, is_harmless

#: Owners of a file.
PROJECT, USER = "project", "user"
NOT_BY_A_PROJECT = "a project's file may not set an option that starts, opens, loads or sends something"
WAYS = "`reactree config trust` trusts its current content, `reactree config distrust` ignores it"
#: The table for every command that has the option.
ALL = "all"


@dataclass(frozen=True)
class Default:
    """An option's default from a file, and its key there, e.g. ``run.max_steps``."""

    value: Any
    file: Path
    key: str


class DefaultsFile:
    """A file of defaults, the project's or the user's."""

    def __init__(self, path: Path, whose: str) -> None:
        self.path = path
        self.whose = whose

    @cached_property
    def content(self) -> bytes:
        """The file's content, read once, so that the trusted content is the used one."""
        try:
            return self.path.read_bytes() if self.whose == USER else own_content(self.path)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read: {error.strerror or error}") from None

    @cached_property
    def tables(self) -> Mapping[str, Any]:
        """The tables in the file."""
        toml = _toml(self.path)
        try:
            tables: Mapping[str, Any] = toml.loads(self.content.decode("utf-8-sig"))
            check_values(tables)
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path}: cannot be read: {error}") from None
        except ValueError as error:  # not TOML, or a number with more digits than Python reads
            raise UserError(f"{self.path}: is not TOML: {in_a_line(error)}") from None
        except RecursionError:
            raise UserError(f"{self.path}: is not TOML: its values are nested too deeply") from None
        return tables

    def sets(self) -> str:
        """List what the file sets, in one line, e.g. ``run.max_steps = 3``."""
        return _listed(self.tables)

    def check(self, commands: Sequence[str]) -> None:
        """Check that every table belongs to a command."""
        for name, table in self.tables.items():
            if name not in (ALL, *commands):
                raise UserError(f"{self.path}: '{name}' is no command; {did_you_mean(name, (ALL, *commands))}")
            if not isinstance(table, Mapping):
                raise UserError(f"{self.path}: '{name}' must be a table: write [{name}], and its options below")

    def faults(self, commands: Mapping[str, Any]) -> Iterator[str]:
        """Yield each fault of the file once; if its tables cannot be read, only that."""
        try:
            self.check(list(commands))
        except UserError as error:
            yield str(error)
            return
        found = dict.fromkeys(self._strangers(commands))
        for name, one in commands.items():
            for path, command in leaves((name,), one):
                found |= dict.fromkeys(self._refused(path, command))  # once, although [all] belongs to each command
        yield from found

    def _refused(self, path: Sequence[str], command: Any) -> Iterator[str]:
        """Yield the faults of a command's entries."""
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
        """Yield entries that would be silently ignored, because they belong to no command."""
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
        """Return the file's defaults for a command, by parameter name.

        Raises:
            UserError: The command has no such option, or the option does not allow the value.
        """
        found: dict[str, Default] = {}
        for entry in [*self._entries((ALL,)), *self._entries(path)]:  # later entries win
            found |= self._default(path, command, entry)
        return found

    def _default(self, path: Sequence[str], command: Any, entry: tuple[str, str, Any]) -> dict[str, Default]:
        """Return the default in one entry, or nothing if it is not for this command."""
        table, key, value = entry
        options, where = dict(_options(command)), f"{table}.{key}"
        one = options.get(key.replace("-", "_"))
        if one is not None and (table != ALL or one.name not in getattr(command.callback, "own_only", ())):
            if self.whose != USER and not _harmless_option(command, one, value):
                way_out = f"set it on the command line, or in your own {user_file()}"
                raise UserError(f"{self.path}: {where}: {NOT_BY_A_PROJECT}; {way_out}")
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


def _harmless_option(command: Any, one: Any, value: Any) -> bool:
    """Return whether a project's file may set an option, as declared for the option."""
    declared = inspect.signature(command.callback, eval_str=True).parameters[one.name].annotation
    values = value if isinstance(value, list) else [value]
    return all(is_harmless(declared, each) for each in values)


def user_file() -> Path:
    """Return the path of the user's file, whether it exists or not."""
    return user_folder() / NAME


def files(place: Path | None = None) -> list[DefaultsFile]:
    """Return the existing files: the project's, which comes first, and the user's.

    Args:
        place: A project's folder, or its file; None for the current folder.
    """
    here, user = Path.cwd() if place is None else place.resolve(), user_file()
    here = here.parent if here.name == NAME else here
    project = next((folder / NAME for folder in (here, *here.parents) if (folder / NAME).is_file()), None)
    found = [DefaultsFile(user, USER)] if user.is_file() else []
    if project is None or (found and project.samefile(user)):
        return found
    return [DefaultsFile(project, PROJECT), *found]


def used_files() -> list[DefaultsFile]:
    """Return the files that count: the project's, if trusted, and the user's."""
    return [file for file in files() if file.whose == USER or standing(file) is Standing.TRUSTED]


def standing(file: DefaultsFile) -> Standing:
    """Return the trust in a project's file; strange if nobody can trust it."""
    try:
        return standing_of(file.path, file.content)
    except UserError:
        return Standing.STRANGE


def check_trust() -> None:
    """Ask whether to trust a project's file that is neither trusted nor ignored yet.

    Raises:
        UserError: Nobody can be asked, or the answer is no; the message says how to trust or ignore it.
    """
    for file in files():
        if file.whose == USER or standing(file) is not Standing.UNKNOWN:
            continue
        told = f"{file.path}: wants to set {file.sets() or 'nothing'}"
        yes = agreed(told, "The author of that file decides this. Do you trust its current content?")
        if yes is None:
            raise UserError(f"{told}, and is not trusted yet; {WAYS}")
        if not yes:
            raise UserError(f"{file.path}: nothing was done; {WAYS}")
        remember(file.path, file.content, Standing.TRUSTED)


def told_at_start(path: Sequence[str], command: Any) -> str:
    """Return a line that names the files which change a command's defaults; empty if none does."""
    builtin = {option.name: text for option, text in default_of_option(command)}
    said: dict[Path, list[str]] = {}
    for name, default in defaults_of(path, command).items():
        if str(default.value) != builtin[name]:
            said.setdefault(default.file, []).append(f"{default.key} = {shown(name, default.value)}")
    lines = [f"{file} sets {', '.join(one)}" for file, one in said.items()]
    return "; ".join([*lines, *(why for file in files() if (why := why_not(file)))])


def why_not(file: DefaultsFile) -> str:
    """Return why a project's file does not count; empty if it does."""
    if file.whose == USER:
        return ""
    try:
        now = standing_of(file.path, file.content)
    except UserError as error:
        return f"{error}; it is ignored"
    return {
        Standing.TRUSTED: "",
        Standing.PASSED_OVER: f"{file.path}: is ignored, as you chose; `reactree config trust` trusts it",
    }.get(now, f"{file.path}: is not trusted yet")


def said_by_user(name: str, value: Any) -> bool:
    """Return whether the user's own file sets an option, or a ``NAME=VALUE`` setting, to the same value."""
    return any(one == name and (text == value or _read(text) == value) for one, text in _of_user())


def _read(text: Any) -> Any:
    """Return the value in a ``NAME=VALUE`` text."""
    from reactree_ros.llm.settings import read_yaml

    try:
        return read_yaml(text) if isinstance(text, str) else text
    except ValueError:
        return text


def policy_of_user() -> Path | None:
    """Return the skill policy for ``reactree run`` in the user's own file; None if it has none."""
    file = DefaultsFile(user_file(), USER)
    run = file.tables.get("run", {}) if file.path.is_file() else {}
    policy = run.get("policy") if isinstance(run, Mapping) else None
    return None if policy is None else file.path.parent / str(policy)


def _of_user() -> Iterator[tuple[str, Any]]:
    file = DefaultsFile(user_file(), USER)
    waiting: list[Any] = [file.tables] if file.path.is_file() else []
    while waiting:
        for name, value in waiting.pop().items():
            if isinstance(value, Mapping):
                waiting.append(value)
                continue
            yield name.replace("-", "_"), value
            for text in value if isinstance(value, list) else ():
                own, _, rest = str(text).partition("=")
                yield own, rest


def check_files(commands: Sequence[str]) -> None:
    """Check that all tables belong to commands; see :meth:`DefaultsFile.check`."""
    for file in used_files():
        file.check(commands)


def defaults_of(path: Sequence[str], command: Any) -> dict[str, Default]:
    """Return the files' defaults for a command; see :meth:`DefaultsFile.defaults`."""
    found: dict[str, Default] = {}
    for file in reversed(used_files()):
        found |= file.defaults(path, command)
    return found


def default_map(path: Sequence[str], command: Any) -> dict[str, Any]:
    """Return the same in typer's form; for a group, with each of its commands."""
    if (below := _below(command)) is not None:
        return {name: default_map((*path, name), one) for name, one in below.items()}
    return {name: default.value for name, default in defaults_of(path, command).items()}


def leaves(path: tuple[str, ...], command: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield a command with its path; for a group, each of its commands."""
    if (below := _below(command)) is None:
        yield path, command
        return
    for name, one in below.items():
        yield from leaves((*path, name), one)


def _below(command: Any) -> Mapping[str, Any] | None:
    """Return the commands of a group; None if it is no group."""
    return getattr(command, "commands", None)


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
