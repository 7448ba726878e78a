"""Workers, wherever they are: they get jobs until all are done; what is done is recorded at once."""

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
from reactree_ros.record.verdict import EpisodeEnd

#: Runs in a row whose language model is gone, after which no more are begun: the others would find it gone, too.
OUTAGE = 5
#: How often a job is given to a worker, where the worker dies over it.
ATTEMPTS = 2


@dataclass(frozen=True)
class Died:
    """A worker that is gone.

    Attributes:
        worker: Its name.
        job: What it was carrying out; None where it had nothing to do.
        reason: How it ended, in words.
    """

    worker: str
    job: Job | None
    reason: str


@dataclass(kw_only=True)
class Slot:
    """A worker as the one who gives it jobs sees it.

    Attributes:
        name: Its name.
        ready: Whether it has said that it can begin.
        job: What it is carrying out; None where it has nothing to do.
    """

    name: str
    ready: bool = False
    job: Job | None = None

    @property
    def idle(self) -> bool:
        """Whether it waits for a job."""
        return self.ready and self.job is None

    def take(self, said: Finished | str) -> Finished | None:
        """Take in what the worker says: a run's end, or, in words, what is wrong; nothing where it got ready.

        Raises:
            UserError: The worker cannot do its work.
        """
        if isinstance(said, Finished):
            self.job = None
            return replace(said, line=replace(said.line, worker=self.name))
        if said:
            raise UserError(f"{self.name}: {said}")
        self.ready = True
        return None


class Workers(Protocol):
    """Workers on this machine or on others. One job at a time each."""

    @property
    def idle(self) -> int:
        """How many wait for a job."""

    @property
    def busy(self) -> int:
        """How many have one."""

    def submit(self, job: Job) -> None:
        """Give a job to an idle worker."""

    def wait(self) -> list[Finished | Died]:
        """Wait until something has happened: a run came to its end, a worker got ready or died.

        A worker that died has been replaced by a new one.

        Raises:
            UserError: A worker cannot do its work.
        """

    def close(self, *, at_once: bool = False) -> None:
        """End the workers within a bound; with ``at_once`` in the middle of what they do."""


def carry_out(
    jobs: Iterable[Job],
    folder: BenchFolder,
    workers: Workers,
    *,
    recorded: Callable[[RunLine], object] = lambda line: None,
    died: Callable[[Died], object] = lambda worker: None,
) -> list[Key]:
    """Carry out jobs; no more are begun once :data:`OUTAGE` in a row found no model.

    Args:
        jobs: Those that are not done yet; each is taken when a worker is about to need it.
        folder: Where the results go.
        workers: Who carries them out; closed at the end, also after an exception (Ctrl-C).
        recorded: Called with the line of each run once it is written down, also of one that broke off.
        died: Called for each worker that died.

    Returns:
        The runs over which a worker died at every attempt; they are not recorded, so that a resume tries them again.
    """
    begin = time.monotonic()
    further = iter(jobs)
    deaths: Counter[Key] = Counter()
    given_up: list[Key] = []
    gone = 0
    try:
        waiting = deque(islice(further, 1))  # what died is tried again before further ones are made
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
            while waiting and workers.idle:  # before the results are written: nobody waits for the disk
                workers.submit(waiting.popleft())
                waiting.extend(islice(further, 0 if waiting else 1))
            for one in happened:
                if isinstance(one, Finished):
                    line = folder.record(one, elapsed=time.monotonic() - begin)
                    recorded(line)
                    gone = gone + 1 if line.end == EpisodeEnd.MODEL_GONE.value else 0
            if gone >= OUTAGE:
                further = iter(())
                waiting.clear()
    except BaseException:
        workers.close(at_once=True)
        raise
    workers.close()
    return given_up
