"""Defaults of options from files: ``reactree.toml`` of the project, then that of the user.

The user's own file may set every option. A project's file may come from somebody else: it counts once its content was
trusted (see :mod:`reactree_ros.cli.trusted`), and never for what starts, opens, loads or sends something.

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

#: Whose a file is.
PROJECT, USER = "project", "user"
NOT_BY_A_PROJECT = "what starts, opens, loads or sends something is not set by a project's file"
WAYS = "`reactree config trust` lets it count as it is now, `reactree config distrust` passes it over"
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
    def content(self) -> bytes:
        """What is in it, read once: what was trusted is what is used.

        Raises:
            UserError: It cannot be read, or a stranger could have put it there.
        """
        try:
            return self.path.read_bytes() if self.whose == USER else own_content(self.path)
        except OSError as error:
            raise UserError(f"{self.path}: cannot be read: {error.strerror or error}") from None

    @cached_property
    def tables(self) -> Mapping[str, Any]:
        """What it says.

        Raises:
            UserError: It cannot be read, or is no TOML.
        """
        toml = _toml(self.path)
        try:
            tables: Mapping[str, Any] = toml.loads(self.content.decode())
            check_values(tables)
        except UnicodeDecodeError as error:
            raise UserError(f"{self.path}: cannot be read: {error}") from None
        except ValueError as error:  # of TOML, or of a number of more digits than Python reads
            raise UserError(f"{self.path}: is no TOML: {in_a_line(error)}") from None
        except RecursionError:
            raise UserError(f"{self.path}: is no TOML: its values lie too deep in one another") from None
        return tables

    def sets(self) -> str:
        """Say what it sets, in one line, e.g. ``run.max_steps = 3``.

        Raises:
            UserError: It cannot be read, or is no TOML.
        """
        return _listed(self.tables)

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
            if self.whose != USER and not _harmless_option(command, one, value):
                way_out = f"say it on the command line, or in your own {user_file()}"
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


def _harmless_option(command: Any, one: Any, value: Any) -> bool:
    """Return whether an option may be set by a project's file; what it may be is declared where it is made."""
    declared = inspect.signature(command.callback, eval_str=True).parameters[one.name].annotation
    values = value if isinstance(value, list) else [value]
    return all(is_harmless(declared, each) for each in values)


def user_file() -> Path:
    """Return where the user's file is, if there is one."""
    return user_folder() / NAME


def files(place: Path | None = None) -> list[DefaultsFile]:
    """Return the files that there are, those that count first: the project's, and the user's.

    Args:
        place: A project's folder, or its file; None: this folder.
    """
    here, user = Path.cwd() if place is None else place.resolve(), user_file()
    here = here.parent if here.name == NAME else here
    project = next((folder / NAME for folder in (here, *here.parents) if (folder / NAME).is_file()), None)
    found = [DefaultsFile(user, USER)] if user.is_file() else []
    if project is None or (found and project.samefile(user)):
        return found
    return [DefaultsFile(project, PROJECT), *found]


def used_files() -> list[DefaultsFile]:
    """Return those that count: the user's, and before it the project's, once it is trusted."""
    return [file for file in files() if file.whose == USER or standing(file) is Standing.TRUSTED]


def standing(file: DefaultsFile) -> Standing:
    """Return how a project's file stands with the user; strange where nobody can trust it."""
    try:
        return standing_of(file.path, file.content)
    except UserError:
        return Standing.STRANGE


def check_trust() -> None:
    """Ask whether a project's file of which the user has said nothing yet is to count.

    Raises:
        UserError: Nobody can be asked, or said no; the message says how it is trusted, or passed over.
    """
    for file in files():
        if file.whose == USER or standing(file) is not Standing.UNKNOWN:
            continue
        told = f"{file.path}: would set {file.sets() or 'nothing'}"
        yes = agreed(told, "Whoever wrote that file decides this. Do you trust it as it is now?")
        if yes is None:
            raise UserError(f"{told}, and was not trusted yet; {WAYS}")
        if not yes:
            raise UserError(f"{file.path}: nothing was done; {WAYS}")
        remember(file.path, file.content, Standing.TRUSTED)


def told_at_start(path: Sequence[str], command: Any) -> str:
    """Say in one line which files set what of a command differs from the built-in defaults; empty where none does."""
    builtin = {option.name: text for option, text in default_of_option(command)}
    said: dict[Path, list[str]] = {}
    for name, default in defaults_of(path, command).items():
        if str(default.value) != builtin[name]:
            said.setdefault(default.file, []).append(f"{default.key} = {shown(name, default.value)}")
    lines = [f"{file} sets {', '.join(one)}" for file, one in said.items()]
    return "; ".join([*lines, *(why for file in files() if (why := why_not(file)))])


def why_not(file: DefaultsFile) -> str:
    """Say why a project's file does not count; empty where it does."""
    if file.whose == USER:
        return ""
    try:
        now = standing_of(file.path, file.content)
    except UserError as error:
        return f"{error}; it is passed over"
    return {
        Standing.TRUSTED: "",
        Standing.PASSED_OVER: f"{file.path}: is passed over, as you said; `reactree config trust` lets it count",
    }.get(now, f"{file.path}: was not trusted yet")


def said_by_user(name: str, value: Any) -> bool:
    """Return whether the user's own file sets an option, or a setting by a ``NAME=VALUE``, to the same value."""
    return any(one == name and (text == value or _read(text) == value) for one, text in _of_user())


def _read(text: Any) -> Any:
    """Return what a text of a ``NAME=VALUE`` stands for."""
    from reactree_ros.llm.settings import read_yaml

    try:
        return read_yaml(text) if isinstance(text, str) else text
    except ValueError:
        return text


def policy_of_user() -> Path | None:
    """Return the skill policy that the user's own file has for ``reactree run``; None where it has none."""
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
    """Look whether all that the files set is of commands; see :meth:`DefaultsFile.check`."""
    for file in used_files():
        file.check(commands)


def defaults_of(path: Sequence[str], command: Any) -> dict[str, Default]:
    """Return what the files set of a command's options; see :meth:`DefaultsFile.defaults`."""
    found: dict[str, Default] = {}
    for file in reversed(used_files()):
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
