"""The user's folders."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return the user's home; a relative ``$HOME`` is ignored: it would lead into somebody else's folder."""
    folder = Path.home()
    if not folder.is_absolute():
        import pwd  # Windows has none

        folder = Path(pwd.getpwuid(os.getuid()).pw_dir)
    return folder


def user_state() -> Path:
    """Return the package's folder for what is to last: in ``$XDG_STATE_HOME`` if absolute, or ``~/.local/state``."""
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (named if named.is_absolute() else home() / ".local/state") / "reactree"
