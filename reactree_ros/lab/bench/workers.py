"""Workers anywhere: they get jobs until all are done, and each result is recorded at once."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from reactree_ros.errors import UserError
from reactree_ros.lab.bench.folder import BenchFolder
from reactree_ros.lab.bench.job_runner import Finished
from reactree_ros.lab.bench.jobs import Job, Key
from reactree_ros.lab.bench.results import RunLine
from reactree_ros.record.verdict import UNANSWERED, EpisodeEnd

#: Runs in a row without a language model, after which no more are started: the others would fail, too.
OUTAGE = 5
#: How often a job is tried if its worker dies.
ATTEMPTS = 2


@dataclass(frozen=True)
class Died:
    """A worker that has died.

    Attributes:
        worker: Its name.
        job: Its job; None if it had none.
        reason: How it ended, in words.
    """

    worker: str
    job: Job | None
    reason: str


@dataclass(kw_only=True)
class Slot:
    """A worker from the sender's view.

    Attributes:
        name: Its name.
        ready: Whether it has reported to be ready.
        job: Its job; None if it has none.
    """

    name: str
    ready: bool = False
    job: Job | None = None

    @property
    def idle(self) -> bool:
        """Whether it waits for a job."""
        return self.ready and self.job is None

    def take(self, said: Finished | str) -> Finished | None:
        """Read the worker's message: a finished run, a problem in words, or nothing when it gets ready."""
        if isinstance(said, Finished):
            self.job = None
            return replace(said, line=replace(said.line, worker=self.name))
        if said:
            raise UserError(f"{self.name}: {said}")
        self.ready = True
        return None


class Workers(Protocol):
    """Workers on this machine or on others, with one job at a time each."""

    @property
    def idle(self) -> int:
        """Number of workers that wait for a job."""

    @property
    def busy(self) -> int:
        """Number of workers that have a job."""

    def submit(self, job: Job) -> None:
        """Give a job to an idle worker."""

    def wait(self) -> list[Finished | Died]:
        """Wait until a run finishes, or a worker gets ready or dies; one that cannot do its work is an error.

        A worker that died has been replaced by a new one.
        """

    def close(self, *, at_once: bool = False) -> None:
        """End the workers within a time limit; with ``at_once`` in the middle of their work."""


def carry_out(
    jobs: Iterable[Job],
    folder: BenchFolder,
    workers: Workers,
    *,
    recorded: Callable[[RunLine], object] = lambda line: None,
    died: Callable[[Died], object] = lambda worker: None,
) -> list[Key]:
    """Carry out jobs; stop starting new ones after :data:`OUTAGE` runs in a row without an answer.

    Each job is taken shortly before a worker needs it. The workers are closed at the end, even after an exception
    (Ctrl-C). ``recorded`` is called with the line of each run once it is written, even if the run broke off, ``died``
    for each worker that died. Returned are the runs whose worker died at every attempt. They are not recorded, so that
    a resume tries them again.
    """
    begin = time.monotonic()
    further = iter(jobs)
    deaths: Counter[Key] = Counter()
    given_up: list[Key] = []
    gone = 0
    try:
        waiting = deque(islice(further, 1))  # failed attempts come before further jobs are made
        while waiting or workers.busy:
            happened = workers.wait() if workers.busy or not workers.idle else []
            for one in happened:
                if isinstance(one, Died):
                    died(one)
                    if one.job is None:
                        continue
                    deaths[one.job.key] += 1
                    if deaths[one.job.key] < ATTEMPTS:
                        waiting.appendleft(one.job)
                    else:
                        given_up.append(one.job.key)
            while waiting and workers.idle:  # before the results are written: no worker waits for the disk
                workers.submit(waiting.popleft())
                waiting.extend(islice(further, 0 if waiting else 1))
            for one in happened:
                if isinstance(one, Finished):
                    line = folder.record(one, elapsed=time.monotonic() - begin)
                    recorded(line)
                    gone = gone + 1 if EpisodeEnd(line.end) in UNANSWERED else 0
            if gone >= OUTAGE:
                further = iter(())
                waiting.clear()
    except BaseException:
        workers.close(at_once=True)
        raise
    workers.close()
    return given_up
