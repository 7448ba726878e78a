"""``reactree list`` and ``reactree doctor``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from reactree_ros.agent.text import in_one_line
from reactree_ros.cli import NOT_ACHIEVED, every_command
from reactree_ros.cli.commands import COMMANDS
from reactree_ros.cli.defaults import NAME, DefaultsFile, default_of_option
from reactree_ros.cli.opening import say, warn
from reactree_ros.cli.options import allowed_text, complete_listed, default_text, kinds, memory_option
from reactree_ros.cli.output import on_terminal, print_diagnosis, print_groups, print_indented, print_table
from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import shown
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins import BESIDE, Registry, Spec
from reactree_ros.plugins.installation import Diagnosis, Level, install_line, is_command, lacking
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

    In a pipe, each is a line, with tabs between its parts.

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
        _show_settings("run", "the options of a run", RunOptions)
    elif name == DEFAULTS:
        _list_defaults(tuple(command or ()))
    elif name is not None and name not in registries:
        _show_one(name, registries)
    else:
        specs = {kind: list(_specs(registries[kind])) for kind in (registries if name is None else [name])}
        if name is None:
            _show_all(specs)
        else:
            _show(specs[name])


def _list_defaults(words: tuple[str, ...]) -> None:
    file = DefaultsFile()
    say(in_one_line(str(file.path) if file.path.exists() else f"There is no {file.path}"), "dim")
    commands = {path: command for path, command in every_command() if path[: len(words)] == words}
    if not commands:
        raise UserError(f"'{' '.join(words)}' is not a command; {did_you_mean(words[0], COMMANDS.names)}")
    rows = []
    for path, command in commands.items():
        defaults = file.defaults(path, command)
        for option, builtin in default_of_option(command):
            if default := defaults.get(option.name):
                value, by = str(shown(option.name, default.value)), default.key
            else:
                value, by = builtin, "built in"
            if words or default:
                rows.append((" ".join(path), option.opts[0], value, by))
    print_table(("command", "option", "value", "from"), rows)


def _show_one(name: str, registries: Mapping[str, Registry[Any]]) -> None:
    plain = name.partition(":")[0].removesuffix("_wm")  # a planner's name without options and memory
    found = {kind: registry for kind, registry in registries.items() if plain in registry.names}
    if not found:
        known = [*registries, WORDS, OPTIONS, DEFAULTS]
        known += [one for registry in registries.values() for one in registry.names]
        hint = or_nearest(name, known) or "; `reactree list` shows all names"
        raise UserError(f"'{name}' is not a known name{hint}")
    _show([registry.get(plain) for registry in found.values()])


def _show_all(specs: Mapping[str, Sequence[Spec]]) -> None:
    if on_terminal():
        print_groups(
            {kind.capitalize(): [(_named(one), one.summary) for one in found] for kind, found in specs.items()}
        )
        say("")
        print_indented("Settings of one: reactree list NAME, e.g. reactree list openai", "", "dim")
    else:
        rows = [(kind, _named(one), one.summary) for kind, found in specs.items() for one in found]
        print_table(("kind", "name", "description"), rows)


def _list_words() -> None:
    rows = ((use, ", ".join(properties), ", ".join(words)) for use, properties, words in words_of_worlds())
    print_table(("use", "properties", "words"), rows)


def words_of_worlds() -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    # of every world's things, without duplicates
    return list(dict.fromkeys(row for spec in WORLDS for row in spec.words()))


def _specs(registry: Registry[Any]) -> Iterator[Any]:
    # what can be loaded; problems of plug-ins are told
    for problem in registry.problems():
        warn(problem)
    yield from registry


def _show(specs: Sequence[Spec]) -> None:
    for number, spec in enumerate(specs):
        needs = install_line(spec.extra) if spec.extra and lacking(spec.extra) else ""
        _show_settings(_named(spec), spec.summary, spec.settings, needs, first=not number)


def _show_settings(name: str, summary: str, settings: type[Settings], needs: str = "", *, first: bool = True) -> None:
    """Print what has settings, with the line that installs what it lacks; in a pipe, a line for each setting."""
    rows = [
        (one, default_text(field), allowed_text(field), str(field.description))
        for one, field in settings.model_fields.items()
    ]
    if not on_terminal():
        print_table((), [(name, summary, *filter(None, [needs])), *((name, *row) for row in rows)])
        return
    said = (
        (one, f"{text} [{f'{allowed}; ' if allowed else ''}default: {default}]") for one, default, allowed, text in rows
    )
    if not first:
        say("")
    print_groups({f"{name}: {summary}": said})
    if needs:
        say("  to install it:")
        print_indented(needs, "    ", "yellow")


def _named(spec: Spec) -> str:
    return ", ".join([spec.name, *([f"{spec.name}_wm"] if getattr(spec, "remembers", False) else [])])


doctor_app = typer.Typer(add_completion=False)
#: The sections in which what is not installed is only named: nobody needs all of it.
OPTIONAL = ("Extras", "Language models in a process")
#: Extras for developers, and those that only sum others up.
FOR_DEVELOPERS = re.compile(r"(.*\[)?(all|dev|docs|test(-\w+)?)\]?")


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
    everything: Annotated[
        bool, typer.Option("--all", help="Say of each extra and language model what it lacks, and how to install it.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Check everything that this package can use, and show a remedy for each problem. Nothing is changed.

    Each line is ok, -- (absent, and only needed if you want it) or !! (wrong); the remedy stands below. No key is
    printed: you can put the output into an issue report. Exit code 0 if nothing is wrong, else 1.
    """
    from reactree_ros.doctor import examine

    found = {}
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
            for number, one in enumerate(diagnoses if everything else _folded(title, diagnoses)):
                if not number:
                    say(title, "bold")
                print_diagnosis(one)
        say(f"{wrong} of {sum(map(len, found.values()))} wrong" if wrong else "nothing is wrong")
    if wrong:
        raise typer.Exit(NOT_ACHIEVED)


def _folded(title: str, diagnoses: Sequence[Diagnosis]) -> Iterator[Diagnosis]:
    """Yield a section in short: only the names of optional parts, and only the plug-ins of other packages."""
    if title not in OPTIONAL:
        yield from (one for one in diagnoses if one.what not in BESIDE)
        return
    there, absent = [], []
    for one in diagnoses:
        if one.level is Level.RIGHT:
            there.append(one.what)
        elif one.level is Level.NOTE and is_command(one.remedy):
            absent.append(one.what)
        else:
            yield one
    for level, said, names in ((Level.RIGHT, "installed", there), (Level.NOTE, "not installed", absent)):
        if named := [name for name in names if not FOR_DEVELOPERS.fullmatch(name)]:
            remedy = "reactree doctor --all" if level is Level.NOTE else ""
            yield Diagnosis(said, level, ", ".join(named), remedy)


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
