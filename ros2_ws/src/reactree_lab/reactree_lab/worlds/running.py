"""How worlds run: each call in a thread, and simulators that are C in a Python process in processes of their own.

Such a process is a program of ours that answers lines of JSON. Where the simulator crashes or never comes back, that
process is what is lost. It ends with the one that asks, also where that one is killed, whatever it is at.
"""

from __future__ import annotations

import abc
import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import TimeoutError
from typing import Any, Generic, Protocol, TypeVar

from reactree_ros.agent.skill import Offered
from reactree_ros.background.pending import Pending, Worker
from reactree_ros.background.worker_process import python_module
from reactree_ros.world.port import Observation, Score, World, WorldError

#: How long a process that says no more may take to end, in seconds.
_LAST_WORDS = 1.0
#: How much of the last line that it wrote is told if it ends, in characters.
_TAIL = 300


class LineProcess:
    """A process that answers requests one after the other, for one thread at a time, except :meth:`stop`.

    Raises:
        WorldError: It cannot be started.
    """

    name: str
    module: str
    answer_limit: float
    fragile = False  # whether an error of a method loses the process

    def __init__(self) -> None:
        self.lost = ""
        self._unread = b""
        self._written = tempfile.TemporaryFile()  # noqa: SIM115 (its output other than answers, until the end)
        try:
            self._process = subprocess.Popen(
                python_module(self.module),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._written,
                bufsize=0,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,  # an interrupt of ours is not for it; it ends when we do
            )
        except OSError as error:
            self._written.close()
            raise WorldError(f"{self.name} does not start: {error.strerror}") from error
        self._owner = os.getpid()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        os.set_blocking(self._to.fileno(), False)
        self._bound = 0.0

    def ask(self, *request: object) -> dict[str, Any]:
        """Call a method of the process's player: its name, then its arguments; returns what it returns.

        Raises:
            WorldError: It is gone, or the method raised an error.
        """
        if self.lost:
            raise WorldError(self.lost)
        self._bound = time.monotonic() + self.answer_limit
        self._send(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(self._line())
        if "error" in answer:
            raise self.gone(str(answer["error"])) if self.fragile else WorldError(str(answer["error"]))
        return answer

    def stop(self) -> None:
        """Let it end with all that it has started, from any thread; who waits for its answer is told so."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def kill(self) -> None:
        self.lost = self.lost or f"{self.name} was closed"
        self.stop()
        self._process.wait()
        for pipe in (self._to, self._from, self._written):
            with contextlib.suppress(OSError):  # what it did not read any more
                pipe.close()

    @property
    def usable(self) -> bool:
        """Whether it is there, and this process's own: a fork has only copies of its pipes."""
        return not self.lost and self._owner == os.getpid() and self._process.poll() is None

    def gone(self, why: str) -> WorldError:
        """End a process that is no longer of use; return the error that says so."""
        self.lost = f"{self.name} is gone: {why}"
        self.kill()
        return WorldError(self.lost)

    def _send(self, data: bytes) -> None:
        while data:
            if not self._ready(self._to, select.POLLOUT):
                raise self.gone(f"it does not listen within {self.answer_limit:g} s")
            try:
                data = data[os.write(self._to.fileno(), data) :]
            except OSError:
                raise self.gone(self._end()) from None

    def _line(self) -> bytes:
        while b"\n" not in self._unread:
            if not self._ready(self._from, select.POLLIN):
                raise self.gone(f"it does not answer within {self.answer_limit:g} s")
            if not (read := os.read(self._from.fileno(), 1 << 16)):
                raise self.gone(self._end())
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _ready(self, pipe: Any, event: int) -> bool:
        poll = select.poll()  # select itself takes no file descriptor above 1023
        poll.register(pipe, event)
        return bool(poll.poll(1000 * max(0.0, self._bound - time.monotonic())))

    def _end(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS)
        self._process.kill()
        code = self._process.wait()
        self._written.seek(0)
        lines = self._written.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")[:_TAIL]
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"it has ended {how}" + (f" ({last})" if last else "")


class Lendable(Protocol):
    """What takes a while to start, so that one episode after the other has it."""

    @property
    def usable(self) -> bool:
        """Whether another one may have it."""

    def kill(self) -> None:
        """End it."""


L = TypeVar("L", bound=Lendable)


class Spare(Generic[L]):
    """Keeps one thing of a kind that nobody uses for the next one who needs it."""

    def __init__(self, make: Callable[[], L]) -> None:
        self._make = make
        self._kept: L | None = None
        self._lock = threading.Lock()

    def borrow(self) -> L:
        """Return the one that nobody uses, or a new one; a WorldError if it does not start."""
        with self._lock:
            kept, self._kept = self._kept, None
        return kept if kept is not None and kept.usable else self._make()

    def give_back(self, thing: L) -> None:
        with self._lock:
            keep = thing.usable and self._kept is None
            if keep:
                self._kept = thing
        if not keep:
            thing.kill()


def serve(player: Callable[[], object]) -> None:
    """Answer requests in this process, each the name of a method of a player and its arguments, until nobody asks.

    The player's methods return what JSON can say. What it prints is dropped.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="ascii", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    asked = os.fdopen(os.dup(0), encoding="ascii")  # not for what the player starts
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    requests: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_hear, args=(asked, requests), daemon=True).start()
    served: object = None
    while True:
        name, *arguments = json.loads(requests.get())
        try:
            served = served or player()
            answer = getattr(served, name)(*arguments)
        except (Exception, SystemExit) as error:  # whatever the simulator has
            kind = "" if type(error) is RuntimeError else f"{type(error).__name__}: "
            answer = {"error": " ".join(f"{kind}{error}".split())}
        answers.write(f"{json.dumps(answer)}\n")


def _hear(asked: Iterable[str], requests: queue.SimpleQueue[str]) -> None:
    """Queue requests; end the process, and what it has started, together with its parent, whatever it is doing."""
    for line in asked:
        requests.put(line)
    os.killpg(0, signal.SIGKILL)


#: How long closing waits for what the world is still at, in seconds.
CLOSE_LIMIT = 2.0


class WorkerWorld(World):
    """A world that does one thing after the other; what a subclass has are the methods that its thread calls.

    If it is not ``scored``, the task's goal is not what is asked for, and there is no score.
    """

    def __init__(self, name: str, *, scored: bool) -> None:
        self._worker = Worker(name, WorldError)
        self._scored = scored

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        def begin() -> Observation:
            self._begin(seed)
            return self._look()

        return self._worker.do(begin)

    def observe(self) -> Pending[Observation]:
        return self._worker.do(self._look)

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return self._worker.do(self._skills)

    def execute(self, skill: str) -> Pending[Observation]:
        return self._worker.do(lambda: self._take(skill))

    def score(self) -> Pending[Score | None]:
        return self._worker.do(lambda: self._rate() if self._scored else None)

    def at_rest(self) -> Pending[None]:
        return self._worker.at_rest()

    def close(self) -> None:
        ended = self._worker.close(self._let_go)
        with contextlib.suppress(Exception):  # a second close, or what could not be let go of
            try:
                ended.result(CLOSE_LIMIT)
            except TimeoutError:
                self._stop()

    # ------------------------------------------------------------------ in the thread

    @abc.abstractmethod
    def _begin(self, seed: int | None) -> object:
        """Go back to the start."""

    @abc.abstractmethod
    def _look(self) -> Observation:
        """Tell what is seen."""

    @abc.abstractmethod
    def _skills(self) -> Sequence[str]:
        """List what can be done now."""

    @abc.abstractmethod
    def _take(self, skill: str) -> Observation:
        """Carry out a skill."""

    @abc.abstractmethod
    def _rate(self) -> Score:
        """Say how far the goal is reached."""

    def _let_go(self) -> object:
        """Let go of what the world has, last of all."""

    # ------------------------------------------------------------------ in any thread

    def _stop(self) -> None:
        """Stop what does not come back."""
