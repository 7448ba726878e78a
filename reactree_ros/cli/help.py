"""The help of each command: its call, what it does, its options in groups, and examples."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

#: How the value of an option is named.
VALUES = {str: "TEXT", int: "N", float: "N", Path: "PATH", list[Path]: "PATH", list[str]: "TEXT"}
#: Most characters of the names of a closed set, to stand there in place of a word.
SHORT = 24


def with_help(app: typer.Typer) -> typer.Typer:
    """Give this help to an app's commands and groups that have typer's own."""
    if not isinstance(app.info.cls, type):
        app.info.cls = HelpedGroup
    for command in app.registered_commands:
        if command.cls is TyperCommand:
            command.cls = HelpedCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            with_help(group.typer_instance)
    return app


class Helped:
    def format_help(self: Any, ctx: Any, formatter: Any) -> None:
        from rich.text import Text

        from reactree_ros.cli.output import fitted, print_groups, print_indented, print_paragraph

        console, names = fitted(), self.list_commands(ctx) if hasattr(self, "list_commands") else []
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        usage = [ctx.command_path, *(["COMMAND"] if names else ["[OPTIONS]"]), *map(argument_name, arguments)]
        console.print(Text.assemble(("Usage: ", "bold"), " ".join(usage)))
        for paragraph in paragraphs(self.help or ""):
            print_paragraph(paragraph)
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in filter(None, (self.get_command(ctx, name) for name in names)):
            groups.setdefault(group_of(one, "Commands"), []).append((one.name, next(paragraphs(one.help or ""))))
        if arguments:
            groups["Arguments"] = [(argument_name(one).strip("[]"), described(one)) for one in arguments]
        for title, options in groups_of_options(self).items():
            groups[title] = [(option_name(one), described(one)) for one in options]
        console.print()
        print_groups(groups)
        examples = examples_of(self)
        if examples:
            console.print(Text("\nExamples", "bold"))
        elif self.epilog:
            print_paragraph(self.epilog)
        for line in examples:
            print_indented(line)


class HelpedCommand(Helped, TyperCommand): ...


class HelpedGroup(Helped, TyperGroup): ...


def examples_of(command: Any) -> list[str]:
    """Return the examples of a command: the lines of its epilog that are commands."""
    return [line for line in (command.epilog or "").splitlines() if line.startswith("reactree ")]


def groups_of_options(command: Any) -> dict[str, list[Any]]:
    """Return a command's options in their groups, those that it needs first, without --help and the hidden ones."""
    found: dict[str, list[Any]] = {}
    for one in sorted(command.params, key=lambda one: not one.required):
        if one.param_type_name == "option" and not one.hidden and "--help" not in one.opts:
            found.setdefault(group_of(one, "Options"), []).append(one)
    return found


def group_of(one: Any, default: str) -> str:
    title = getattr(one, "rich_help_panel", None)
    return title if isinstance(title, str) else default


def paragraphs(text: str) -> Iterator[str]:
    for one in text.split("\n\n"):
        yield " ".join(one.split())


def argument_name(argument: Any) -> str:
    name = f"{argument.metavar or argument.name.upper()}{'...' if argument.nargs != 1 else ''}"
    return name if argument.required else f"[{name}]"


def option_name(option: Any) -> str:
    names = ", ".join((*option.opts, *option.secondary_opts))
    return names if option.is_flag else f"{names} {value_name(option)}"


def value_name(option: Any) -> str:
    if option.metavar:
        return str(option.metavar)
    if not (allowed := "|".join(choices_of(option))):
        return VALUES.get(kind_of(option), "VALUE")
    return allowed if len(allowed) <= SHORT else "NAME"


def kind_of(option: Any) -> Any:
    return getattr(getattr(option, "type_descriptor", None), "annotation", None)  # older versions of typer have none


def choices_of(option: Any) -> list[str]:
    kind = kind_of(option)
    return [str(one.value) for one in kind] if isinstance(kind, type) and issubclass(kind, enum.Enum) else []


def described(parameter: Any) -> str:
    """Return what an option or argument is for, with its default and, if they are many, the values that it may have."""
    text, default = " ".join((parameter.help or "").split()), default_of(parameter)
    if parameter.param_type_name == "argument":
        notes = []
    else:
        names = choices_of(parameter)
        if len("|".join(names)) > SHORT and any(name not in text for name in names):
            text += f" One of {', '.join(names)}."
        notes = [*(["required"] if parameter.required else []), *bounds_of(parameter)]
    notes += [f"default: {default}"] if default else []
    return f"{text} [{', '.join(notes)}]" if notes else text


def bounds_of(option: Any) -> Iterator[str]:
    least, most = getattr(option, "min", None), getattr(option, "max", None)
    if most is not None:
        yield f"{0 if least is None else least:g} to {most:g}"
    elif least:
        yield f"at least {least:g}"


def default_of(parameter: Any) -> str:
    """Return the default of an option or argument as it is shown; empty if it says nothing."""
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    default = getattr(parameter.default, "value", parameter.default)
    is_said = isinstance(default, str | int | float) and not isinstance(default, bool)
    return str(default) if is_said else ""
