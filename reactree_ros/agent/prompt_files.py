"""The prompts and examples that come with the package: files under ``config/prompts/``."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """Return the text of a file under ``config/prompts/``, e.g. ``plan/system.txt``, without the final line end."""
    return (files("reactree_ros") / "prompts" / name).read_text(encoding="utf-8").removesuffix("\n")
