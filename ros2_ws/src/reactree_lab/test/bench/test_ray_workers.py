"""The bench on a Ray of this machine's own comes to what it comes to in processes."""

from __future__ import annotations

import signal
import socket
from contextlib import closing
from pathlib import Path

import pytest
from bench_runs import COMMAND, KILLED, OPTIONS, SETTINGS, assert_same_bench, in_process_of_its_own

from reactree_lab.bench.folder import BenchFolder, read_results
from reactree_lab.bench.jobs import Job
from reactree_lab.bench.workers import LOCAL, Died, RayWorkers, Slot, carry_out
from reactree_ros.errors import UserError

pytestmark = pytest.mark.bench


def test_a_bench_on_ray_that_is_killed_goes_on_where_it_was(tmp_path: Path, undisturbed: Path) -> None:
    arguments = ("lab", "bench", *OPTIONS, "--workers", 2, "--ray", "local", "--out", tmp_path / "out")
    killed = in_process_of_its_own(KILLED, *arguments)
    assert killed.code == -signal.SIGKILL, killed.err
    assert len(read_results(tmp_path / "out")) == 2

    resumed = in_process_of_its_own(COMMAND, *arguments)
    assert resumed.code == 0, resumed.err
    assert_same_bench(tmp_path / "out", undisturbed)


class StruckDown(RayWorkers):
    """The first worker that gets a job is dead already."""

    def send(self, slot: Slot, job: Job) -> None:
        if self._started == 1:
            self._ray.kill(self._actors[0].actor)
        super().send(slot, job)


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_worker_that_dies_is_replaced_and_its_runs_carried_out_once(
    at_once: int, tmp_path: Path, undisturbed: Path
) -> None:
    deaths: list[Died] = []
    with closing(BenchFolder(tmp_path, SETTINGS)) as folder:
        all_jobs = list(SETTINGS.jobs())
        assert carry_out(all_jobs, folder, StruckDown(SETTINGS, 1, at_once, address=LOCAL), died=deaths.append) == []
    assert [died.jobs for died in deaths] == [tuple(all_jobs[:at_once])]
    assert_same_bench(tmp_path, undisturbed)


def test_an_address_where_nobody_listens_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listened at
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(UserError, match=f"--ray {address}: cannot be reached"):
            RayWorkers(SETTINGS, 1, address=address)
