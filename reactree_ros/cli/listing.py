"""``reactree list`` and ``reactree doctor``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli import NOT_ACHIEVED, every_command
from reactree_ros.cli.commands import COMMANDS
from reactree_ros.cli.defaults import NAME, DefaultsFile, default_of_option
from reactree_ros.cli.opening import say, warn
from reactree_ros.cli.options import allowed_text, complete_listed, default_text, kinds, memory_option
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import shown
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins import Registry, Spec
from reactree_ros.plugins.installation import Diagnosis, Level, install_line
from reactree_ros.plugins.settings import Settings, did_you_mean, or_nearest
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.spec import WORLDS

app = typer.Typer(add_completion=False)
#: The lists that come from no registry.
WORDS, OPTIONS, DEFAULTS = "words", "options", "defaults"


@app.command("list", epilog="reactree list\nreactree list openai\nreactree list defaults run")
def listing(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A planner, world, language model, memory or suite by name, or a kind: planners, worlds, models, "
            "memories, suites, options, words, defaults. By default everything, one line each.",
            autocompletion=complete_listed,
        ),
    ] = None,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="COMMAND",
            help="After `defaults`: a command, such as `run` or `llm check`, to see all of its options.",
        ),
    ] = None,
) -> None:
    """List planners, worlds, language models, memories and task suites, or show the settings of one.

    Give a setting as --world-option, --llm-option or --suite-option NAME=VALUE, a planner's as --planner
    NAME:OPTION=VALUE, and a memory's as --memory NAME:SETTING=VALUE.

    `options` lists the options of a run: give one as --option NAME=VALUE. `words` lists the words for furniture and
    objects that semantic maps and the expert use. `defaults` lists what your own `reactree.toml` sets, which the
    command line overrides.
    """
    if command and name != DEFAULTS:
        raise UserError(f"'{' '.join(command)}': only `reactree list {DEFAULTS}` takes a command")
    registries = kinds()
    if name == WORDS:
        _list_words()
    elif name == OPTIONS:
        Console().print(_settings_table("option", RunOptions), markup=False, highlight=False)
    elif name == DEFAULTS:
        _list_defaults(tuple(command or ()))
    elif name is not None and name not in registries:
        _show_one(name, registries)
    else:
        specs = {kind: list(_specs(registries[kind])) for kind in (registries if name is None else [name])}
        if name is None:
            _show_all(specs)
        else:
            _show(name, specs[name])


def _list_defaults(words: tuple[str, ...]) -> None:
    file = DefaultsFile()
    say(in_one_line(str(file.path) if file.path.exists() else f"There is no {file.path}"), "dim")
    commands = {path: command for path, command in every_command() if path[: len(words)] == words}
    if not commands:
        raise UserError(f"'{' '.join(words)}' is not a command; {did_you_mean(words[0], COMMANDS.names)}")
    table = Table("command", "option", "value", "from", box=None, pad_edge=False)
    for path, command in commands.items():
        defaults = file.defaults(path, command)
        for option, builtin in default_of_option(command):
            row = [" ".join(path), option.opts[0]]
            if default := defaults.get(option.name):
                table.add_row(*row, in_one_line(str(shown(option.name, default.value))), default.key)
            elif words:
                table.add_row(*row, builtin, "built in")
    if table.row_count:
        Console().print(table)


def _show_one(name: str, registries: Mapping[str, Registry[Any]]) -> None:
    plain = name.partition(":")[0].removesuffix("_wm")  # a planner's name without options and memory
    found = {kind: registry for kind, registry in registries.items() if plain in registry.names}
    if not found:
        known = [*registries, WORDS, OPTIONS, DEFAULTS]
        known += [one for registry in registries.values() for one in registry.names]
        hint = or_nearest(name, known) or "; `reactree list` shows all names"
        raise UserError(f"'{name}' is not a known name{hint}")
    for kind, registry in found.items():
        _show(kind, [registry.get(plain)])


def _show_all(specs: Mapping[str, Sequence[Spec]]) -> None:
    width = max((len(_named(spec)) for found in specs.values() for spec in found), default=1)
    table = Table(Column(no_wrap=True, min_width=width), Column(), box=None, padding=(0, 2, 0, 0), show_header=False)
    for kind, found in specs.items():
        table.add_row(Text(kind.capitalize(), style="bold underline"), "")
        for spec in found:
            table.add_row(Text(_named(spec)), Text(spec.summary))
    Console().print(table)
    one = next((spec.name for found in specs.values() for spec in found), "NAME")
    say(f"Settings of one: reactree list NAME, e.g. reactree list {one}", "dim")


def _list_words() -> None:
    table = Table("use", "properties", "words")
    for use, properties, words in words_of_worlds():
        table.add_row(use, "\n".join(properties), ", ".join(words))
    Console().print(table, markup=False, highlight=False)


def words_of_worlds() -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    # of every world's things, without duplicates
    return list(dict.fromkeys(row for spec in WORLDS for row in spec.words()))


def _specs(registry: Registry[Any]) -> Iterator[Any]:
    # what can be loaded; problems of plug-ins are told
    for problem in registry.problems():
        warn(problem)
    yield from registry


def _show(title: str, specs: Sequence[Spec]) -> None:
    say(title.capitalize(), "bold underline")
    for spec in specs:
        needs = f" ({install_line(spec.extra)})" if spec.extra else ""
        Console().print(f"\n{_named(spec)}: {spec.summary}{needs}", style="bold", markup=False, highlight=False)
        if spec.settings.model_fields:
            Console().print(_settings_table("setting", spec.settings), markup=False, highlight=False)
    say("")


def _settings_table(title: str, settings: type[Settings]) -> Table:
    table = Table(Column(title, overflow="fold"), "default", "allowed", "description")
    for name, field in settings.model_fields.items():
        table.add_row(name, default_text(field), allowed_text(field), field.description)
    return table


def _named(spec: Spec) -> str:
    return ", ".join([spec.name, *([f"{spec.name}_wm"] if getattr(spec, "remembers", False) else [])])


doctor_app = typer.Typer(add_completion=False)
SIGNS = {Level.RIGHT: "ok", Level.NOTE: "--", Level.WRONG: "!!"}
_STYLES = {Level.RIGHT: "green", Level.NOTE: "dim", Level.WRONG: "bold red"}


@doctor_app.command(epilog="reactree doctor\nreactree doctor --base-url http://gpu-machine:8000/v1")
def doctor(
    base_url: Annotated[
        str, typer.Option(help="Check also whether this server answers; empty: $OPENAI_BASE_URL.")
    ] = "",
    models: Annotated[
        Path | None, typer.Option(help="A YAML file of language models: check whether their servers answer.")
    ] = None,
    memory: Annotated[
        NamedMemory | None, memory_option("An episodic memory: check whether it is readable, and what it contains.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Check everything that this package can use, and show a remedy for each problem. Nothing is changed.

    Each line is ok, -- (absent, and only needed if you want it) or !! (wrong, with a remedy). No key is printed: you
    can put the output into an issue report. Exit code 0 if nothing is wrong, else 1.
    """
    from reactree_ros.doctor import examine

    console, found = Console(soft_wrap=True), {}
    with Console(stderr=True).status("Looking") as status:
        own = {"Defaults of options": _defaults}
        for title, diagnoses in examine(own, base_url=base_url, models=models, memory=memory):
            found[title] = diagnoses
            status.update(f"Checked {title}")
    wrong = sum(one.level is Level.WRONG for diagnoses in found.values() for one in diagnoses)
    if as_json:
        sections = {
            title: [
                {"what": one.what, "verdict": one.level.value, "said": one.said, "mend": one.remedy}
                for one in diagnoses
            ]
            for title, diagnoses in found.items()
        }
        print(json.dumps({"wrong": wrong, "sections": sections}))  # noqa: T201
    else:
        for title, diagnoses in found.items():
            console.print(Text(title, "bold"))
            for one in diagnoses:
                line = Text.assemble("  ", (SIGNS[one.level], _STYLES[one.level]), f"  {one.what}: {one.said}")
                console.print(line.append(f"  ({one.remedy})" if one.remedy else "", "dim"))
        count = sum(map(len, found.values()))
        console.print(f"{wrong} of {count} wrong" if wrong else "nothing is wrong", highlight=False)
    if wrong:
        raise typer.Exit(NOT_ACHIEVED)


def _defaults() -> Iterator[Diagnosis]:
    # what the user's file of defaults sets, or its faults
    file = DefaultsFile()
    if not file.path.exists():
        yield Diagnosis(NAME, Level.NOTE, f"there is no {file.path}")
        return
    faults = list(file.faults(dict(every_command())))
    for fault in faults:
        remedy = "correct it; `reactree list defaults` then shows the value of each option"
        yield Diagnosis(NAME, Level.WRONG, fault, remedy)
    if not faults:
        values = ", ".join(f"{within}{name} = {shown(name, value)}" for within, name, value in file.values())
        yield Diagnosis(NAME, Level.RIGHT, f"{file.path} sets {values or 'nothing'}")
