"""``reactree lab house``."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)


class Format(str, enum.Enum):
    WAH_NL = "wah_nl"
    PYROBOSIM = "pyrobosim"


@app.command()
def house(
    seed: Annotated[int, typer.Option(help="Seed: the same arguments make the same house.")],
    out: Annotated[Path, typer.Option(help="File to write; for pyrobosim, the folder.")],
    rooms: Annotated[int, typer.Option(min=3, max=8, help="Number of rooms.")] = 5,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks.")] = 5,
    varied: Annotated[bool, typer.Option("--varied", help="Use more types of task, words and things.")] = False,
    written_as: Annotated[
        Format,
        typer.Option(
            "--as",
            help="The WAH-NL schema, or a folder of pyrobosim's world files, one for each task that turns nothing on.",
        ),
    ] = Format.WAH_NL,
) -> None:
    """Make up a house with tasks, in the WAH-NL schema or as pyrobosim's worlds."""
    write = _write_pyrobosim if written_as is Format.PYROBOSIM else _write_wah_nl
    console = Console(soft_wrap=True)
    for number, name, instruction in write(out, seed=seed, rooms=rooms, tasks=tasks, varied=varied):
        console.print(f"{number} {name}: {' '.join(instruction.split())}", markup=False, highlight=False)


def _write_wah_nl(out: Path, *, seed: int, rooms: int, tasks: int, varied: bool) -> Iterator[tuple[int, str, str]]:
    from reactree_lab.household.generator import generate_house
    from reactree_ros.files.whole_file import write_whole

    document = generate_house(seed=seed, rooms=rooms, tasks=tasks, varied=varied)
    write_whole(out, json.dumps(document, separators=(",", ":")) + "\n")
    return ((task["task_id"], task["task_name"], task["nl_instructions"][0]) for task in document)


def _write_pyrobosim(out: Path, *, seed: int, rooms: int, tasks: int, varied: bool) -> Iterator[tuple[int, str, str]]:
    from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim, write_house

    made = tasks_as_pyrobosim(seed=seed, rooms=rooms, tasks=tasks, varied=varied)
    write_house(made, out)
    return ((number, task.task_name, task.instruction) for number, task in made.items())
