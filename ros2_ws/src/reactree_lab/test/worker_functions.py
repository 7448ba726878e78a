"""What the workers of test_worker_calls.py do: processes that import it by its name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from reactree_ros.errors import UserError

#: Bytes of an answer or a call that no pipe holds at once.
LARGE = 8 << 20


class NotForThePost(Exception):
    """An error that pickle cannot make anew."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


def begin(what: str) -> Callable[[int], object]:
    """Return what a worker does; some things happen to the third call only."""

    def call(number: int) -> object:
        if what == "double" or number != 3:
            return 2 * number
        if what == "large":
            return b"x" * LARGE
        if what == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "foreign":
            raise NotForThePost("no", "way")
        raise UserError(f"{number} is refused")

    if what == "refuses":
        raise UserError("there is no model")
    return call


def same() -> Callable[[bytes], bytes]:
    """Return what gives back what it gets."""
    return bytes
