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


def user_cache() -> Path:
    """Return the package's folder in the user's cache: of ``$XDG_CACHE_HOME`` if that is absolute, or ``~/.cache``."""
    return _named("XDG_CACHE_HOME", ".cache")


def user_state() -> Path:
    """Return that for what is to last: of ``$XDG_STATE_HOME``, likewise, or ``~/.local/state``."""
    return _named("XDG_STATE_HOME", ".local/state")


def _named(variable: str, otherwise: str) -> Path:
    named = Path(os.environ.get(variable, ""))
    return (named if named.is_absolute() else home() / otherwise) / "reactree"
