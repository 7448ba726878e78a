"""Carries out ``reactree lab bench`` with a progress bar, and prints a summary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from reactree_lab.bench.folder import BenchFolder
from reactree_lab.bench.jobs import BenchSettings, Job
from reactree_lab.bench.results import RunLine, grouped_by_end
from reactree_lab.bench.workers import Died, LocalWorkers, RayWorkers, Workers, carry_out


@dataclass
class _Tally:
    done: int
    achieved: int
    claimed: int = 0
    broken: list[RunLine] = field(default_factory=list)
    new: int = 0
    busy: float = 0.0

    def add(self, line: RunLine) -> None:
        self.new += 1
        self.busy += line.busy_seconds
        if line.broken:
            self.broken.append(line)
        else:
            self.done += 1
            self.achieved += line.achieved
            self.claimed += line.verdict.claimed

    @property
    def text(self) -> str:
        broken = f", {len(self.broken)} broke off ({grouped_by_end(self.broken)})" if self.broken else ""
        claimed = f" ({self.claimed} claimed, not checked)" if self.claimed else ""
        return f"GSR {self.achieved / self.done:.2f}{claimed}{broken}" if self.done else f"GSR –{broken}"


def bench(settings: BenchSettings, out: Path, *, workers: int, ray: str | None, at_once: int = 1) -> bool:
    """Carry out the remaining runs of a bench; return whether every run is done.

    ``ray`` is the address of a Ray cluster, ``local`` for a new one on this machine; without it, processes work. Each
    worker carries out ``at_once`` runs at the same time.
    """
    for said in settings.strange():
        typer.secho(said, fg="yellow", err=True)
    tasks = settings.tasks()
    runs = len(tasks) * len(settings.planners) * settings.seeds
    begun = time.monotonic()
    with closing(BenchFolder(out, settings, runs=runs)) as folder:
        claimed = sum(line.verdict.claimed for line in folder.done.values())
        tally = _Tally(len(folder.done), sum(line.achieved for line in folder.done.values()), claimed)
        if left := runs - tally.done:
            jobs = settings.jobs(tasks, done=folder.done)
            count = min(workers, math.ceil(left / at_once))
            _carry_out(jobs, runs, folder, lambda: _workers(settings, count, at_once, ray), tally)
    typer.echo(f"{tally.done} of {runs} runs done in {out}, {tally.text}")
    if tally.done < runs:
        typer.echo("Repeat the command to run the rest again.")
    if tally.new:
        each = f", {at_once} runs at once each" if at_once > 1 else ""
        typer.echo(
            f"{tally.new} runs in {time.monotonic() - begun:.1f} s with {workers} worker{'s' * (workers > 1)}{each}, "
            f"busy for {tally.busy:.1f} s together"
        )
    typer.echo(f"Compare the planners: reactree lab report {out}")
    return tally.done == runs


def _workers(settings: BenchSettings, count: int, at_once: int, ray: str | None) -> Workers:
    if ray is not None:
        return RayWorkers(settings, count, at_once, address=ray)
    return LocalWorkers(settings, count, at_once)


def _carry_out(
    jobs: Iterable[Job], runs: int, folder: BenchFolder, make_workers: Callable[[], Workers], tally: _Tally
) -> None:
    errors = Console(stderr=True, soft_wrap=True)

    def say(text: str, style: str) -> None:
        errors.print(text, style=style, markup=False, highlight=False)

    def died(worker: Died) -> None:
        over = f" over {' and '.join(str(job.key) for job in worker.jobs)}" if worker.jobs else ""
        say(f"{worker.worker} died{over} ({worker.reason}); another one takes its place", "yellow")

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[text]}"))
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=errors, transient=True) as bar:
        shown = bar.add_task("Running", total=runs, completed=tally.done, text=tally.text)

        def recorded(line: RunLine) -> None:
            tally.add(line)
            bar.update(shown, completed=tally.done + len(tally.broken), text=tally.text)

        try:
            given_up = carry_out(jobs, folder, make_workers(), recorded=recorded, died=died)
        except KeyboardInterrupt:
            say(f"interrupted after {tally.done} runs; repeat the command to continue", "red")
            raise
    for key in given_up:
        say(f"given up, because every worker died over it: {key}", "red")
