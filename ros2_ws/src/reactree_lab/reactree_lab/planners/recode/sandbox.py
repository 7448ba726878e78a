"""A sandbox for a language model's code: pydantic-monty, an interpreter in its own process.

The code is hostile input. Monty knows no files, processes or network: code that needs one asks this process, which
refuses. No value of the sandbox is ever evaluated here; skills are texts, everything else stays there.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.text import LONGEST_ERROR, bounded
from reactree_ros.background.pending import Pending, Worker

T = TypeVar("T")

#: Modules available without an import.
MODULES = ("re", "random", "math")
#: Prefix of the sandbox's own names; code must not use it.
RESERVED = "_recode"
#: The function that carries out a skill.
RUN = "run"
#: Longest skill, in characters.
MAX_SKILL = 500
#: Longest text of one variable's value in a prompt, in characters.
MAX_VALUE = 4000

# The display function keeps its own helpers, because code may reuse their names for variables.
_PRELUDE = f"""
import {", ".join(MODULES)}
{RESERVED}_len = len
def {RESERVED}_show(value, type=type, len=len, str=str):
    kind = type(value).__name__
    if kind in ('list', 'tuple', 'set'):
        kinds = {{type(one).__name__ for one in value}}
        if len(kinds) == 1:
            kind = kind + '[' + kinds.pop() + ']'
    text = str(value)
    if len(text) > {MAX_VALUE}:
        text = text[:{MAX_VALUE}] + ' ...'
    return ' (' + kind + '): ' + text
"""
_FRAME = re.compile(r'File "<python-input-\d+>"')
# After these errors, the interpreter's memory is not usable.
_FATAL = ("TimeoutError", "MemoryError")
#: Measured cost of stopped code, which differs every time.
_MEASURED = re.compile(r"(?<![\d.])[\d.]+\s?[a-zµ]+ > ")
_NO_LIMIT = 10**9


class SandboxError(Exception):
    """The sandbox cannot continue."""


@dataclass(frozen=True)
class Limits:
    seconds: float = 2.0  # computing time between two skills
    memory: int = 32 * 2**20  # bytes of its variables
    recursion: int = 100  # depth of calls
    output: int = 20_000  # most bytes that one statement may print
    pauses: int = 1000  # how often one statement may ask for missing names, files or functions


@dataclass(frozen=True)
class Outside:
    """A function outside of the sandbox that code may call with one text."""

    #: Kind of the text, e.g. ``skill``.
    takes: str
    longest: int  # longest text, in characters


#: Default functions outside of the sandbox.
RUN_ALONE: Mapping[str, Outside] = MappingProxyType({RUN: Outside("skill", MAX_SKILL)})


@dataclass(frozen=True)
class Ended:
    value: Any  # value of its last line, if that is an expression
    printed: str  # its output


@dataclass(frozen=True)
class Called:
    """The code called a function outside of the sandbox and waits for its result."""

    #: Its name, e.g. ``run``.
    function: str
    #: Its argument, e.g. a skill.
    text: str


@dataclass(frozen=True)
class Raised:
    traceback: str  # the traceback, shortened in the middle if it is very long
    printed: str  # the output before it

    def __post_init__(self) -> None:
        object.__setattr__(self, "traceback", bounded(self.traceback, LONGEST_ERROR))


Event = Ended | Called | Raised


class Sandbox:
    """Runs code piece by piece; its variables survive from one piece to the next.

    Nothing here waits: a thread drives the interpreter's process, and results are pending. If a piece of code exceeds
    its time or memory, or breaks the interpreter, the variables return to their values before that piece.
    """

    def __init__(self, *, limits: Limits, seed: int, functions: Mapping[str, Outside] = RUN_ALONE) -> None:
        self._limits = limits
        self._seed = seed
        self._functions = functions
        self._worker = Worker("recode sandbox")
        self._lock = threading.Lock()  # protects the next three
        self._pid: int | None = None
        self._busy = False
        self._gone: Pending[None] | None = None
        # Only for the worker's thread:
        self._pool: Any = None
        self._session: Any = None
        self._saved = b""
        self._paused: Any = None
        self._output: Any = None
        self._pauses = 0

    # ------------------------------------------------------------------ calls

    def start(self, code: str, **variables: str) -> Pending[Event]:
        """Set variables, and run code up to its first call of a function outside, its end, or an exception."""
        return self._do(functools.partial(self._start, code, variables))

    def resume(self, returned: str) -> Pending[Event]:
        return self._do(functools.partial(self._resume, {"return_value": returned}))

    def refuse(self, problem: str) -> Pending[Event]:
        return self._do(functools.partial(self._resume, {"exc_type": "RuntimeError", "message": problem}))

    def unknown(self, names: Sequence[str]) -> Pending[frozenset[str]]:
        """Return the names that mean nothing in the sandbox."""
        return self._do(lambda: frozenset(name for name in names if self._is_unknown(name)))

    def show(self, names: Sequence[str]) -> Pending[str | Raised]:
        """Describe variables for a prompt, one per line: ``- name (type): value``, with long values shortened.

        If one is not set, the result is the error.
        """
        return self._do(functools.partial(self._show, names))

    def close(self) -> Pending[None]:
        with self._lock:
            if self._gone is not None:
                return self._gone
            self._gone = self._worker.do(self._shut)
            # The thread waits for a working process, so its process id is still valid.
            if self._busy and self._pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
        self._worker.close()
        return self._gone

    # ------------------------------------------------------------------ in the worker's thread

    def _do(self, work: Callable[[], T]) -> Pending[T]:
        def guarded() -> T:
            with self._lock:
                if self._gone is not None:
                    raise SandboxError("the sandbox is closed")
                self._busy = True
            try:
                if self._session is None:
                    self._open()
                return work()
            finally:
                with self._lock:
                    self._busy = False

        return self._worker.do(guarded)

    def _open(self) -> None:
        import pydantic_monty

        # Monty itself limits the seconds; the request timeout is for an interpreter that fails to.
        pool = pydantic_monty.Monty(
            min_processes=1, max_processes=1, checkout_timeout=10.0, request_timeout=self._limits.seconds + 10.0
        )
        self._pool = pool.__enter__()
        self._check_out()
        self._session.feed_run(_PRELUDE)
        self._saved = self._session.dump()

    def _check_out(self) -> None:
        limits = self._limits
        self._session = self._pool.checkout(
            limits={
                "max_turn_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_recursion_depth": limits.recursion,
                "max_suspensions": _NO_LIMIT,  # the budget counts skills, and this class counts other pauses
                "max_total_sleep_secs": 0.0,
            },
            os_policy={"sleep": "zero", "datetime": "call_host", "random_start": {"seed": self._seed}},
        ).__enter__()
        with self._lock:
            self._pid = self._session.worker_pid

    def _start(self, code: str, variables: dict[str, str]) -> Event:
        import pydantic_monty

        self._output = pydantic_monty.CollectString(self._limits.output)
        self._pauses = 0
        return self._go_on(
            functools.partial(self._session.feed_start, code, inputs=variables or None, print_callback=self._output)
        )

    def _resume(self, result: dict[str, str]) -> Event:
        return self._go_on(functools.partial(self._paused.resume, result))

    def _go_on(self, step: Callable[[], Any]) -> Event:
        import pydantic_monty

        while True:
            try:
                snapshot = step()
                if isinstance(snapshot, pydantic_monty.MontyComplete):
                    return self._kept(Ended(snapshot.output, self._output.output))
                if isinstance(snapshot, pydantic_monty.FunctionSnapshot):
                    if (called := _called(snapshot, self._functions)) is not None:
                        self._paused = snapshot
                        return called
                    step = functools.partial(snapshot.resume, _refusal(snapshot, self._functions))
                elif isinstance(snapshot, pydantic_monty.NameLookupSnapshot):
                    step = snapshot.resume
                else:
                    return self._lost(f"RuntimeError: code must not wait for anything but {', '.join(self._functions)}")
            except Exception as error:
                return self._raised(error)
            self._pauses += 1
            if self._pauses > self._limits.pauses:
                return self._lost(f"RuntimeError: asked more than {self._limits.pauses} times for what there is not")

    def _raised(self, error: Exception) -> Ended | Raised:
        import pydantic_monty

        if not isinstance(error, pydantic_monty.MontyRuntimeError | pydantic_monty.MontySyntaxError):
            # A dead process, an unreadable answer, invalid Unicode.
            return self._lost(f"{type(error).__name__}: {error}")
        if error.display("type-msg").startswith(_FATAL):
            return self._lost(_MEASURED.sub("more than ", error.display("type-msg")))
        return self._kept(Raised(_FRAME.sub('File "<code>"', error.display()), self._output.output))

    def _kept(self, event: Ended | Raised) -> Ended | Raised:
        """Keep the current variables; if they need too much memory, return to those before the code."""
        try:
            self._saved = self._session.dump()
        except Exception:
            return self._lost("MemoryError: the variables are too large to be kept, and are as before this statement")
        return event

    def _lost(self, problem: str) -> Raised:
        with contextlib.suppress(Exception):
            self._session.__exit__(None, None, None)
        try:
            self._check_out()
            self._session.load_session(self._saved)
        except Exception as error:
            raise SandboxError(f"the sandbox is lost: {problem}; {error}") from error
        return Raised(problem, self._output.output)

    def _is_unknown(self, name: str) -> bool:
        import pydantic_monty

        snapshot = self._session.feed_start(f"{name}\nNone")
        if not isinstance(snapshot, pydantic_monty.NameLookupSnapshot):
            return False
        with contextlib.suppress(pydantic_monty.MontyRuntimeError):
            snapshot.resume()
        return True

    def _show(self, names: Sequence[str]) -> str | Raised:
        lines = []
        for name in names:
            event = self._start(f"{RESERVED}_show({name})", {})
            if isinstance(event, Raised) and "NameError" in event.traceback:
                return event
            value = event.value if isinstance(event, Ended) else ": too large to be shown"
            lines.append(in_lines(f"- {name}{value}", first=False))
        return "\n".join(lines)

    def _shut(self) -> None:
        for thing in (self._session, self._pool):
            if thing is not None:
                with contextlib.suppress(Exception):
                    thing.__exit__(None, None, None)


def _called(snapshot: Any, functions: Mapping[str, Outside]) -> Called | None:
    if snapshot.is_os_function or snapshot.object_id is not None or snapshot.function_name not in functions:
        return None
    given = (*snapshot.args, *snapshot.kwargs.values())
    if len(given) != 1 or not isinstance(given[0], str):
        return None
    name, text = snapshot.function_name, " ".join(given[0].split())
    return Called(name, text) if text and len(text) <= functions[name].longest and text.isprintable() else None


def _refusal(snapshot: Any, functions: Mapping[str, Outside]) -> Any:
    name = snapshot.function_name
    if snapshot.is_os_function:
        message = f"{name} is not there: no files, processes, network, clock or other modules"
        return {"exc_type": "PermissionError", "message": message}
    if name in functions:
        message = f"{name} takes one {functions[name].takes}, a text of at most {functions[name].longest} characters"
        return {"exc_type": "TypeError", "message": message}
    return {"exc_type": "NameError", "message": f"name '{name}' is not defined"}
