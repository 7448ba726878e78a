"""``reactree doctor``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from reactree_ros.cli import NOT_ACHIEVED, Commands
from reactree_ros.cli.commands import in_order
from reactree_ros.cli.defaults import WAYS, files, standing, user_file, why_not
from reactree_ros.cli.options import memory_option
from reactree_ros.cli.trusted import NAME, Standing
from reactree_ros.memory.spec import NamedMemory
from reactree_ros.plugins.findings import Finding, Verdict

app = typer.Typer(add_completion=False)
SIGNS = {Verdict.RIGHT: "ok", Verdict.NOTE: "--", Verdict.WRONG: "!!"}
_STYLES = {Verdict.RIGHT: "green", Verdict.NOTE: "dim", Verdict.WRONG: "bold red"}


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
        for title, findings in examine(asked, {"Defaults of options": _defaults}):
            found[title] = findings
            status.update(f"Checked {title}")
    wrong = sum(one.verdict is Verdict.WRONG for findings in found.values() for one in findings)
    if as_json:
        sections = {title: [_told(one) for one in findings] for title, findings in found.items()}
        print(json.dumps({"wrong": wrong, "sections": sections}))  # noqa: T201
    else:
        for title, findings in found.items():
            _show(console, title, findings)
        count = sum(map(len, found.values()))
        console.print(f"{wrong} of {count} wrong" if wrong else "nothing is wrong", highlight=False)
    if wrong:
        raise typer.Exit(NOT_ACHIEVED)


def _defaults() -> Iterator[Finding]:
    """Yield the files of defaults, and their faults."""
    there = files()
    if not there:
        yield Finding(NAME, Verdict.NOTE, f"none here, in a folder above, or at {user_file()}")
        return
    group = Commands(name="reactree")
    commands = {name: group.get_command(None, name) for name in in_order() if name != "config"}
    for file in there:
        if why := why_not(file):
            verdict = Verdict.WRONG if standing(file) is Standing.UNKNOWN else Verdict.NOTE
            yield Finding(file.whose, verdict, why, "" if verdict is Verdict.NOTE else WAYS)
            continue
        faults = list(file.faults(commands))
        for said in faults:
            mend = "correct it; `reactree config show` then shows the value of each option"
            yield Finding(file.whose, Verdict.WRONG, said, mend)
        if not faults:
            yield Finding(file.whose, Verdict.RIGHT, f"{file.path} sets {file.sets() or 'nothing'}")


def _told(one: Finding) -> dict[str, str]:
    return {"what": one.what, "verdict": one.verdict.value, "said": one.said, "mend": one.mend}


def _show(console: Console, title: str, findings: list[Finding]) -> None:
    console.print(Text(title, "bold"))
    for one in findings:
        line = Text.assemble("  ", (SIGNS[one.verdict], _STYLES[one.verdict]), f"  {one.what}: {one.said}")
        console.print(line.append(f"  ({one.mend})" if one.mend else "", "dim"))
