"""The terminal, and free space on the disks that this package uses."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from reactree_ros.plugins.diagnosis import Diagnosis, Level

#: Columns below which tables and trees are folded.
WIDE_ENOUGH = 80
#: Bytes that should be free.
ROOM = 1 << 30


def surroundings() -> Iterator[Diagnosis]:
    """Yield diagnoses about terminal and disk."""
    console = Console()
    colours = console.color_system or "none"
    if colours != "none" and console.no_color:
        colours = "off by NO_COLOR"
    what = "a terminal" if console.is_terminal else "no terminal"
    said = f"{what}, {console.width} columns, colours: {colours}, TERM: {os.environ.get('TERM') or 'not set'}"
    too_narrow = console.is_terminal and console.width < WIDE_ENOUGH
    remedy = f"make it {WIDE_ENOUGH} columns wide, so that tables are not folded" if too_narrow else ""
    yield Diagnosis("terminal", Level.NOTE if too_narrow else Level.RIGHT, said, remedy)
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    unicode = encoding.startswith("utf")
    remedy = "" if unicode else "set PYTHONUTF8=1, or a locale such as C.UTF-8"
    yield Diagnosis("encoding", Level.RIGHT if unicode else Level.WRONG, sys.stdout.encoding or "none", remedy)
    for folder, (what, variable) in _caches().items():
        yield _room(folder, what, variable)


def _caches() -> dict[Path, tuple[str, str]]:
    """Return the folders that dependencies fill, each with its contents and the variable that moves it."""
    home = Path.home()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    found = {Path(tempfile.gettempdir()): ("temporary files", "TMPDIR")}
    if _there("huggingface_hub"):
        hub = Path(os.environ.get("HF_HOME") or cache / "huggingface")
        found[Path(os.environ.get("HF_HUB_CACHE") or hub / "hub")] = ("models of Hugging Face", "HF_HOME")
    if _there("vllm"):
        found[Path(os.environ.get("VLLM_CACHE_ROOT") or cache / "vllm")] = ("vLLM's compiled code", "VLLM_CACHE_ROOT")
    if _there("ai2thor"):
        found[home / ".ai2thor"] = ("AI2-THOR's simulator", "HOME")
    return found


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _room(folder: Path, what: str, variable: str) -> Diagnosis:
    there = next(one for one in (folder, *folder.parents) if one.exists())
    name, free = f"room for {what}", shutil.disk_usage(there).free
    said = f"{folder}: {free / (1 << 30):.1f} GiB free"
    if not os.access(there, os.W_OK | os.X_OK):
        return Diagnosis(name, Level.WRONG, f"{said}, but {there} is not writable", f"set {variable} to another folder")
    if free < ROOM:
        return Diagnosis(name, Level.WRONG, said, f"free some space, or set {variable} to a folder on another disk")
    return Diagnosis(name, Level.RIGHT, said)
