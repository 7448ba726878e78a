"""``reactree doctor``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from reactree_ros.cli import NOT_ACHIEVED, every_command
from reactree_ros.cli.defaults import NAME, DefaultsFile
from reactree_ros.cli.options import memory_option
from reactree_ros.files.secrecy import shown
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.installation import Diagnosis, Level

app = typer.Typer(add_completion=False)
SIGNS = {Level.RIGHT: "ok", Level.NOTE: "--", Level.WRONG: "!!"}
_STYLES = {Level.RIGHT: "green", Level.NOTE: "dim", Level.WRONG: "bold red"}


@app.command()
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
    from reactree_ros.doctor import Asked, examine

    console, found = Console(soft_wrap=True), {}
    with Console(stderr=True).status("Looking") as status:
        asked = Asked(base_url=base_url, models=models, memory=memory)
        for title, diagnoses in examine(asked, {"Defaults of options": _defaults}):
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
