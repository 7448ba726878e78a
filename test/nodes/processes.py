"""Processes of a test: read while they run, interrupted as by Ctrl-C in a terminal, gone at the test's end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

#: Longest wait for anything, in seconds; the machine may be busy.
PATIENCE = 90.0


class Process:
    """A command with whatever it starts, in a process group of its own.

    Args:
        command: The command.
        domain: ROS domain.
        stdin: File descriptor of what it reads; by default there is nothing.
    """

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
        with self._more:
            said = self._more.wait_for(lambda: text in self.output, PATIENCE)
        assert said, f"'{text}' was not said by {self._command}: {self.output}"

    def wait_until(self, so: Callable[[], bool]) -> None:
        """Wait until something is so of what it has said."""
        with self._more:
            assert self._more.wait_for(so, PATIENCE), f"{self._command}: {self.output[-3000:]}"

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
        try:
            code = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self._command} did not end: {self.output}") from None
        self._reader.join(PATIENCE)
        return code

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
        deadline = time.monotonic() + PATIENCE
        while _state_and_group(self._process.pid)[0] != "S":
            assert time.monotonic() < deadline, f"{self._command} never waits"
        os.killpg(self._process.pid, signal.SIGINT)

    def left(self) -> list[str]:
        """Command lines of what runs in its process group."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                state, group = _state_and_group(int(process.name))
                command = (process / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it has ended meanwhile
                continue
            if group == self._process.pid and state != "Z":
                found.append(command)
        return found

    def wait_until_nothing_is_left(self) -> None:
        """Wait until it has ended with all that it had started."""
        deadline = time.monotonic() + PATIENCE
        while left := self.left():
            assert time.monotonic() < deadline, f"{left}: {self.output}"
            self.ended  # noqa: B018  # looks for a moment

    def child(self, word: str) -> int:
        """Return a process that it has started itself, with this word in its command line."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self._process.pid and word in (process / "cmdline").read_text():
                    return int(process.name)
        raise AssertionError(f"{self} has started no {word}")

    def kill(self) -> None:
        """End it with all it has started, at once."""
        if self.left():
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


#: Programs that need py_trees_ros (and tf2_ros), which no wheel has.
SOURCE_ONLY = ("faulty_nodes", "planner_node", "robot_bridge_node")


class Processes:
    """Starts processes in one ROS domain.

    Args:
        domain: ROS domain.
    """

    def __init__(self, domain: int) -> None:
        self.domain = domain
        self._started: list[Process] = []
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job, and so in what it starts
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(self, *command: str, stdin: int = subprocess.DEVNULL) -> Process:
        """Start a command."""
        if command[0] == "ros2" and shutil.which("ros2") is None:
            pytest.skip("needs ros2cli")
        for word in command[:3]:
            if Path(word).stem in SOURCE_ONLY or word.rpartition(".")[2] in SOURCE_ONLY:
                pytest.importorskip("py_trees_ros")
        self._started.append(Process(*command, domain=self.domain, stdin=stdin))
        return self._started[-1]

    def launch(self, *arguments: str) -> Process:
        """Start the whole launch."""
        return self.start("ros2", "launch", "reactree_ros", "household.launch.py", *arguments)

    def node(self, name: str, *arguments: str) -> Process:
        """Start a node of the package."""
        return self.start(sys.executable, "-m", f"reactree_ros.nodes.{name}", *arguments)

    def held(self, kind: str, *arguments: str) -> Process:
        """Start a bridge or an inference node that holds what it is asked until :meth:`release`."""
        return self.start(sys.executable, str(Path(__file__).parent / "held_nodes.py"), kind, *arguments)

    def kill_all(self) -> None:
        """End all of them; what they said is shown where the test has failed."""
        for process in self._started:
            process.kill()
            print(f"{process}\n{process.output}")  # noqa: T201


def need_in_nodes(extra: str, *modules: str) -> None:
    """Skip a test where the Python of the nodes that a launch starts lacks a module, and say what installs it."""
    from ament_index_python.packages import get_package_prefix

    script = Path(get_package_prefix("reactree_ros"), "lib/reactree_ros/inference_node").read_text(encoding="utf-8")
    python = script.partition("\n")[0].removeprefix("#!").split()
    program = (
        "import importlib.util as known; from reactree_ros.plugins.installation import install_line;"
        f"print('' if all(map(known.find_spec, {modules})) else install_line('reactree_ros[{extra}]'))"
    )
    asked = subprocess.run([*python, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=True)
    if asked.stdout.strip():
        pytest.skip(f"needs {', '.join(modules)} where the nodes run: {asked.stdout.strip()}")


def release(process: Process) -> None:
    """Let a process of :meth:`Processes.held` do what it is asked, now and from now on."""
    process.signal(signal.SIGUSR1)


def _state_and_group(pid: int) -> tuple[str, int]:
    state, _, group = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:3]
    return state, int(group)
