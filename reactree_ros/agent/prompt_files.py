"""The prompts and examples that come with a package, as files in a folder next to their code."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(place: str, name: str) -> str:
    """Return the text of a prompt file without the final line end. Raises FileNotFoundError."""
    package, _, folder = place.partition(":")
    try:
        return (files(package) / folder / name).read_text(encoding="utf-8").removesuffix("\n")
    except (FileNotFoundError, NotADirectoryError, ModuleNotFoundError, TypeError, ValueError) as error:
        raise FileNotFoundError(f"there is no prompt file {name} in {place or 'no folder at all'}") from error
