"""How commands print text, entries and tables: fitted to a terminal, or a line for each in a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from reactree_ros.agent.text import in_one_line
from reactree_ros.plugins.installation import Diagnosis, Level, is_command

#: Text is not spread over more columns: longer lines are hard to read.
WIDEST = 100
SIGNS = {Level.RIGHT: ("ok", "green"), Level.NOTE: ("--", "dim"), Level.WRONG: ("!!", "bold red")}
#: A word of a command, which quotes may hold together.
_WORD = re.compile(r"""(?:"[^"]*"|'[^']*'|\S)+""")


def on_terminal() -> bool:
    return Console().is_terminal


def fitted() -> Console:
    console = Console(highlight=False)
    console.width = min(console.width, WIDEST)
    return console


def print_paragraph(text: str) -> None:
    console = fitted()
    console.print()
    for line in wrapped(text, console.width):
        console.print(Text(line))


def print_groups(groups: Mapping[str, Iterable[tuple[str, str]]]) -> None:
    """Print groups of entries: a name with its text beside it, or below it if the name is long."""
    console, rows = fitted(), {title: list(entries) for title, entries in groups.items()}
    names = [len(name) for entries in rows.values() for name, _ in entries]
    wide = max((one for one in names if one <= console.width // 3), default=0)
    for number, (title, entries) in enumerate(rows.items()):
        if number:
            console.print()
        for line in wrapped(title, console.width):
            console.print(Text(line, "bold"))
        for name, text in entries:
            lines = wrapped(text, console.width - wide - 4)
            if len(name) > wide:
                console.print(Text(f"  {name}", "cyan"), soft_wrap=True)
            beside = [f"{name:<{wide}}" if len(name) <= wide else " " * wide, *[" " * wide] * (len(lines) - 1)]
            for label, line in zip(beside, lines, strict=True):
                console.print(Text.assemble("  ", (label, "cyan"), "  ", line), soft_wrap=True)


def print_indented(text: str, first: str = "  ", style: str = "", *, sign_style: str = "") -> None:
    """Print a text behind a sign, each line as far to the right; in a pipe, in one line.

    A command is broken between its words, so that its lines can be copied together.
    """
    console = Console()
    width = console.width - len(first)
    if not console.is_terminal:
        lines = [text]
    elif is_command(text):
        lines = _continued(_WORD.findall(text), width)
    else:
        lines = wrapped(text, width)
    for line in lines:
        console.print(Text.assemble((first, sign_style), (line, style)), soft_wrap=True)
        first = " " * len(first)


def print_diagnosis(one: Diagnosis) -> None:
    """Print what a check says, and the remedy on a line of its own."""
    sign, style = SIGNS[one.level]
    print_indented(f"{one.what}: {one.said}", f"  {sign}  ", sign_style=style)
    if one.remedy:
        print_indented(one.remedy, "      ", "dim")


def _continued(words: list[str], width: int) -> list[str]:
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) + 3 > width:
            lines[-1] += " \\"
            lines.append(f"    {word}")
        else:
            lines[-1] += f" {word}"
    return lines


def wrapped(text: str, width: int) -> list[str]:
    lines = Text(text).wrap(Console(), max(width, 20))
    return [line.plain.rstrip() for line in lines] or [""]


def print_table(head: tuple[str, ...], rows: Iterable[Iterable[str]]) -> None:
    """Print a table; in a pipe, a line for each row, its cells between tabs."""
    console = Console(highlight=False)
    table = Table(*(Column(name, overflow="fold") for name in head), box=None, pad_edge=False)
    for row in rows:
        if console.is_terminal:
            table.add_row(*map(Text, row))  # Text: a cell may look like rich markup
        else:
            typer.echo("\t".join(map(in_one_line, row)))  # rich would make spaces of tabs
    if table.row_count:
        console.print(table)
