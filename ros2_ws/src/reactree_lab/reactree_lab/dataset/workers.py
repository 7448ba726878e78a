"""Parts of a dataset, made in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing

from reactree_lab.dataset.making import DatasetPart, Maker, Source
from reactree_lab.dataset.settings import Recipe
from reactree_lab.worker_calls import call_in_workers

#: Sources of a call for each that is made at the same time: at a call's end fewer and fewer are.
_EACH = 4

Call = Sequence[tuple[int, Sequence[Source]]]


def made_parts(
    recipe: Recipe, jobs: Mapping[int, Sequence[Source]], *, workers: int, at_once: int = 1
) -> Generator[tuple[int, DatasetPart]]:
    """Make parts in so many processes, 1 is this one; yield each with its number once it is done, in any order.

    Each process makes so many sources ``at_once``.
    """
    if workers == 1 or len(jobs) < 2:
        with closing(Maker(recipe, at_once)) as maker:
            yield from maker.parts(jobs.items())
        return
    threads = max(1, len(os.sched_getaffinity(0)) // workers)
    calls = call_in_workers(_begin, (recipe, at_once, threads), _calls(jobs, at_once), workers=min(workers, len(jobs)))
    with closing(calls):
        for _, parts in calls:
            yield from parts


def _calls(jobs: Mapping[int, Sequence[Source]], at_once: int) -> Iterator[Call]:
    call: list[tuple[int, Sequence[Source]]] = []
    for job in jobs.items():
        call.append(job)
        if at_once == 1 or sum(len(sources) for _, sources in call) >= _EACH * at_once:
            yield call
            call = []
    if call:
        yield call


def _begin(recipe: Recipe, at_once: int, threads: int) -> Callable[[Call], list[tuple[int, DatasetPart]]]:
    # Before torch is imported: sentence embedders with a thread per core each took six times as long.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    maker = Maker(recipe, at_once)
    return lambda jobs: list(maker.parts(jobs))
