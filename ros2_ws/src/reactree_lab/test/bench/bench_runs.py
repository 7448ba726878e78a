"""A small bench: carried out here or in a process of its own, and compared."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from reactree_lab.bench.folder import BenchFolder, read_results
from reactree_lab.bench.job_runner import RECORD, Finished, JobRunner
from reactree_lab.bench.jobs import BenchSettings, Job
from reactree_lab.bench.results import RunLine
from reactree_lab.bench.workers import Died, Slot, Workers, carry_out
from reactree_ros.record.reader import read_record

#: Two tasks of one house, two planners: four runs. The same bench as settings and as options.
SETTINGS = BenchSettings(suite="generated", suite_settings={"houses": 1}, planners=("react", "reactree_wm"), limit=2)
OPTIONS = ("--suite", "generated", "--houses", "1", "--limit", "2", "--planner", "react,reactree_wm")
#: What differs between two runs that went the same way.
CLOCKS = ("seconds", "model_seconds", "busy_seconds", "worker")
TIME_LIMIT = 120.0


COMMAND = "from reactree_ros.cli import main; main()"
# Does something to itself while it writes its third result.
DISTURBED = """
import os, signal
from reactree_lab.bench import folder
from reactree_ros.cli import main

append, lines = folder.append_line, []

def disturbed(file, line):
    if file.name.endswith("results.jsonl"):
        lines.append(line)
        if len(lines) == 3:
            {what}
    append(file, line)

folder.append_line = disturbed
main()
"""
KILLED = DISTURBED.format(what="file.write(line[:40].encode()); file.flush(); os.kill(os.getpid(), signal.SIGKILL)")


class OneWorker(Workers):
    """One worker, which does all at once what it is asked to."""

    def __init__(self, at_once: int = 1) -> None:
        super().__init__(at_once)
        self.slot = Slot(name="worker", ready=True)
        self.sent: list[Job] = []

    @property
    def slots(self) -> list[Slot]:
        return [self.slot]

    def send(self, slot: Slot, job: Job) -> None:
        self.sent.append(job)

    def close(self, *, kill: bool = False) -> None:
        self.closed = True


class InlineWorkers(OneWorker):
    """One worker in this process."""

    def __init__(self, settings: BenchSettings) -> None:
        super().__init__()
        self._runner = JobRunner(settings)

    def wait(self) -> list[Finished | Died]:
        (job,) = self.slot.jobs.values()
        finished = self._runner.carry_out(job)
        assert isinstance(finished, Finished), finished
        took = self.slot.take(finished)
        assert took is not None
        return [took]

    def close(self, *, kill: bool = False) -> None:
        self._runner.close()


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    out: str
    err: str


def bench_here(out: Path, settings: BenchSettings = SETTINGS) -> list[Job]:
    """Carry out a bench, or the rest of one, in this process; returns what had to be carried out."""
    workers = InlineWorkers(settings)
    with closing(BenchFolder(out, settings, runs=len(list(settings.jobs())))) as folder:
        carry_out(settings.jobs(done=folder.done), folder, workers)
    return workers.sent


def line(planner: str = "react", task_id: int = 1, *, seed: int = 0, gsr: float = 1.0, **others: Any) -> RunLine:
    """Make a result."""
    values: dict[str, Any] = {
        "instruction": "Put 1 apple on the kitchen table",
        "status": "success",
        "ssr": gsr,
        "decisions": 10,
        "steps": 8,
        "max_depth": 1,
        "agent_nodes": 1,
        "seconds": 0.5,
        "prompt_tokens": None,
        "cached_tokens": None,
        "output_tokens": None,
        "reasoning_tokens": None,
        "model_seconds": 0.1,
        "end": "done",
        "message": "",
        "suite": "generated",
        "task_name": "setup_table",
    }
    return RunLine(**values | {"planner": planner, "task_id": task_id, "seed": seed, "gsr": gsr} | others)


def bench_of(out: Path, *lines: RunLine, settings: BenchSettings = SETTINGS, runs: int | None = None) -> Path:
    """Write results as a bench does; every run saved a file."""
    with closing(BenchFolder(out, settings, runs=len(lines) if runs is None else runs)) as folder:
        for one in lines:
            folder.record(Finished(one, {}))
    return out


def in_process_of_its_own(program: str, *arguments: object) -> Ended:
    """Run a program until it and every process that it started has closed its output."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background ignores it
    )
    try:
        out, err = process.communicate(timeout=TIME_LIMIT)
    finally:
        process.kill()
    return Ended(process.returncode, out, err)


def outcome(line: RunLine) -> dict[str, Any]:
    """A result without what the clock and the worker have to do with."""
    return {name: value for name, value in dataclasses.asdict(line).items() if name not in CLOCKS}


def saved(out: Path) -> dict[str, Any]:
    """Every saved file by its path; of records all but what the clock has to do with."""
    files = (path for path in sorted((out / "runs").rglob("*")) if path.is_file())
    return {str(path.relative_to(out)): timeless(path) if path.name == RECORD else path.read_bytes() for path in files}


def timeless(path: Path) -> list[dict[str, Any]]:
    """The events of a record without times and names of their own."""
    events = []
    for event in read_record(path).events:
        kept = {name: value for name, value in event.items() if name not in ("t", "id", "started", "seconds")}
        if "result" in kept:
            kept["result"] = {name: value for name, value in kept["result"].items() if name not in CLOCKS}
        events.append(kept)
    return events


def assert_same_bench(one: Path, other: Path) -> None:
    """Two benches have the same runs, each of them once, and every saved run is the same."""
    text = (one / "results.jsonl").read_text(encoding="utf-8")
    assert len(text.splitlines()) == len(read_results(other))
    found, expected = ({line.key: outcome(line) for line in read_results(folder)} for folder in (one, other))
    assert found == expected
    assert saved(one) == saved(other)
