"""The files of every distribution of this checkout, for the tests that look at all of them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

#: The distributions beside the core.
SIBLINGS = ("reactree_doors", "reactree_lab", "reactree_local")
FOLDERS = {name: Path(str(import_module(name).__file__)).parent for name in ("reactree_ros", *SIBLINGS)}


def sources(*suffixes: str) -> dict[str, Path]:
    """The files of these suffixes, by default modules, by name: of a sibling with its own, `reactree_lab/x.py`."""
    return {
        path.relative_to(folder if name == "reactree_ros" else folder.parent).as_posix(): path
        for name, folder in FOLDERS.items()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (suffixes or (".py",))
    }


def modules() -> list[str]:
    """The modules of every distribution, as they are imported."""
    return [
        ".".join(path.relative_to(FOLDERS[name].parent).with_suffix("").parts).removesuffix(".__init__")
        for name in FOLDERS
        for path in sorted(FOLDERS[name].rglob("*.py"))
    ]
