"""A fleet for ten minutes: robots write and read at once, and they and the server are killed. Nothing may be lost.

    .venv-bench/bin/python benchmarks/fleet_soak.py --seconds 600

Each robot is a process with a memory of its own, beside the server that all share. It adds runs, and after each, which
is then acknowledged, it writes the run's name to a pipe; between them it retrieves examples. Robots are killed (kill
-9) every few seconds and start again with the file that they had; the server is killed with all its processes every
half a minute, and is away for some seconds. At the end the robots are opened once more until each has delivered what
it has; then the server must have each acknowledged run as a whole, and once.
"""

from __future__ import annotations

import argparse
import os
import random
import selectors
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import IO

from reactree_doors.fleet import FleetMemory
from reactree_ros.agent.text import approximate_tokens

sys.path += [
    str(Path(__file__).resolve().parents[1] / one) for one in ("test/memory", "ros2_ws/src/reactree_doors/test/fleet")
]

from postgres_server import PASSWORD, PostgresServer
from word_hash_embedder import WordHashEmbedder, experience

RUN = 8  # experiences of a run
PLACES, THINGS = ("kitchen", "bedroom", "hall", "bath", "office"), ("apple", "juice", "plate", "cup", "towel", "book")


def robot(url: str, own: str, name: str, life: int) -> None:
    """Write and read until killed."""
    words, number = random.Random(f"{name} {life}"), 0
    with FleetMemory(url, own, WordHashEmbedder()) as memory:
        while True:
            task = f"{name}.{life}.{number}"
            subgoals = (f"find the {words.choice(THINGS)} in the {words.choice(PLACES)} {at}" for at in range(RUN))
            memory.add_run([experience(subgoal, task=task) for subgoal in subgoals])
            found = memory.retrieve(f"find the {words.choice(THINGS)}", count_tokens=approximate_tokens)
            counted = Counter(one.task_id for one in memory) if number % 40 == 7 else Counter({task: RUN})
            whole = set(counted.values()) == {RUN} and counted[task] == RUN
            print(task, "right" if found and whole else f"WRONG {found} {counted}", flush=True)
            number += 1


class Fleet:
    """The robots' processes, and what they acknowledged."""

    def __init__(self, url: str, folder: Path, robots: int) -> None:
        self.acknowledged: list[str] = []
        self.wrong: list[str] = []
        self._url, self._folder = url, folder
        self._lives = Counter[str]()
        self._selector = selectors.DefaultSelector()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._left = dict[str, bytes]()
        for number in range(robots):
            self.start(f"robot{number}")

    def own(self, name: str) -> Path:
        return self._folder / f"{name}.db"

    def start(self, name: str) -> None:
        self._lives[name] += 1
        command = [sys.executable, __file__, "--robot", self._url, str(self.own(name)), name, str(self._lives[name])]
        with (self._folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self._running[name] = process
        self._left[name] = b""
        self._selector.register(process.stdout, selectors.EVENT_READ, name)  # type: ignore[arg-type]

    def hear(self, seconds: float) -> None:
        """Read what robots acknowledge, for some time; one that ended by itself is a fault."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            for key, _ in self._selector.select(min(left, 0.2)):
                if not self._take(key.data, key.fileobj):  # type: ignore[arg-type]
                    self.wrong.append(f"{key.data} ended: see its log")
                    self.kill(key.data)
                    self.start(key.data)

    def _take(self, name: str, pipe: IO[bytes]) -> bool:
        data = os.read(pipe.fileno(), 65536)
        *lines, self._left[name] = (self._left[name] + data).split(b"\n")
        for line in lines:
            task, _, said = line.decode().partition(" ")
            self.acknowledged.append(task)
            if said != "right":
                self.wrong.append(line.decode()[:300])
        return bool(data)

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()
        assert process.stdout is not None
        while self._take(name, process.stdout):  # what it wrote before it was killed
            pass
        self._selector.unregister(process.stdout)
        process.stdout.close()

    @property
    def names(self) -> list[str]:
        return list(self._running)


def soak(seconds: float, robots: int) -> int:
    """Returns the number of faults."""
    os.environ["PGPASSWORD"] = PASSWORD
    moments, server, begun = random.Random(7), PostgresServer({"max_connections": 100}), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fleet_soak_") as folder:
        fleet, kills, downs, told = Fleet(server.url(), Path(folder), robots), 0, 0, 0
        try:
            server_next = 30.0
            while (passed := time.monotonic() - begun) < seconds:
                fleet.hear(moments.uniform(1, 4))
                if passed > server_next:
                    server.kill()
                    fleet.hear(moments.uniform(1, 8))
                    server.start()
                    downs, server_next = downs + 1, passed + 30
                else:
                    name = moments.choice(fleet.names)
                    fleet.kill(name)
                    fleet.hear(moments.uniform(0, 1))
                    fleet.start(name)
                    kills += 1
                if passed >= 60 * (told + 1):
                    told += 1
                    print(
                        f"{passed:4.0f} s: {len(fleet.acknowledged)} runs acknowledged, robots killed {kills} times, "
                        f"the server {downs} times, faults {len(fleet.wrong)}",
                        flush=True,
                    )
            names = fleet.names
            for name in names:
                fleet.kill(name)
            return report(server, fleet, names)
        finally:
            for name in fleet.names:
                fleet.kill(name)
            server.remove()


def report(server: PostgresServer, fleet: Fleet, names: list[str]) -> int:
    """Let every robot deliver what is left, and compare."""
    waited = 0
    for name in names:
        with FleetMemory(server.url(), fleet.own(name), WordHashEmbedder()) as memory:
            waiting = memory._own.waiting()
            waited += len(waiting)
            while left := memory._own.waiting():
                memory._link.deliver()
                if len(memory._own.waiting()) == len(left):
                    time.sleep(0.1)
            held = Counter(one.task_id for one in memory)
    lost = [task for task in fleet.acknowledged if not held[task]]
    parts = [task for task, count in held.items() if count != RUN]
    print(f"waited at the end to be delivered: {waited} runs")
    print(f"{len(fleet.acknowledged)} runs acknowledged, {len(held)} on the server ({held.total()} experiences)")
    print(f"lost: {len(lost)}; in part or twice: {len(parts)}; wrong while running: {len(fleet.wrong)}")
    for fault in (*lost[:5], *parts[:5], *fleet.wrong[:5]):
        print("FAULT", fault)
    return len(lost) + len(parts) + len(fleet.wrong)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--robot"]:
        robot(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--robots", type=int, default=8)
    given = parser.parse_args()
    sys.exit(min(1, soak(given.seconds, given.robots)))
