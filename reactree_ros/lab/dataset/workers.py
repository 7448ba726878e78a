"""Parts of a dataset, made in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any

from reactree_ros.background.worker_process import deaf_to_the_terminal, kill_workers, serve_the_parent
from reactree_ros.errors import UserError
from reactree_ros.lab.dataset.making import DatasetPart, Maker, Source
from reactree_ros.lab.dataset.settings import Recipe

#: Parts that a worker gets before it has finished the last one.
_AHEAD = 2

_maker: dict[str, Maker] = {}  # of a worker's process


def made_parts(
    recipe: Recipe, jobs: Mapping[int, Sequence[Source]], *, workers: int
) -> Iterator[tuple[int, DatasetPart]]:
    """Make parts in so many processes, 1 is this one; yield each with its number once it is done, in any order."""
    if workers == 1 or len(jobs) < 2:
        with closing(Maker(recipe)) as maker:
            for number, sources in jobs.items():
                yield number, maker.part(list(sources))
        return
    context = multiprocessing.get_context("spawn")
    waiting = iter(jobs.items())
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    with deaf_to_the_terminal():  # its locks have their own process
        pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _begin, (recipe, threads))
    with pool:
        running: dict[Future[DatasetPart], int] = {}
        try:
            while True:
                for number, sources in waiting:
                    with deaf_to_the_terminal():  # the first one starts the processes
                        running[pool.submit(_part, list(sources))] = number
                    if len(running) >= _AHEAD * workers:
                        break
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield running.pop(future), future.result()
        except BrokenProcessPool as error:
            raise UserError("a worker died (was it out of memory?); repeat the command to continue") from error
        except BaseException:  # Ctrl-C, or nobody wants the rest: do not wait for unfinished work
            kill_workers()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _begin(recipe: Recipe, threads: int) -> None:
    serve_the_parent()
    # Before torch is imported: sentence embedders with a thread per core each took six times as long.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    _maker["one"] = Maker(recipe)


def _part(sources: list[Any]) -> DatasetPart:
    return _maker["one"].part(sources)
