"""ALFWorld's games in a process of their own, behind bounds: TextWorld, and Fast Downward's library in C++."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactree_ros.world.port import WorldError

#: How long the process may take to start, and to answer, in seconds; loading a game is most of it.
START_LIMIT, ANSWER_LIMIT = 60.0, 120.0
#: Games after which a process is not given to another: Fast Downward frees not all that a game took.
MOST_GAMES = 100
#: How long a process that says no more may take to end, in seconds.
_LAST_WORDS = 1.0
#: How much of what it wrote last is told where it ends, in characters.
_TAIL = 300


@dataclass(frozen=True)
class Turn:
    """How a game is.

    Attributes:
        text: What it says.
        commands: What can be done now.
        won: Whether what is asked for is reached.
        facts: What holds, each a predicate and the names of what it is about; see
            :data:`~reactree_ros.world.alfworld.player.TOLD`.
    """

    text: str
    commands: tuple[str, ...]
    won: bool
    facts: tuple[tuple[str, ...], ...]

    def pairs(self, predicate: str) -> list[tuple[str, str]]:
        """Return what a predicate of two holds of."""
        return [(fact[1], fact[2]) for fact in self.facts if fact[0] == predicate]

    def named(self, predicate: str) -> set[str]:
        """Return what a predicate of one holds of."""
        return {fact[1] for fact in self.facts if fact[0] == predicate}


class Engine:
    """One process, for one thread at a time. It ends with this one, also where this one is killed.

    Raises:
        WorldError: It does not start.
    """

    def __init__(self) -> None:
        self.lost = ""  # why it is of no use any more
        self.games = 0
        self._rest = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "reactree_ros.world.alfworld.player"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._answer(START_LIMIT)

    def load(self, game: Mapping[str, Any]) -> Turn:
        """Load a game, as TextWorld has it in its files, and begin it.

        Raises:
            WorldError: It cannot be played, or the process is gone.
        """
        self.games += 1
        return self._ask({"do": "load", "game": game})

    def reset(self) -> Turn:
        """Begin the game anew.

        Raises:
            WorldError: The process is gone.
        """
        self.games += 1
        return self._ask({"do": "reset"})

    def step(self, command: str) -> Turn:
        """Take a command.

        Raises:
            WorldError: The process is gone.
        """
        return self._ask({"do": "step", "command": command})

    def kill(self) -> None:
        """End the process."""
        self.lost = self.lost or "ALFWorld was closed"
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout, self._errors):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _ask(self, request: Mapping[str, Any]) -> Turn:
        if self.lost:
            raise WorldError(self.lost)
        self._send(f"{json.dumps(request)}\n".encode(), ANSWER_LIMIT)
        reply = self._answer(ANSWER_LIMIT)
        if error := reply.get("error"):
            raise WorldError(f"ALFWorld cannot play this game: {error}")
        facts = tuple(tuple(fact) for fact in reply["facts"])
        return Turn(reply["text"], tuple(reply["commands"]), reply["won"], facts)

    def _send(self, data: bytes, limit: float) -> None:
        """Write a line, which may be longer than a pipe takes, in no more than so many seconds."""
        assert self._process.stdin is not None
        bound = time.monotonic() + limit
        while data:
            _, ready, _ = select.select([], [self._process.stdin], [], max(0.0, bound - time.monotonic()))
            if not ready:
                raise self._gone(f"does not listen within {limit:g} s")
            try:
                data = data[os.write(self._process.stdin.fileno(), data) :]
            except OSError:
                raise self._gone(self._end()) from None

    def _answer(self, limit: float) -> dict[str, Any]:
        """Wait for a line, no longer than so many seconds."""
        assert self._process.stdout is not None
        bound = time.monotonic() + limit
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, bound - time.monotonic()))
            if not ready:
                raise self._gone(f"does not answer within {limit:g} s")
            if not (read := os.read(self._process.stdout.fileno(), 1 << 16)):
                raise self._gone(self._end())
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> str:
        """Say how the process ended and what it wrote last."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WORDS)
        self._process.kill()
        code = self._process.wait()
        self._errors.seek(0)
        written = " ".join(self._errors.read().decode(errors="replace").split())[-_TAIL:]
        return f"has ended (exit code {code}){': ' if written else ''}{written}"

    def _gone(self, why: str) -> WorldError:
        self.lost = f"ALFWorld's process {why}"
        self.kill()
        return WorldError(self.lost)


_idle: list[Engine] = []
_lock = threading.Lock()


def borrow() -> Engine:
    """Return an engine that nobody uses, or a new one.

    Raises:
        WorldError: It does not start.
    """
    with _lock:
        while _idle:
            if not (engine := _idle.pop()).lost:
                return engine
    return Engine()


def give_back(engine: Engine) -> None:
    """Let the next one have it; one is kept at most, and none that has played many games."""
    with _lock:
        keep = not engine.lost and not _idle and engine.games < MOST_GAMES
        if keep:
            _idle.append(engine)
    if not keep:
        engine.kill()
