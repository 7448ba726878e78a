"""How a command of the command line ended; the fixtures ``cli`` and ``on_a_terminal`` run one in this process."""

from __future__ import annotations

import json
import os
import pty
import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple


class Ended(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ended]
#: Runs a command on a terminal of so many ``columns``, in an environment with these variables; returns what it shows.
OnATerminal = Callable[..., str]


#: What moves the cursor or erases, and what is written over.
MOVES = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|[^\n]*\r(?!\n)")


def without_styles(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", shown)


class FakeTerminal:
    """A terminal within a ``with`` block; afterwards ``shown`` has what was left to be seen."""

    def __init__(self) -> None:
        self._keyboard, terminal = pty.openpty()
        self.file = open(terminal, "w", encoding="utf-8")  # noqa: SIM115
        self._told, self.shown = b"", ""
        self._reader = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        try:
            while part := os.read(self._keyboard, 65536):
                self._told += part
        except OSError:  # on Linux, what is a terminal to nobody any more
            pass

    def __enter__(self) -> FakeTerminal:
        self._reader.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()
        self._reader.join(60)
        os.close(self._keyboard)
        self.shown = MOVES.sub("", self._told.decode().replace("\r\n", "\n"))
