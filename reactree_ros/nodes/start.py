"""Where the nodes' processes start: Ctrl-C ends one without a traceback also while it still loads its libraries."""

from __future__ import annotations

import signal
import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run the module of this folder that the script has its name from."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # until `spinning` takes it over
    import_module(f"{__package__}.{Path(sys.argv[0]).stem}").main()
