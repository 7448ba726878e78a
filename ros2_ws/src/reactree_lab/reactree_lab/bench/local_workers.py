"""Workers in processes of this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from reactree_lab.bench.job_runner import Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Job
from reactree_lab.bench.workers import Died, Slot, Workers
from reactree_ros.background.worker_process import end_workers, serve_the_parent, start_worker
from reactree_ros.episode.telemetry import exporting
from reactree_ros.errors import UserError


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
    def pids(self) -> list[int]:
        return [one.process.pid for one in self._processes if one.process.pid is not None]

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
            watched: list[Any] = []
            for one in self._processes:
                watched += (one.connection, one.process.sentinel)
            connection.wait(watched)
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
