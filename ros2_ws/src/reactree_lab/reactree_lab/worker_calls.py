"""Calls in worker processes, each with a pipe of its own.

The workers of Python's own pools share one pipe: killed in the middle of an answer, one leaves half of it there, and
the pool waits forever for the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import traceback
from collections.abc import Callable, Generator, Iterable
from itertools import islice
from multiprocessing import connection
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

from reactree_ros.background.worker_process import end_workers, serve_the_parent, start_worker
from reactree_ros.errors import UserError

Call = TypeVar("Call")
Answer = TypeVar("Answer")


def call_in_workers(
    begin: Callable[..., Callable[[Call], Answer]], given: tuple[Any, ...], calls: Iterable[Call], *, workers: int
) -> Generator[tuple[int, Answer]]:
    """Make calls in so many new processes, of what ``begin(*given)`` returns in each; yield number and answer of each.

    The answers come in any order. When the iterator is closed, or a call fails, the workers are killed.
    """
    left = enumerate(calls)
    started: list[_Worker] = []
    try:
        for first in islice(left, workers):
            started.append(_Worker(*start_worker(_serve, begin, given)))
            started[-1].send(first)
        while busy := [one for one in started if one.busy]:
            connection.wait([end for one in busy for end in (one.pipe, one.process.sentinel)])
            for one in busy:
                if (said := one.said()) is None:
                    continue
                number, answer, problem = said
                if problem is not None:
                    raise problem from (RuntimeError(answer) if answer else None)
                for call in islice(left, 1):
                    one.send(call)
                yield number, answer
    except BaseException:  # Ctrl-C, or nobody wants the rest: do not wait for unfinished work
        for one in started:
            one.process.kill()
        raise
    finally:
        end_workers(*((one.process, one.pipe) for one in started))


@dataclasses.dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    busy: bool = False  # whether it has a call

    def send(self, call: tuple[int, Any]) -> None:
        with contextlib.suppress(OSError):  # it died; the next look for answers finds it
            self.pipe.send(call)
        self.busy = True

    def said(self) -> tuple[int, Any, Exception | None] | None:
        alive = self.process.is_alive()  # before the look: what it said last counts
        try:
            if self.pipe.poll():
                said: tuple[int, Any, Exception | None] = self.pipe.recv()
                self.busy = False
                return said
        except (EOFError, OSError):
            alive = False
        if not alive:
            raise UserError("a worker died (was it out of memory?); repeat the command to continue")
        return None


def _serve(pipe: Connection, begin: Callable[..., Any], given: tuple[Any, ...]) -> None:
    serve_the_parent()
    function: Any = None
    with contextlib.suppress(EOFError, OSError):  # the parent wants no more
        while True:
            number, argument = pipe.recv()
            try:
                function = function or begin(*given)
                answer, problem = function(argument), None
            except Exception as error:
                answer, problem = "" if isinstance(error, UserError) else traceback.format_exc(), _that_travels(error)
            pipe.send((number, answer, problem))


def _that_travels(error: Exception) -> Exception:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
