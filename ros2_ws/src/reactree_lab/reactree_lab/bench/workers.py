"""Workers anywhere: they get jobs until all are done, and each result is recorded at once."""

from __future__ import annotations

import abc
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from reactree_lab.bench.folder import BenchFolder
from reactree_lab.bench.job_runner import Finished
from reactree_lab.bench.jobs import Job, Key
from reactree_lab.bench.results import RunLine
from reactree_ros.errors import UserError
from reactree_ros.record.verdict import UNANSWERED, EpisodeEnd

#: Runs in a row without a language model, after which no more are started: the others would fail, too.
OUTAGE = 5
#: How often a job is tried if its worker dies.
ATTEMPTS = 2


@dataclass(frozen=True)
class Died:
    worker: str
    jobs: tuple[Job, ...]  # the jobs that it had
    reason: str  # how it ended, in words


@dataclass(kw_only=True)
class Slot:
    name: str
    ready: bool = False  # whether it has reported to be ready
    jobs: dict[Key, Job] = field(default_factory=dict)
    alone: bool = False  # whether it gets no further job beside the one that it has

    def has_room(self, at_once: int) -> bool:
        return self.ready and len(self.jobs) < (1 if self.alone else at_once)

    def take(self, said: Finished | str) -> Finished | None:
        """Read the worker's message: a finished run, a problem in words, or nothing when it gets ready."""
        if isinstance(said, Finished):
            del self.jobs[said.line.key]
            return replace(said, line=replace(said.line, worker=self.name))
        if said:
            raise UserError(f"{self.name}: {said}")
        self.ready = True
        return None


class Workers(abc.ABC):
    def __init__(self, at_once: int = 1) -> None:
        self.at_once = at_once

    @property
    @abc.abstractmethod
    def slots(self) -> Sequence[Slot]:
        """The workers."""

    @property
    def ready(self) -> bool:
        return any(one.ready for one in self.slots)

    @property
    def busy(self) -> int:
        return sum(len(one.jobs) for one in self.slots)

    def submit(self, job: Job, *, alone: bool = False) -> bool:
        """Give a job to the worker with the most room, or with nothing else to do; return whether there is one."""
        at_once = 1 if alone else self.at_once
        slot = min((one for one in self.slots if one.has_room(at_once)), key=lambda one: len(one.jobs), default=None)
        if slot is None:
            return False
        slot.jobs[job.key], slot.alone = job, alone
        self.send(slot, job)
        return True

    @abc.abstractmethod
    def send(self, slot: Slot, job: Job) -> None:
        """Send a job to a worker; if it has just died, :meth:`wait` reports that."""

    @abc.abstractmethod
    def wait(self) -> list[Finished | Died]:
        """Wait until a run finishes, or a worker gets ready or dies; one that cannot do its work is an error.

        A worker that died has been replaced by a new one.
        """

    @abc.abstractmethod
    def close(self, *, kill: bool = False) -> None:
        """End the workers within a time limit; with ``kill`` in the middle of their work."""


def carry_out(
    jobs: Iterable[Job],
    folder: BenchFolder,
    workers: Workers,
    *,
    recorded: Callable[[RunLine], object] = lambda line: None,
    died: Callable[[Died], object] = lambda worker: None,
) -> list[Key]:
    """Carry out jobs; stop starting new ones after :data:`OUTAGE` runs in a row without an answer.

    Each job is taken shortly before a worker needs it. A job whose worker died is tried again with nothing beside it,
    so that it is not given up for what another one does. The workers are closed at the end, even after an exception
    (Ctrl-C). ``recorded`` is called with the line of each run once it is written, even if the run broke off, ``died``
    for each worker that died. Returned are the runs whose worker died at every attempt. They are not recorded, so that
    a resume tries them again.
    """
    further = iter(jobs)
    deaths: Counter[Key] = Counter()
    given_up: list[Key] = []
    gone = 0
    try:
        waiting, again = deque(islice(further, 1)), deque[Job]()
        while waiting or again or workers.busy:
            happened = workers.wait() if workers.busy or not workers.ready else []
            for one in happened:
                if isinstance(one, Died):
                    died(one)
                    for job in one.jobs:
                        deaths[job.key] += 1
                        if deaths[job.key] < ATTEMPTS:
                            again.append(job)
                        else:
                            given_up.append(job.key)
            # Before the results are written: no worker waits for the disk.
            while again and workers.submit(again[0], alone=True):
                again.popleft()
            while waiting and workers.submit(waiting[0]):
                waiting.popleft()
                waiting.extend(islice(further, 1))
            for one in happened:
                if isinstance(one, Finished):
                    folder.record(one)
                    recorded(one.line)
                    gone = gone + 1 if EpisodeEnd(one.line.end) in UNANSWERED else 0
            if gone >= OUTAGE:
                further = iter(())
                waiting.clear()
                again.clear()
    except BaseException:
        workers.close(kill=True)
        raise
    workers.close()
    return given_up
