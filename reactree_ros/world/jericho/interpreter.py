"""The interpreter of ``jericho`` in a process of its own, behind bounds."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reactree_ros.world.port import WorldError

#: How long the interpreter may take to answer, to the first request, too, in seconds.
ANSWER_LIMIT = 30.0
_PLAYER = Path(__file__).with_name("player.py")


@dataclass(frozen=True)
class Told:
    """What a game has answered, and how it stands.

    Attributes:
        text: The answer, as it came.
        score: Its score, in its points.
        maximum: The highest score that it has; 0 where it does not tell.
        over: Whether it has ended.
        won: Whether it has ended well.
        known: Whether it has understood what was said, as far as its words tell.
    """

    text: str
    score: int
    maximum: int
    over: bool
    won: bool
    known: bool


class Interpreter:
    """One process for one story at a time. It ends with this process, also where that is killed.

    For one thread at a time, except :meth:`stop`.

    Raises:
        WorldError: It cannot be started.
    """

    def __init__(self) -> None:
        self.lost = ""  # why it is of no use any more
        self._unread = b""
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (what it says beside its answers, until the end)
        try:
            self._process = subprocess.Popen(
                [sys.executable, str(_PLAYER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                start_new_session=True,  # an interrupt of ours is not for it; it ends when we do
            )
        except OSError as error:
            self._said.close()
            raise WorldError(f"the interpreter of jericho does not start: {error.strerror}") from error
        self._owner = os.getpid()
        assert self._process.stdout is not None
        self._answers = select.poll()
        self._answers.register(self._process.stdout, select.POLLIN)

    def load(self, story: str, seed: int) -> tuple[Told, frozenset[str]]:
        """Bring a story to its start; returns what it says, and the words it knows, as far as it compares them.

        Raises:
            WorldError: The interpreter is gone, or does not run it.
        """
        answer = self._ask("load", story, seed)
        words = frozenset(answer.pop("words"))
        return Told(**answer), words

    def step(self, said: str) -> Told:
        """Say something to the game.

        Raises:
            WorldError: The interpreter is gone.
        """
        return Told(**self._ask("step", said))

    def look(self) -> str:
        """Tell the place and what is carried, which takes no time in the game; empty where it cannot be asked now.

        Raises:
            WorldError: The interpreter is gone.
        """
        return str(self._ask("look")["text"])

    def stop(self) -> None:
        """Let it end, from any thread; whoever waits for its answer hears that it has ended."""
        self._process.kill()

    def kill(self) -> None:
        """End it."""
        self.lost = self.lost or "the interpreter of jericho was closed"
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what it did not read any more
                    pipe.close()
        self._said.close()

    @property
    def usable(self) -> bool:
        """Whether it is there, and this process's own: a fork has only copies of its pipes."""
        return not self.lost and self._owner == os.getpid() and self._process.poll() is None

    def _ask(self, *request: object) -> dict[str, Any]:
        if self.lost:
            raise WorldError(self.lost)
        answer = self._answer(json.dumps(request).encode() + b"\n")
        if "error" in answer:
            raise self._gone(str(answer["error"]))
        return answer

    def _answer(self, request: bytes) -> dict[str, Any]:
        process, bound = self._process, time.monotonic() + ANSWER_LIMIT
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(request)
            process.stdin.flush()
        except OSError:
            raise self._gone(self._end()) from None
        while b"\n" not in self._unread:
            if not self._answers.poll(1000 * max(0.0, bound - time.monotonic())):
                raise self._gone(f"it does not answer within {ANSWER_LIMIT:g} s")
            if not (read := os.read(process.stdout.fileno(), 1 << 16)):
                raise self._gone(self._end())
            self._unread += read
        line, _, self._unread = self._unread.partition(b"\n")
        return dict(json.loads(line))

    def _gone(self, why: str) -> WorldError:
        self.lost = f"the interpreter of jericho is gone: {why}"
        self.kill()
        return WorldError(self.lost)

    def _end(self) -> str:
        """Say how the process has ended, with the last line that it said."""
        try:
            code = self._process.wait(ANSWER_LIMIT)
        except subprocess.TimeoutExpired:
            return "it takes nothing more"
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"it has ended {how}" + (f" ({last})" if last else "")


_idle: list[Interpreter] = []
_lock = threading.Lock()


def borrow() -> Interpreter:
    """Return an interpreter that nobody uses, or a new one.

    Raises:
        WorldError: It does not start.
    """
    with _lock:
        while _idle:
            if (interpreter := _idle.pop()).usable:
                return interpreter
    return Interpreter()


def give_back(interpreter: Interpreter) -> None:
    """Let the next one have it; one is kept at most."""
    with _lock:
        keep = not interpreter.lost and not _idle
        if keep:
            _idle.append(interpreter)
    if not keep:
        interpreter.kill()
