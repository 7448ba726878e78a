"""Ends a node's process on signals, at any moment and any number of them, and when its launch ends."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Ctrl-C; launch and ``kill``; a closed terminal.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Environment variable with the process id and start time of the launch, for nodes that end with it.
LAUNCH = "REACTREE_LAUNCH"
#: How often a node checks whether its launch lives, in seconds.
LOOK_PERIOD = 0.2
#: Longest time for a node to end after its launch, in seconds; the watchdog takes 8 s.
GRACE = 12.0
#: Exit codes on a signal of processes whose 0 means that something was done.
INTERRUPTED = {"bring_up": 130, "execute_task": 130}


def started() -> str:
    """Return the module of this folder that `ros2 run`, a launch or `python -m` started; empty: none."""
    script = Path(next(iter(sys.argv), ""))
    if str(script) == "-m":  # the file is not known yet
        package, _, name = sys.orig_argv[sys.orig_argv.index("-m") + 1].rpartition(".")
        return name if package == __package__ else ""
    return script.name if Path(__file__).with_name(f"{script.name}.py").is_file() else ""


def listen(name: str) -> None:
    """End the process at once on a signal, or when its launch ends: nothing is under way yet.

    Args:
        name: The module that starts; `spinning` takes the signals over when its libraries are loaded.
    """
    on_signals(lambda number, frame: os._exit(INTERRUPTED.get(name, 0)))
    deaf_when_it_ends()
    end_with_launch()


def on_signals(do: Callable[[int, Any], object] | signal.Handlers) -> None:
    """Call a function on each of SIGNALS; under ``nohup`` a closed terminal does nothing."""
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, do)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # a launch starts its nodes with them blocked


def deaf_when_it_ends() -> None:
    """Ignore signals in the process's last moments, when Python restores the system's handlers."""
    atexit.register(on_signals, signal.SIG_IGN)


def this_launch() -> dict[str, str]:
    """Return the environment that makes nodes end with this process; empty on a system without /proc."""
    born = _born(os.getpid())
    return {LAUNCH: f"{os.getpid()}:{born}"} if born else {}


def end_with_launch() -> None:
    """End this process by SIGTERM when its launch has gone, however the launch ended."""
    pid, _, born = os.environ.pop(LAUNCH, "").partition(":")  # not for child processes
    if born:
        threading.Thread(target=_watch, args=(int(pid), born), name="launch", daemon=True).start()


def _watch(launch: int, born: str) -> None:
    while _born(launch) == born:
        time.sleep(LOOK_PERIOD)
    with suppress(OSError):  # the launch may have been the reader
        print(f"error: the launch (process {launch}) has gone; this node ends, too", file=sys.stderr, flush=True)  # noqa: T201
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


def _born(pid: int) -> str:
    """Return a process's start time, which tells it from a later one with its id; empty: it does not live."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if said[0] in "ZX" else said[19]
