"""Starts our Python processes without imports from the working directory, which somebody else may have made."""

from __future__ import annotations

import os
import sys

#: Python 3.11 and later obey this in processes that multiprocessing starts.
SAFE_PATH = "PYTHONSAFEPATH"


def python_command(code: str) -> list[str]:
    return [sys.executable, "-c", f"import sys; sys.path[:] = [one for one in sys.path if one]; {code}"]


def python_module(name: str) -> list[str]:
    return python_command(f"import runpy; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)")


def start_safely() -> None:
    """Keep later multiprocessing processes from importing from the working directory."""
    os.environ.setdefault(SAFE_PATH, "1")
