"""Where the nodes' processes start: a signal ends one without a traceback also while it still loads its libraries."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

from reactree_ros.nodes.ending import deaf_when_it_ends, end_with_launch, on_signals

#: Exit codes of what says by 0 that something was done, where it is interrupted.
INTERRUPTED = {"bring_up": 130, "execute_task": 130}


def main() -> None:
    """Run the module of this folder that the script has its name from."""
    name = Path(sys.argv[0]).stem
    on_signals(lambda number, frame: os._exit(INTERRUPTED.get(name, 0)))  # until `spinning` takes them over
    deaf_when_it_ends()
    end_with_launch()
    import_module(f"{__package__}.{name}").main()
