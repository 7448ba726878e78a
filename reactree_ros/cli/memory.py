"""``reactree memory``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from reactree_ros.cli import map as house_map
from reactree_ros.cli.opening import open_memory, progress
from reactree_ros.cli.options import memory_option
from reactree_ros.memory.spec import NamedMemory

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Manage an episodic memory, or a map.")
app.add_typer(house_map.app, name="map")
Memory = Annotated[NamedMemory, memory_option("The episodic memory.", "--memory")]


@app.command("import")
def memory_import(
    source: Annotated[Path, typer.Argument(help="JSON lines in the recordings' format.")],
    memory: Memory,
    outcomes: Annotated[
        Path | None, typer.Option(help="A file that says which runs reached their goal; without it, every run counts.")
    ] = None,
    variant: Annotated[
        str | None,
        typer.Option(help="The variant whose outcomes count; by default the source's file name."),
    ] = None,
) -> None:
    """Add recorded runs that reached their goal."""
    from reactree_ros.memory.recorded import import_experiences, recorded_success

    succeeded = None if outcomes is None else recorded_success(outcomes, variant=variant or source.stem)
    imported = import_experiences(source, succeeded=succeeded)
    with open_memory(memory) as episodic, progress("Adding") as advance:
        added = 0
        for number, run_ in enumerate(imported.runs, 1):
            added += episodic.keep(run_) > 0
            advance(number / len(imported.runs))
        total = len(episodic)
    Console().print(
        f"{added} runs added, {len(imported.runs) - added} were there already, {imported.runs_left_out} did not reach "
        f"their goal; {memory} holds {total} experiences",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


@app.command("export")
def memory_export(
    out: Annotated[Path, typer.Argument(help="A file that ends in .jsonl.")],
    memory: Memory,
) -> None:
    """Export a whole memory in the recordings' format."""
    from reactree_ros.memory.recorded import export_experiences

    memory.check_exists()
    with memory.open() as episodic:
        count = export_experiences(episodic, out)
    Console().print(f"{count} experiences written to {out}", markup=False, highlight=False, soft_wrap=True)


@app.command("show")
def memory_show(memory: Memory) -> None:
    """Show the contents of a memory."""
    memory.check_exists()
    with memory.open() as episodic:
        counts = episodic.counts()
    table = Table("what", "number")
    table.add_row("runs", str(counts.runs))
    for what, number in counts.only_here.items():
        table.add_row(f"runs that {what}", str(number))
    table.add_row("experiences", str(counts.experiences))
    table.add_row("different subgoals", str(counts.subgoals))
    for end, number in counts.by_end.items():
        table.add_row(f"ended in {end.value}", str(number))
    for name, number in counts.by_task_name.items():
        table.add_row(f"of {name}", str(number))
    Console().print(table)


@app.command("search")
def memory_search(
    text: Annotated[str, typer.Argument(help="A subgoal.")],
    memory: Memory,
    k: Annotated[int, typer.Option("-k", min=1, help="How many experiences to show.")] = 5,
) -> None:
    """Find the experiences whose subgoals are most similar."""
    memory.check_exists()
    with open_memory(memory) as episodic:
        found = episodic.search(text, k)
    table = Table("similarity", "end", "task", "subgoal")
    for similarity, experience in found:
        task = f"{experience.task_id} {experience.task_name}"
        table.add_row(f"{similarity:.3f}", experience.end.value, task, experience.subgoal)
    Console().print(table)
