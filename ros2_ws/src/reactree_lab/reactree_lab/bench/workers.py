"""Workers anywhere: they get jobs until all are done, and each result is recorded at once."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import os
import signal
import socket
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any
from urllib.parse import urlsplit

from reactree_lab.bench.folder import BenchFolder
from reactree_lab.bench.job_runner import Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Job, Key
from reactree_lab.bench.results import RunLine
from reactree_ros.background.worker_process import end_workers, serve_the_parent, start_worker
from reactree_ros.episode.telemetry import exporting
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line
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


@dataclasses.dataclass(kw_only=True)
class _Process(Slot):
    process: SpawnProcess
    connection: Connection
    gone: bool = False

    def has_room(self, at_once: int) -> bool:
        return super().has_room(at_once) and not self.gone


class LocalWorkers(Workers):
    """Worker processes, newly started (``spawn``), so that they inherit nothing of this process but the settings.

    A process ends when this one does, however that happens.
    """

    def __init__(self, settings: BenchSettings, count: int, at_once: int = 1) -> None:
        super().__init__(at_once)
        self._settings = settings
        self._started = 0
        self._processes: list[_Process] = []
        try:
            for _ in range(count):
                self._start()
        except BaseException:
            self.close(kill=True)
            raise

    @property
    def slots(self) -> Sequence[Slot]:
        return self._processes

    def send(self, slot: Slot, job: Job) -> None:
        assert isinstance(slot, _Process)
        try:
            slot.connection.send(job)
        except OSError:
            slot.gone = True

    def wait(self) -> list[Finished | Died]:
        if not any(one.gone for one in self._processes):
            connection.wait([end for one in self._processes for end in (one.connection, one.process.sentinel)])
        happened: list[Finished | Died] = []
        for one in list(self._processes):
            try:
                while one.connection.poll():
                    if (finished := one.take(one.connection.recv())) is not None:
                        happened.append(finished)
                dead = one.gone or not one.process.is_alive()
            except (EOFError, OSError):
                dead = True
            if dead:
                happened.append(self._replace(one))
        return happened

    def close(self, *, kill: bool = False) -> None:
        processes, self._processes = self._processes, []
        if kill:
            for one in processes:
                one.process.terminate()
        end_workers(*((one.process, one.connection) for one in processes))

    def _start(self) -> None:
        self._started += 1
        name = f"worker {self._started}"
        process, pipe = start_worker(_serve, self._settings, self.at_once, name=name)
        self._processes.append(_Process(name=name, process=process, connection=pipe))

    def _replace(self, one: _Process) -> Died:
        self._processes.remove(one)
        end_workers((one.process, one.connection))
        code = one.process.exitcode or 0
        reason = f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
        if not one.ready:
            raise UserError(f"{one.name} died before it was ready ({reason}); its output says why")
        died = Died(one.name, tuple(one.jobs.values()), reason)
        self._start()
        return died


def _serve(jobs: Connection, settings: BenchSettings, at_once: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # cancels the current runs on the way out
    serve_the_parent()
    try:
        runner = JobRunner(settings)
    except (UserError, OSError) as error:
        with contextlib.suppress(OSError):  # the sender is gone: that may be why it cannot be made
            jobs.send(str(error))
        return
    sending = threading.Lock()

    def carry_out(job: Job) -> None:
        said = runner.carry_out(job)
        with sending, contextlib.suppress(OSError):  # the sender is gone
            jobs.send(said)

    with (
        exporting("reactree lab bench"),
        ThreadPoolExecutor(at_once) as threads,
        contextlib.closing(runner),
        contextlib.suppress(EOFError, OSError),
    ):
        jobs.send("")
        while True:
            if at_once > 1:
                threads.submit(carry_out, jobs.recv())
            else:  # in the main thread, where a signal interrupts whatever the run does
                carry_out(jobs.recv())


#: The address for a new Ray cluster on this machine.
LOCAL = "local"
_REACH_TIME = 10.0  # seconds


class RayWorker:
    def __init__(self) -> None:
        self._runner: JobRunner | None = None

    def begin(self, settings: BenchSettings) -> str:
        """Get ready; return a problem or nothing."""
        try:
            self._runner = JobRunner(settings)
        except (UserError, OSError) as error:
            return str(error)
        return ""

    def carry_out(self, job: Job) -> Finished | str:
        assert self._runner is not None  # it is ready
        return self._runner.carry_out(job)


@dataclasses.dataclass(kw_only=True)
class _Actor(Slot):
    actor: Any
    answers: list[Any]  # its current work: the references of its answers


class RayWorkers(Workers):
    """Actors of a Ray cluster, one CPU each; the cluster chooses the machines.

    Files and servers in the settings must be reachable from every machine under the same name.

    Args:
        address: Address of the cluster, e.g. ``ray://head:10001`` or ``auto``; ``local`` starts a Ray on this machine.
    """

    def __init__(self, settings: BenchSettings, count: int, at_once: int = 1, *, address: str) -> None:
        super().__init__(at_once)
        try:
            import ray
        except ImportError as error:
            raise UserError(f"--ray needs Ray ({error}): {install_line('reactree_lab[ray]')}") from error
        _check_reach(address)
        self._ray, self._settings, self._started = ray, settings, 0
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # sends no usage statistics to Ray's makers
        # A Ray on this machine pretends to have a CPU for each worker.
        options: dict[str, Any] = {"num_cpus": count, "include_dashboard": False} if address == LOCAL else {}
        try:
            ray.init(address=address, log_to_driver=False, logging_level="error", **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = " ".join(str(error).split())
            hint = "if the cluster asks for a token, set RAY_AUTH_TOKEN"  # Ray only logs this
            raise UserError(f"--ray {address}: {reason} ({hint})") from error
        self._actors: list[_Actor] = []
        for _ in range(count):
            self._start()

    @property
    def slots(self) -> Sequence[Slot]:
        return self._actors

    def send(self, slot: Slot, job: Job) -> None:
        assert isinstance(slot, _Actor)
        slot.answers.append(slot.actor.carry_out.remote(job))

    def wait(self) -> list[Finished | Died]:
        waited_for = {answer: one for one in self._actors for answer in one.answers}
        first, others = self._ray.wait(list(waited_for), num_returns=1)
        more, _ = self._ray.wait(others, num_returns=len(others), timeout=0) if others else ([], [])
        happened: list[Finished | Died] = []
        for answer in [*first, *more]:
            one = waited_for[answer]
            if one not in self._actors:  # another answer has told that it died
                continue
            try:
                said = self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                happened.append(self._replace(one, error))
                continue
            one.answers.remove(answer)
            if (finished := one.take(said)) is not None:
                happened.append(finished)
        return happened

    def close(self, *, kill: bool = False) -> None:
        actors, self._actors = self._actors, []
        for one in actors:
            self._ray.kill(one.actor)
        self._ray.shutdown()

    def _start(self) -> None:
        self._started += 1
        actor = self._ray.remote(RayWorker).options(num_cpus=1, max_concurrency=self.at_once).remote()
        begun = actor.begin.remote(self._settings)
        self._actors.append(_Actor(name=f"worker {self._started}", actor=actor, answers=[begun]))

    def _replace(self, one: _Actor, error: Exception) -> Died:
        reason = str(error).splitlines()[0]
        if not one.ready:
            raise UserError(f"{one.name} died before it was ready: {reason}")
        self._actors.remove(one)
        self._ray.kill(one.actor)
        self._start()
        return Died(one.name, tuple(one.jobs.values()), reason)


def _check_reach(address: str) -> None:
    """Refuse an unreachable address at once; Ray itself would try for minutes."""
    place = urlsplit(address if "://" in address else f"//{address}")
    try:
        host, port = place.hostname, place.port
    except ValueError as error:
        raise UserError(f"--ray {address}: {error}; write it as HOST:PORT or ray://head:10001") from error
    if host is None or port is None:  # auto, local
        return
    try:
        socket.create_connection((host, port), _REACH_TIME).close()
    except OSError as error:
        raise UserError(f"--ray {address}: cannot be reached: {error}") from error
