"""Processes of a test: read while they run, interrupted as by Ctrl-C in a terminal, gone at the test's end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from reactree_ros.nodes.start import SCRIPTS

#: Longest wait in which nothing goes on, in seconds, and longest wait of all.
PATIENCE, LONGEST = 60.0, 900.0
#: Time between two looks whether anything goes on, in seconds.
LOOK = 0.25
#: How long a node may be silent, in seconds, if a test is not about that: the most that may be set, for a busy machine.
SILENCE = 60.0


class Patience:
    """How long a test waits: only time in which nothing goes on uses it up, so a busy machine does not.

    Something goes on while a process that the test has started, or another thread of the test's own process, computes,
    wants to compute, or waits for the disk. A wait of the test's own that took longer than it asked for counts as long
    as it asked for, because the test itself had to wait for the machine."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self.seconds = seconds
        self._left, self._last = seconds, time.monotonic()
        self._end = self._last + max(LONGEST, seconds)

    def is_over(self) -> bool:
        """Whether it is used up; to be asked again and again while the test waits."""
        now = time.monotonic()
        if now - self._last >= LOOK:
            if not _something_goes_on():
                self._left -= LOOK
            self._last = now
        return self._left <= 0 or now > self._end

    def take(self, queue: Queue[Any]) -> Any:
        """Wait for what another thread puts into a queue."""
        while True:
            with suppress(Empty):
                return queue.get(timeout=LOOK)
            assert not self.is_over(), f"nothing came within {self.seconds:g} s in which nothing else went on"


def _something_goes_on() -> bool:
    own = f"/proc/self/task/{threading.get_native_id()}"
    folders = ["/proc/self/task", *[f"/proc/{pid}/task" for pid in _descendants(os.getpid())]]
    threads = [str(thread) for folder in folders for thread in Path(folder).glob("*")]
    return any(_stat(thread)[0] in "RD" for thread in threads if thread != own)


def _descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and that these have started."""
    parents = {int(process.name): int(_stat(process)[1]) for process in Path("/proc").glob("[0-9]*")}
    found = [pid]
    for one in found:  # it grows meanwhile
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def _stat(process: Path | str) -> tuple[str, ...]:
    """Return the state, parent and group of a process or thread; of one that has ended meanwhile nobody's."""
    try:
        return tuple(Path(process, "stat").read_text().rpartition(")")[2].split()[:3])
    except OSError:
        return "X", "0", "0"


#: Waits until a test run is gone, however it ended, and ends whatever it has left: that has a mark in its environment.
_KEEPER = """
import os, signal, sys, time
mark, left = sys.argv[1].encode(), True
sys.stdin.read()
while left:
    left = False
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                marked = mark in environment.read()
            if marked:
                os.kill(int(pid), signal.SIGKILL)
                left = True
        except OSError:
            pass
    time.sleep(0.05)
"""


@cache
def keep_nothing() -> None:
    """Have whatever this process starts from now on, and what that starts, end with this process."""
    mark = f"ENDS_WITH_TEST_RUN_{uuid.uuid4().hex}"
    command = (sys.executable, "-c", _KEEPER, mark)
    subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)  # its input ends with this process
    os.environ[mark] = "1"


class Process:
    """A command with whatever it starts, in a process group of its own."""

    def __init__(self, *command: str, domain: int, stdin: int = subprocess.DEVNULL) -> None:
        self._command = command
        self._lines: list[str] = []
        self._more = threading.Condition()
        environment = {**os.environ, "ROS_DOMAIN_ID": str(domain), "PYTHONUNBUFFERED": "1"}
        self._process = subprocess.Popen(
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            with self._more:
                self._lines.append(line)
                self._more.notify_all()
        with self._more:
            self._more.notify_all()

    def __str__(self) -> str:
        return " ".join(self._command)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    @property
    def output(self) -> str:
        """What it has said so far."""
        return "".join(self._lines)

    def wait_for(self, text: str) -> None:
        """Wait until it has said something."""
        patience = Patience()
        with self._more:
            while text not in self.output:
                assert not patience.is_over(), f"'{text}' was not said by {self._command}: {self.output}"
                self._more.wait(LOOK)

    def wait_until(self, so: Callable[[], bool]) -> None:
        """Wait until something is so of what it has said."""
        patience = Patience()
        with self._more:
            while not so():
                assert not patience.is_over(), f"{self._command}: {self.output[-3000:]}"
                self._more.wait(LOOK)

    @property
    def ended(self) -> bool:
        """Whether it has ended; looks for a hundredth of a second."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.01)
        return self._process.returncode is not None

    def wait_until_up(self, bring_up: int = 5) -> None:
        """Wait until a launch has brought its nodes up, by the process to which it gave this number."""
        self.wait_for(f"[bring_up-{bring_up}]: process has finished cleanly")

    def end(self) -> int:
        """Wait until it ends; returns its exit code."""
        patience = Patience()
        while not self.ended or self._reader.is_alive():
            assert not patience.is_over(), f"{self._command} did not end: {self.output}"
            self._reader.join(LOOK)
        return self._process.returncode

    def ended_cleanly(self, code: int) -> bool:
        """Whether it ended with an exit code, without a traceback, without force, and with all it had started."""
        assert self.end() == code, self.output
        assert "Traceback" not in self.output, self.output
        assert "escalating" not in self.output, self.output
        assert self.left() == []
        return True

    def pid_of(self, executable: str) -> int:
        """Return the process of a node that a launch has started."""
        return int(self.output.partition(f"[{executable}-")[2].partition("started with pid [")[2].partition("]")[0])

    def signal(self, number: int) -> None:
        """Send a signal to it alone."""
        self._process.send_signal(number)

    def interrupt(self) -> None:
        """Do what Ctrl-C in a terminal does, while the command itself waits for something.

        Where Ctrl-C comes while launch looks after a process that has ended, it raises KeyboardInterrupt right there
        and then waits for that process for ever; the tests are not about that.
        """
        patience = Patience()
        while _stat(f"/proc/{self.pid}")[0] != "S":
            assert not patience.is_over(), f"{self._command} never waits"
        os.killpg(self._process.pid, signal.SIGINT)

    def left(self) -> list[str]:
        """Command lines of what runs in its process group."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            state, _, group = _stat(process)
            if int(group) == self.pid and state != "Z":
                with suppress(OSError):  # it has ended meanwhile
                    found.append((process / "cmdline").read_text().replace("\0", " "))
        return found

    def wait_until_nothing_is_left(self) -> None:
        """Wait until it has ended with all that it had started."""
        patience = Patience()
        while left := self.left():
            assert not patience.is_over(), f"{left}: {self.output}"
            self.ended  # noqa: B018  # looks for a moment

    def child(self, word: str) -> int:
        """Return a process that it has started itself, with this word in its command line."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if int(_stat(process)[1]) == self.pid and word in (process / "cmdline").read_text():
                    return int(process.name)
        raise AssertionError(f"{self} has started no {word}")

    def kill(self) -> None:
        """End it with all it has started, at once."""
        if self.left():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


#: The ROS packages that programs of the tests come with.
COMES_WITH = {"ros2": "ros2cli", "py-trees-tree-watcher": "py_trees_ros"}


def need_program(name: str) -> None:
    """Skip a test where a program is not there, and say with which package it comes."""
    if shutil.which(name) is None:
        pytest.skip(f"needs {COMES_WITH[name]}")


class Processes:
    """Starts processes in one ROS domain."""

    def __init__(self, domain: int) -> None:
        keep_nothing()
        self.domain = domain
        self._started: list[Process] = []
        # A background job of a shell ignores both, and so would what it starts.
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, handler)

    def start(self, *command: str, stdin: int = subprocess.DEVNULL) -> Process:
        """Start a command."""
        if command[0] in COMES_WITH:
            need_program(command[0])
        self._started.append(Process(*command, domain=self.domain, stdin=stdin))
        return self._started[-1]

    def launch(self, *arguments: str) -> Process:
        """Start the whole launch."""
        return self.start("ros2", "launch", "reactree_ros", "household.launch.py", f"silence:={SILENCE}", *arguments)

    def node(self, name: str, *arguments: str) -> Process:
        """Start a node of the package."""
        return self.start(sys.executable, "-m", f"reactree_ros.nodes.{SCRIPTS[name]}", *arguments)

    def held(self, kind: str, *arguments: str) -> Process:
        """Start a node of held_nodes.py, such as a bridge that holds what it is asked until :func:`release`."""
        return self.start(sys.executable, str(Path(__file__).parent / "held_nodes.py"), kind, *arguments)

    def household(
        self, *arguments: str, server_timeout: float = 30.0, silence: float = SILENCE
    ) -> tuple[Process, Process, Process]:
        """Start a bridge and an inference node that hold what they are asked, and a planner; all are up."""
        bridge, inference = self.held("bridge", *arguments), self.held("inference", *arguments)
        given = ("bridge:=held_bridge", "inference:=held_inference", f"server_timeout:={server_timeout}")
        more = [part for one in (*given, f"silence:={silence}") for part in ("-p", one)]
        planner = self.node("planner_node", *(arguments or ("--ros-args",)), *more)
        assert self.node("bring_up", "held_inference", "held_bridge", "reactree_planner", *arguments).end() == 0
        return bridge, inference, planner

    def kill_all(self) -> None:
        """End all of them; what they said is shown where the test has failed."""
        for process in self._started:
            process.kill()
            print(f"{process}\n{process.output}")  # noqa: T201


def need_in_nodes(extra: str, *modules: str) -> None:
    """Skip a test where the Python of the nodes that a launch starts lacks a module, and say what installs it."""
    need_program("ros2")
    from ament_index_python.packages import get_package_prefix

    script = Path(get_package_prefix("reactree_ros"), "lib/reactree_ros/inference_node").read_text(encoding="utf-8")
    python = script.partition("\n")[0].removeprefix("#!").split()
    program = (
        "import importlib.util as known; from reactree_ros.plugins.installation import install_line;"
        f"print('' if all(map(known.find_spec, {modules})) else install_line('reactree_ros[{extra}]'))"
    )
    asked = subprocess.run([*python, "-c", program], capture_output=True, text=True, timeout=LONGEST, check=True)
    if asked.stdout.strip():
        pytest.skip(f"needs {', '.join(modules)} where the nodes run: {asked.stdout.strip()}")


def release(process: Process) -> None:
    """Let a process of :meth:`Processes.held` do what it is asked, now and from now on."""
    process.signal(signal.SIGUSR1)
