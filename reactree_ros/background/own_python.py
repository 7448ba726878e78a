"""Python processes of ours import nothing from the folder that the command runs in: somebody else may have made it."""

from __future__ import annotations

import os
import sys

#: What Python from 3.11 on obeys, for processes that multiprocessing starts.
SAFE_PATH = "PYTHONSAFEPATH"


def python_command(code: str) -> list[str]:
    """Return the command that runs code in a Python of its own."""
    return [sys.executable, "-c", f"import sys; sys.path[:] = [one for one in sys.path if one]; {code}"]


def python_module(name: str) -> list[str]:
    """Return the command that runs a module in a Python of its own."""
    return python_command(f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)")


def start_safely() -> None:
    """Let what multiprocessing starts from now on import nothing from the folder that the command runs in."""
    os.environ.setdefault(SAFE_PATH, "1")
