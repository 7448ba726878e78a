"""``reactree house``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(add_completion=False)


@app.command()
def house(
    seed: Annotated[int, typer.Option(help="Seed: the same arguments make the same house.")],
    out: Annotated[Path, typer.Option(help="File to write.")],
    rooms: Annotated[int, typer.Option(min=3, max=8, help="Number of rooms.")] = 5,
    tasks: Annotated[int, typer.Option(min=1, help="Number of tasks in it.")] = 5,
    varied: Annotated[bool, typer.Option("--varied", help="More types of task, words and things.")] = False,
) -> None:
    """Make up a house with tasks, in the WAH-NL schema."""
    from reactree_ros.world.virtualhome.generator import generate_house

    document = generate_house(seed=seed, rooms=rooms, tasks=tasks, varied=varied)
    out.write_text(json.dumps(document, separators=(",", ":")) + "\n", encoding="utf-8")
    console = Console(soft_wrap=True)
    for task in document:
        wording = " ".join(task["nl_instructions"][0].split())
        console.print(f"{task['task_id']} {task['task_name']}: {wording}", markup=False, highlight=False)
