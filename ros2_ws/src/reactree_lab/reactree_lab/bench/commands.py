"""Carries out ``reactree lab bench``, shows how far it is, and prints a summary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import typer
from rich.console import Console

from reactree_lab.bench.folder import BenchFolder
from reactree_lab.bench.jobs import BenchSettings
from reactree_lab.bench.progress import Tally, shown
from reactree_lab.bench.results import RunLine
from reactree_lab.bench.workers import Died, LocalWorkers, RayWorkers, Workers, carry_out
from reactree_ros.world.spec import Task


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
        tally = Tally(runs, folder.done.values())
        if left := runs - tally.done:
            count = min(workers, math.ceil(left / at_once))
            _carry_out(settings, tasks, folder, lambda: _workers(settings, count, at_once, ray), tally)
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
    settings: BenchSettings,
    tasks: Mapping[int, Task],
    folder: BenchFolder,
    make_workers: Callable[[], Workers],
    tally: Tally,
) -> None:
    errors = Console(stderr=True, soft_wrap=True)

    def say(text: str, style: str) -> None:
        errors.print(text, style=style, markup=False, highlight=False)

    def died(worker: Died) -> None:
        over = f" over {' and '.join(settings.told(job.key) for job in worker.jobs)}" if worker.jobs else ""
        say(f"{worker.worker} died{over} ({worker.reason}); another one takes its place", "yellow")

    with shown(tally, errors) as changed:

        def recorded(line: RunLine) -> None:
            tally.add(line, workers.busy)
            changed()

        try:
            workers = make_workers()
            jobs = settings.jobs(tasks, done=folder.done)
            given_up = carry_out(jobs, folder, workers, recorded=recorded, died=died)
        except KeyboardInterrupt:
            say(f"interrupted after {tally.done} runs; repeat the command to continue", "red")
            raise
    for key in given_up:
        say(f"given up, because every worker died over it: {settings.told(key)}", "red")
