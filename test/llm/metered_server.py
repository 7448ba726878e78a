"""A tiny server whose metrics can be read, and how tests wait."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable

from tiny import TinyServer

#: The key that the server of the tests asks for.
SECRET = "sk-hush-4711"


def wait_until(condition: Callable[[], object], *, seconds: float = 120.0) -> None:
    """Wait until a condition holds: vLLM's processes spin where they wait, and leave the others little of two cores."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds:g} s"
        time.sleep(0.01)


class MeteredServer(TinyServer):
    """A tiny server whose metrics can be read."""

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))
