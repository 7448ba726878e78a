"""What asks a node's process for its end: signals, at any moment and any number of them, and the end of its launch."""

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

#: What asks for an end: Ctrl-C, launch and ``kill``, a terminal that is closed.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: The environment variable by which a launch asks its nodes to end with it: which process it is, and since when.
LAUNCH = "REACTREE_LAUNCH"
#: How often a node looks whether its launch lives, in seconds.
LOOK_PERIOD = 0.2
#: How long a node may take to end after its launch has, in seconds; the watchdog stays for 8 s.
GRACE = 12.0
#: Exit codes of what says by 0 that something was done, where it is interrupted.
INTERRUPTED = {"bring_up": 130, "execute_task": 130}


def started() -> str:
    """Return as which module of this folder the process was started, by `ros2 run`, a launch or `python -m`."""
    script = Path(next(iter(sys.argv), ""))
    if str(script) == "-m":  # of which there is no file yet
        package, _, name = sys.orig_argv[sys.orig_argv.index("-m") + 1].rpartition(".")
        return name if package == __package__ else ""
    return script.name if Path(__file__).with_name(f"{script.name}.py").is_file() else ""


def listen(name: str) -> None:
    """Let a signal end the process at once, and the end of its launch, too: nothing is under way yet.

    Args:
        name: What is started; `spinning` takes the signals over when that has loaded its libraries.
    """
    on_signals(lambda number, frame: os._exit(INTERRUPTED.get(name, 0)))
    deaf_when_it_ends()
    end_with_launch()


def on_signals(do: Callable[[int, Any], object] | signal.Handlers) -> None:
    """Do something at each signal that asks for an end; under ``nohup`` a closed terminal asks for nothing."""
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, do)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # a launch starts its nodes with them blocked


def deaf_when_it_ends() -> None:
    """Let no signal end the process in its last moments, when Python would hand it back to the system."""
    atexit.register(on_signals, signal.SIG_IGN)


def this_launch() -> dict[str, str]:
    """Return the environment by which nodes end with this process; empty on a system that has no /proc."""
    born = _born(os.getpid())
    return {LAUNCH: f"{os.getpid()}:{born}"} if born else {}


def end_with_launch() -> None:
    """End this process as by SIGTERM when the launch that asked for it has gone, however that came to its end."""
    pid, _, born = os.environ.pop(LAUNCH, "").partition(":")  # not for what this process starts
    if born:
        threading.Thread(target=_watch, args=(int(pid), born), name="launch", daemon=True).start()


def _watch(launch: int, born: str) -> None:
    while _born(launch) == born:
        time.sleep(LOOK_PERIOD)
    with suppress(OSError):  # who has read it may be the launch
        print(f"error: the launch (process {launch}) has gone; this node ends, too", file=sys.stderr, flush=True)  # noqa: T201
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os.kill(os.getpid(), signal.SIGKILL)


def _born(pid: int) -> str:
    """Return when a process was started, which tells it from a later one of its number; empty: it does not live."""
    try:
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if said[0] in "ZX" else said[19]
