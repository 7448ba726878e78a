"""The entry point of the nodes' processes; importing the package has set the signal handlers before (`ending`)."""

from __future__ import annotations

from importlib import import_module

from reactree_ros.nodes.ending import started


def main() -> None:
    """Run the module of this folder that has the script's name."""
    import_module(f"{__package__}.{started()}").main()
