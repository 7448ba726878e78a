"""The page for watching and steering runs, and drawings of them, made only from their records."""

from __future__ import annotations

from importlib.util import find_spec

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line


def check_installed() -> None:
    """Check that the page can be served."""
    for module in ("starlette", "uvicorn"):
        if find_spec(module) is None:
            raise UserError(f"the page needs {module}: {install_line('reactree_ros[view]')}")
