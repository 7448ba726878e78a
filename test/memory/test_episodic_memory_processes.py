"""Episodic memory with several processes, some of which are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from word_hash_embedder import WordHashEmbedder

from reactree_ros.agent.text import approximate_tokens
from reactree_ros.memory.stores.sqlite import SqliteMemory

HERE = Path(__file__).resolve().parent
BOUND = 120.0  # seconds

PREAMBLE = """
import os, signal, sqlite3, sys
sys.path[:0] = [{here!r}, {root!r}]
from word_hash_embedder import WordHashEmbedder, experience
from reactree_ros.memory.stores.sqlite import SqliteMemory
path = sys.argv[1]
"""


def start(path: Path, program: str, *arguments: object) -> subprocess.Popen[str]:
    preamble = PREAMBLE.format(here=str(HERE), root=str(HERE.parents[1]))
    return subprocess.Popen(
        [sys.executable, "-c", preamble + textwrap.dedent(program), str(path), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        _, errors = process.communicate(timeout=BOUND)
    finally:
        process.kill()
    return process.returncode, errors


WRITER = """
writer = sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
with SqliteMemory(path, WordHashEmbedder()) as memory:
    for number in range(40):
        run = [experience(f"open fridge {number} {part}", task=f"{writer}-{number}") for part in range(6)]
        memory.add_run(run)
"""


@pytest.mark.slow
def test_two_processes_that_write_at_once_lose_nothing_and_a_reader_sees_whole_runs(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"  # made by whichever is first
    writers = [start(path, WRITER, name) for name in "ab"]
    try:
        for writer in writers:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        with SqliteMemory(path, WordHashEmbedder()) as reader:
            while any(writer.poll() is None for writer in writers):
                assert len(reader.search("open fridge", 1000)) % 6 == 0
            for writer in writers:
                assert finished(writer) == (0, "")
            found = [one for _, one in reader.search("open fridge", 1000)]
            by_task = Counter(one.task_id for one in found)
            assert by_task == {f"{name}-{number}": 6 for name in "ab" for number in range(40)}
            assert reader.counts().subgoals == 240  # both writers' subgoals are the same
    finally:
        for writer in writers:
            writer.kill()


# The process kills itself when SQLite is about to run a chosen statement of the second run's transaction. The run is
# larger than SQLite's page cache, so that a part of it is in the file by then.
KILLED = """
statement, at = sys.argv[2], int(sys.argv[3])
def run(task):
    return [experience(f"open {part}", task=task, filler=f"Think: {'x' * 5000}\\nOK.\\n") for part in range(1500)]
connect, seen = sqlite3.connect, 0
def trace(sql):
    global seen
    if sql.startswith(statement) and armed:
        seen += 1
        if seen == at:
            os.kill(os.getpid(), signal.SIGKILL)
def traced(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.set_trace_callback(trace)
    return connection
armed = False
sqlite3.connect = traced
with SqliteMemory(path, WordHashEmbedder()) as memory:
    memory.add_run(run(1))
    armed = True
    memory.add_run(run(2))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("statement", "at"),
    [("INSERT INTO run", 1), ("INSERT INTO experience", 1), ("INSERT INTO experience", 1400), ("COMMIT", 1)],
)
def test_a_writer_killed_in_the_middle_of_a_run_leaves_nothing_of_it(statement: str, at: int, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    code, errors = finished(start(path, KILLED, statement, at))
    assert (code, errors) == (-signal.SIGKILL, "")
    if at == 1400:
        assert os.path.getsize(f"{path}-wal") > 1_000_000  # a part of the run had reached the disk
    with SqliteMemory(path, WordHashEmbedder()) as memory:
        assert {one.task_id for one in memory} == {"1"}
        assert len(memory) == 1500
        assert memory.counts().runs == 1
        memory.add_run([next(iter(memory))])  # and it can be written again
        assert len(memory.search("open fridge 1", 2000)) == 1501


ENDLESS = """
import itertools
with SqliteMemory(path, WordHashEmbedder()) as memory:
    for number in itertools.count():
        memory.add_run([experience(f"open {part}", task=f"{sys.argv[2]}-{number}") for part in range(25)])
        print(number, flush=True)
"""


@pytest.mark.slow
def test_whenever_a_writer_is_killed_every_run_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    moments = random.Random(0)
    for attempt in range(8):
        writer = start(path, ENDLESS, attempt)
        try:
            assert writer.stdout is not None
            for _ in range(moments.randint(1, 12)):
                last = writer.stdout.readline()
            for _ in range(moments.randint(0, 200_000)):  # somewhere within the next run
                pass
        finally:
            writer.kill()
            writer.communicate(timeout=BOUND)
        with SqliteMemory(path, WordHashEmbedder()) as memory:
            by_task = Counter(one.task_id for one in memory)
            assert set(by_task.values()) == {25}
            assert by_task[f"{attempt}-{int(last)}"] == 25, "a run that add_run returned from is there"
            assert memory.counts().runs == len(by_task)
            assert len(memory.retrieve("open 3", count_tokens=approximate_tokens)) > 0


@pytest.mark.slow
def test_a_memory_may_be_made_by_many_processes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    program = """
    print("ready", flush=True)
    sys.stdin.readline()
    SqliteMemory(path, WordHashEmbedder()).add_run([experience(task=sys.argv[2])])
    """
    makers = [start(path, program, number) for number in range(4)]
    try:
        for maker in makers:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "ready\n"
        for maker in makers:
            assert maker.stdin is not None
            maker.stdin.write("go\n")
            maker.stdin.flush()
        assert [finished(maker) for maker in makers] == [(0, "")] * 4
    finally:
        for maker in makers:
            maker.kill()
    with SqliteMemory(path, WordHashEmbedder()) as memory:
        assert {one.task_id for one in memory} == {"0", "1", "2", "3"}
