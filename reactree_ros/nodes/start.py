"""Where the nodes' processes start; the package has taken signals over by then (:mod:`reactree_ros.nodes.ending`)."""

from __future__ import annotations

from importlib import import_module

from reactree_ros.nodes.ending import started


def main() -> None:
    """Run the module of this folder that the script has its name from."""
    import_module(f"{__package__}.{started()}").main()
