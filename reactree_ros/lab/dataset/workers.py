"""Parts of a dataset, made in several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from functools import cache

from reactree_ros.background.worker_process import deaf_to_the_terminal, kill_workers, serve_the_parent
from reactree_ros.errors import UserError
from reactree_ros.lab.dataset.making import DatasetPart, Maker, Source
from reactree_ros.lab.dataset.settings import Recipe

#: Calls that a worker gets before it has finished the last one.
_AHEAD = 2
#: Sources of a call for each that is made at the same time: at a call's end fewer and fewer are.
_EACH = 4

_of_process: dict[str, tuple[Recipe, int]] = {}  # what a worker makes, and how many sources at once


def made_parts(
    recipe: Recipe, jobs: Mapping[int, Sequence[Source]], *, workers: int, at_once: int = 1
) -> Iterator[tuple[int, DatasetPart]]:
    """Make parts in so many processes, 1 is this one; yield each with its number once it is done, in any order.

    Each process makes so many sources ``at_once``.
    """
    if workers == 1 or len(jobs) < 2:
        with closing(Maker(recipe, at_once)) as maker:
            yield from maker.parts(jobs.items())
        return
    context = multiprocessing.get_context("spawn")
    waiting = _calls(jobs, at_once)
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    with deaf_to_the_terminal():  # its locks have their own process
        pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _begin, (recipe, at_once, threads))
    with pool:
        running: set[Future[list[tuple[int, DatasetPart]]]] = set()
        try:
            while True:
                for call in waiting:
                    with deaf_to_the_terminal():  # the first one starts the processes
                        running.add(pool.submit(_parts, call))
                    if len(running) >= _AHEAD * workers:
                        break
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    yield from future.result()
        except BrokenProcessPool as error:
            raise UserError("a worker died (was it out of memory?); repeat the command to continue") from error
        except BaseException:  # Ctrl-C, or nobody wants the rest: do not wait for unfinished work
            kill_workers()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _calls(jobs: Mapping[int, Sequence[Source]], at_once: int) -> Iterator[list[tuple[int, Sequence[Source]]]]:
    """Put so many parts together that a worker is busy with several sources for most of a call."""
    call: list[tuple[int, Sequence[Source]]] = []
    for job in jobs.items():
        call.append(job)
        if at_once == 1 or sum(len(sources) for _, sources in call) >= _EACH * at_once:
            yield call
            call = []
    if call:
        yield call


def _begin(recipe: Recipe, at_once: int, threads: int) -> None:
    serve_the_parent()
    # Before torch is imported: sentence embedders with a thread per core each took six times as long.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    _of_process["maker"] = recipe, at_once


@cache
def _maker() -> Maker:
    return Maker(*_of_process["maker"])


def _parts(jobs: Sequence[tuple[int, Sequence[Source]]]) -> list[tuple[int, DatasetPart]]:
    return list(_maker().parts(jobs))
