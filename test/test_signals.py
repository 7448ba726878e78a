"""Signals that ask a command to end: what it started ends, the record gets its end, the exit code says which it was."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reactree_ros
from reactree_ros.record.reader import read_record

DEMO = "Put 1 pudding and 1 apple on the coffee table"
PATIENCE = 60.0
SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
#: The command line, whose world starts a simulator, never comes to the end of a skill, and is told when to close.
RUN = """
import os, subprocess, sys
from reactree_ros.cli import main
from reactree_ros.background.pending import Pending
from reactree_ros.household.symbolic import SymbolicWorld

begin, alive = SymbolicWorld.__init__, int(os.environ["ALIVE"])

def __init__(self, *given, **named):
    begin(self, *given, **named)
    self.simulator = subprocess.Popen(["sleep", "600"], start_new_session=True, pass_fds=[alive])

def execute(self, skill):
    print("acting", file=sys.stderr, flush=True)
    return Pending()

def close(self):
    print("closing", file=sys.stderr, flush=True)
    if "WAITS" in os.environ:
        sys.stdin.readline()
    self.simulator.kill()
    self.simulator.wait()

SymbolicWorld.__init__, SymbolicWorld.execute, SymbolicWorld.close = __init__, execute, close
main()
"""
#: The command line, which does something to itself once the first part of its work is done.
WORK = """
import os, signal
from reactree_lab import bootstrap
from reactree_lab.bench import folder
from reactree_ros.cli import main
from reactree_lab.dataset import making

def after_the_first(generator):
    def disturbed(*given, **named):
        for one in generator(*given, **named):
            yield one
            {what}
    return disturbed

def disturbed(file, line, append=folder.append_line):
    append(file, line)
    if file.name.endswith("results.jsonl"):
        {what}

making.made_parts = after_the_first(making.made_parts)
bootstrap.Bootstrap.attempts = after_the_first(bootstrap.Bootstrap.attempts)
folder.append_line = disturbed
main()
"""
COMMANDS = {
    "bench": ("--suite", "generated", "--houses", "3", "--planner", "react", "--workers", "2", "--out", "{out}"),
    "dataset": ("--exercises", "3000", "--workers", "2", "--out", "{out}"),
    "bootstrap": ("--suite", "generated", "--houses", "3", "--memory", "{out}"),
}

Start = Callable[..., "Command"]


class Command:
    """A command in a process of its own, of which we know when everything that it started has ended."""

    def __init__(self, code: str, *arguments: object, ignored: signal.Signals | None = None, **given: Any) -> None:
        self._alive, theirs = os.pipe()
        path = os.pathsep.join([str(Path(__file__).parent / "memory"), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "ALIVE": str(theirs), "PYTHONPATH": path, **given.pop("environment", {})}
        before = given.pop("before", lambda: None)

        def begin() -> None:
            for one in SIGNALS:  # what runs the tests may ignore some, as a shell's background does
                signal.signal(one, signal.SIG_IGN if one == ignored else signal.SIG_DFL)
            before()

        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            **(pipes | given), text=True, env=environment, pass_fds=[theirs], start_new_session=True, preexec_fn=begin,
        )  # fmt: skip
        os.close(theirs)

    def wait_for(self, word: str) -> None:
        """Wait until it says something on stderr."""
        assert self.process.stderr is not None
        assert any(line.strip() == word for line in self.process.stderr), f"it never said {word!r}"

    def ended(self, *, says: str = "") -> tuple[int, str, str]:
        """Return exit code and output; what it started must have ended, too."""
        out, err = self.process.communicate(says, timeout=PATIENCE)
        err = err or ""  # it may be a terminal's
        assert select.select([self._alive], [], [], PATIENCE)[0], "something that it started is still there"
        assert os.read(self._alive, 1) == b""
        assert "Traceback" not in err, err
        return self.process.returncode, out, err

    def kill(self) -> None:
        """Leave nothing of it."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._alive)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Command] = []

    def begin(*given: Any, **named: Any) -> Command:
        started.append(Command(*given, **named))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS, ids=lambda one: one.name)
@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_that_is_asked_to_end_ends_what_it_started_closes_its_record_and_says_what_came_of_it(
    start: Start, tmp_path: Path, number: signal.Signals, as_json: bool
) -> None:
    record = tmp_path / "run.jsonl"
    command = start(RUN, "run", DEMO, "--save", record, *(["--json"] if as_json else []))
    command.wait_for("acting")
    command.process.send_signal(number)
    code, out, _ = command.ended()
    assert code == 128 + number
    end = read_record(record).end
    assert end is not None
    assert end["result"]["end"] == "interrupted"
    if as_json:
        assert json.loads(out)["end"] == "interrupted"
    else:
        assert "nterrupted" in out


@pytest.mark.slow
@pytest.mark.parametrize("second", SIGNALS, ids=lambda one: one.name)
def test_a_second_signal_does_not_break_off_what_ends(start: Start, tmp_path: Path, second: signal.Signals) -> None:
    command = start(RUN, "run", DEMO, "--save", tmp_path / "run.jsonl", environment={"WAITS": "1"})
    command.wait_for("acting")
    command.process.send_signal(signal.SIGTERM)
    command.wait_for("closing")
    command.process.send_signal(second)
    assert command.ended(says="go on\n")[0] == 128 + signal.SIGTERM


#: A thread that is in the middle of a library's compiled code whenever the process ends, as in torch's.
COMPUTES = """
import threading, time
from typing import Annotated
from pydantic import AfterValidator, TypeAdapter

numbers = TypeAdapter(list[Annotated[int, AfterValidator(lambda one: time.sleep(0.0005) or one)]])
threading.Thread(target=lambda: numbers.validate_python([1] * 600_000), daemon=True).start()
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [*SIGNALS, None], ids=str)
def test_what_threads_still_compute_ends_no_process_otherwise(start: Start, number: signal.Signals | None) -> None:
    """Without a signal, too: a run that comes to its end while they do."""
    simulated = RUN if number else RUN.replace("SymbolicWorld.execute, ", "").replace("execute, close\n", "close\n")
    command = start(COMPUTES + simulated.replace("main", "program"), "run", DEMO)
    if number:
        command.wait_for("acting")
        command.process.send_signal(number)
    code, out, err = command.ended()
    assert (code, "FATAL" in err) == (128 + number if number else 0, False), err
    assert "nterrupted" in out if number else "done" in out


@pytest.mark.slow
@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT], ids=lambda one: one.name)
def test_a_signal_that_is_ignored_from_the_start_stays_so(start: Start, ignored: signal.Signals) -> None:
    command = start(RUN, "run", DEMO, ignored=ignored)
    command.wait_for("acting")
    command.process.send_signal(ignored)
    command.process.send_signal(signal.SIGTERM)
    assert command.ended()[0] == 128 + signal.SIGTERM


@pytest.mark.slow
def test_a_terminal_that_is_closed_ends_a_run_in_order(start: Start, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    record = tmp_path / "run.jsonl"
    command = start(
        RUN, "run", DEMO, "--save", record, stdin=theirs, stdout=theirs, stderr=theirs,
        before=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    while b"acting" not in shown:
        assert select.select([ours], [], [], PATIENCE)[0]
        shown += os.read(ours, 4096)
    os.close(ours)
    assert command.ended()[0] == 128 + signal.SIGHUP
    end = read_record(record).end
    assert end is not None
    assert end["result"]["end"] == "interrupted"


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("what", "code"),
    [
        ("os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
        ("os.kill(os.getpid(), signal.SIGHUP)", 128 + signal.SIGHUP),
        ("os.killpg(0, signal.SIGHUP)", 128 + signal.SIGHUP),
        ("os.killpg(0, signal.SIGINT)", 128 + signal.SIGINT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_every_command_ends_with_its_workers(start: Start, tmp_path: Path, name: str, what: str, code: int) -> None:
    arguments = [one.format(out=tmp_path / "out") for one in COMMANDS[name]]
    assert start(WORK.format(what=what), "lab", name, *arguments).ended()[0] == code


@pytest.mark.slow  # a second of waiting
def test_a_node_that_computes_for_ever_as_it_leaves_is_killed() -> None:
    """As Fast DDS's destructors were seen to: after the interpreter, so that no code of Python can end it."""
    leaving = (
        "import ctypes, importlib.util, sys\n"
        "spec = importlib.util.spec_from_file_location('ending', sys.argv[1])\n"  # its folder wants ROS
        "ending = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(ending)\n"
        "ending.LEAVES_WITHIN = 1\n"
        "ending.deaf_when_it_ends()\n"
        "libc = ctypes.CDLL(None)\n"
        "libc.__cxa_atexit(libc.pause, None, None)\n"
    )
    ending = Path(reactree_ros.__file__).parent / "nodes/start.py"
    ended = subprocess.run([sys.executable, "-c", leaving, str(ending)], timeout=PATIENCE, check=False)
    assert ended.returncode == -signal.SIGALRM
