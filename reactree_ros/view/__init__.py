"""The page on which runs are watched and steered, and drawings of them; all of it from their records alone."""

from __future__ import annotations

from importlib.util import find_spec

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line


def check_installed() -> None:
    """Look whether the page can be served.

    Raises:
        UserError: It cannot; the message says what to install.
    """
    for module in ("starlette", "uvicorn"):
        if find_spec(module) is None:
            raise UserError(f"the page needs {module}: {install_line('reactree_ros[view]')}")
