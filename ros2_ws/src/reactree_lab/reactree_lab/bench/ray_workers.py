"""Workers on a Ray cluster: the same jobs on many machines."""

from __future__ import annotations

import dataclasses
import os
import socket
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from reactree_lab.bench.job_runner import Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Job
from reactree_lab.bench.workers import Died, Slot, Workers
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line

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
