"""The entry point of the nodes' processes; importing the package has set the signal handlers before (`ending`)."""

from __future__ import annotations

from importlib import import_module

from reactree_ros.nodes.ending import SCRIPTS, started


def main() -> None:
    import_module(f"{__package__}.{SCRIPTS[started()]}").main()
