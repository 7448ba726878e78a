"""Runs a command, and ends it with all that it starts once this process's input is closed: when its parent has ended.

A signal on the parent's death would come when a mere thread of it ends, and is lost while a program starts.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading


def main() -> None:
    """Run the command of the arguments; the process group is its own, and ends with it."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # the command gets it, too
    threading.Thread(target=_end_with_the_input, daemon=True).start()
    subprocess.call(sys.argv[1:], stdin=subprocess.DEVNULL)
    os.killpg(0, signal.SIGKILL)


def _end_with_the_input() -> None:
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
