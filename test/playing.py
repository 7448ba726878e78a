"""A player of :func:`~reactree_lab.worlds.running.serve` that does what simulators do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from reactree_lab.worlds.running import LineProcess, serve


class Playing(LineProcess):
    name, module, answer_limit = "the player", "playing", 30.0


class Player:
    def say(self, text: str) -> dict[str, Any]:
        sys.stdout.write("this is dropped\n")
        sys.stdout.flush()
        return {"said": text}

    def fail(self) -> dict[str, Any]:
        raise ValueError("no such\n  thing")

    def end(self) -> dict[str, Any]:
        sys.stderr.write("out of memory\n")
        sys.stderr.flush()
        os._exit(3)

    def hang(self) -> dict[str, Any]:
        time.sleep(600)
        return {}

    def start(self) -> dict[str, Any]:
        return {"pid": subprocess.Popen(["sleep", "600"]).pid}


if __name__ == "__main__":
    serve(Player)
