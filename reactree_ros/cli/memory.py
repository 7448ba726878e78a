"""``reactree memory``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from reactree_ros.cli.opening import open_memory, progress
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import Harmless, plain

if TYPE_CHECKING:
    from reactree_ros.memory.episodic import EpisodicMemory

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Look after an episodic memory.")
MemoryPath = Annotated[Path, typer.Option("--memory", help="The episodic memory, a file.")]


@app.command("import")
def memory_import(
    source: Annotated[Path, typer.Argument(help="JSON lines, or a folder of text files, as recorded.")],
    memory: MemoryPath,
    outcomes: Annotated[
        Path | None, typer.Option(help="Which runs reached their goal; without it every run counts.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="Whose outcomes; by default the source's file name."), Harmless(plain)
    ] = None,
) -> None:
    """Add recorded runs that reached their goal."""
    from reactree_ros.memory.recorded import import_experiences, recorded_success

    succeeded = None if outcomes is None else recorded_success(outcomes, variant=variant or source.stem)
    imported = import_experiences(source, succeeded=succeeded)
    with open_memory(memory) as episodic, progress("Adding") as advance:
        added = 0
        for number, run_ in enumerate(imported.runs, 1):
            if not all(experience in episodic for experience in run_):
                episodic.add_run(run_)
                added += 1
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
    out: Annotated[Path, typer.Argument(help="A file that ends in .jsonl, or a new folder for text files.")],
    memory: MemoryPath,
) -> None:
    """Write everything in a memory as the recordings are written."""
    with _open_existing(memory) as episodic:
        count = episodic.export(out)
    Console().print(f"{count} experiences written to {out}", markup=False, highlight=False, soft_wrap=True)


@app.command("show")
def memory_show(memory: MemoryPath) -> None:
    """Say what a memory holds."""
    with _open_existing(memory) as episodic:
        counts = episodic.counts()
    table = Table("what", "number")
    table.add_row("runs", str(counts.runs))
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
    memory: MemoryPath,
    k: Annotated[int, typer.Option("-k", min=1, help="How many.")] = 5,
) -> None:
    """Find the experiences whose subgoals are most similar."""
    with _open_existing(memory, embeds=True) as episodic:
        found = episodic.search(text, k)
    table = Table("similarity", "end", "task", "subgoal")
    for similarity, experience in found:
        table.add_row(
            f"{similarity:.3f}",
            experience.end.value,
            f"{experience.task_id} {experience.task_name}",
            experience.subgoal,
        )
    Console().print(table)


@contextmanager
def _open_existing(path: Path, *, embeds: bool = False) -> Iterator[EpisodicMemory]:
    if not path.exists():
        raise UserError(f"{path}: there is no such memory; `reactree memory import` makes one")
    with open_memory(path, embeds=embeds) as episodic:
        yield episodic
