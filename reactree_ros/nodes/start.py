"""Starts a node's process, and ends it on signals, at any moment and any number of them."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

#: Ctrl-C; launch and ``kill``; a closed terminal; Ctrl-\\, which reaches all nodes of a launch at once.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: How long a process may take to leave after its last line, in seconds; then SIGALRM kills it.
LEAVES_WITHIN = 20
#: The modules of the scripts, in this folder.
SCRIPTS = {
    "answer": "people.answer",
    "bridge_node": "bridge.bridge_node",
    "bring_up": "bring_up",
    "composed": "composed",
    "execute_task": "planner.execute_task",
    "inference_node": "inference.inference_node",
    "planner_node": "planner.planner_node",
    "robot_bridge_node": "robot.robot_bridge_node",
    "view": "people.view",
    "voice": "people.voice",
    "watchdog": "watchdog",
}
#: Exit codes on a signal of processes whose 0 means that something was done.
INTERRUPTED = {"bring_up": 130, "execute_task": 130}


def started() -> str:
    """Return the script that `ros2 run`, a launch or `python -m` started, of SCRIPTS; empty: none."""
    script = Path(next(iter(sys.argv), ""))
    if str(script) == "-m":  # the file is not known yet
        package, _, name = sys.orig_argv[sys.orig_argv.index("-m") + 1].rpartition(".")
        return name if package and package.startswith(str(__package__)) else ""
    return script.name if script.name in SCRIPTS else ""


def main() -> None:
    """Be the script that was started; importing the package has made it listen for signals before."""
    import_module(f"{__package__}.{SCRIPTS[started()]}").main()


def listen(name: str) -> None:
    on_signals(lambda number, frame: os._exit(INTERRUPTED.get(name, 0)))
    deaf_when_it_ends()


def on_signals(do: Callable[[int, Any], object] | signal.Handlers) -> None:
    """Call a function on each of SIGNALS; under ``nohup`` a closed terminal does nothing."""
    for number in SIGNALS:
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, do)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)  # a launch starts its nodes with them blocked


def deaf_when_it_ends() -> None:
    atexit.register(_leave)


def _leave() -> None:
    """Hear no more signals, and end within a bound: Fast DDS's last destructors were seen to compute for ever."""
    on_signals(signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LEAVES_WITHIN)
