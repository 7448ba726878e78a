"""What is installed: Python, the package with its extras and plug-ins, engines for language models, and what is around.

What is around is the terminal, and free space on the disks that this package uses.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from rich.console import Console

import reactree_ros as here
from reactree_ros.background.worker_process import python_command
from reactree_ros.errors import UserError
from reactree_ros.llm.spec import MODELS, ModelSpec
from reactree_ros.plugins import BESIDE, REGISTRIES, misspelt_groups
from reactree_ros.plugins.installation import (
    Diagnosis,
    Level,
    extras,
    install_line,
    install_requirements,
    lacking,
    name_of,
    numbers,
)

RIGHT, NOTE, WRONG = Level.RIGHT, Level.NOTE, Level.WRONG
#: The oldest and the newest py_trees that the core is tested with: `.ci/compat`, `requirements.lock`.
TESTED_PY_TREES = "2.2.1", "2.6.0"
#: Longest time to import torch, in seconds; a cold disk takes many.
PATIENCE = 60.0
#: Exists on Linux if a GPU's driver is loaded.
DRIVER = Path("/proc/driver/nvidia/version")
#: Columns below which tables and trees are folded.
WIDE_ENOUGH = 80
#: Bytes that should be free.
ROOM = 1 << 30
_PACKAGE = Path(here.__file__).resolve().parent
_LOOK_AT_TORCH = """
import json, torch
count = torch.cuda.device_count() if torch.cuda.is_available() else 0
gpus = map(torch.cuda.get_device_properties, range(count))
print(json.dumps({
    "version": torch.__version__,
    "cuda": torch.version.cuda,
    "gpus": [f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB" for gpu in gpus],
}))
"""


class ProbeFailed(Exception):
    pass


def in_a_process(code: str, *, seconds: float) -> Any:
    """Run Python code that prints JSON at its end in its own process; no process that it starts outlives it."""
    with subprocess.Popen(
        python_command(code),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise ProbeFailed(f"did not end within {seconds:g} s") from None
        finally:
            with contextlib.suppress(OSError):  # it has ended completely
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        last = next((line for line in reversed(errors.splitlines()) if line.strip()), "")
        raise ProbeFailed(last or f"ended with {process.returncode}")
    try:
        return json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        raise ProbeFailed(f"printed {out[-200:]!r}") from None


def python() -> Iterator[Diagnosis]:
    yield Diagnosis("Python", RIGHT, f"{platform.python_version()} ({sys.executable})")
    none = "" if sys.prefix != sys.base_prefix else "no "
    yield Diagnosis("environment", RIGHT, f"{none}virtual environment {sys.prefix}")
    if path := os.environ.get("PYTHONPATH"):
        yield Diagnosis("PYTHONPATH", RIGHT, path)
    yield Diagnosis("platform", RIGHT, platform.platform())


def reactree_ros() -> Iterator[Diagnosis]:
    yield Diagnosis("version", RIGHT, here.__version__)
    yield _installed()
    for requirement, found in lacking("reactree_ros").items() if extras() else ():
        problem = f"{found} does not fit" if found else "is missing"
        yield Diagnosis(requirement, WRONG, problem, install_requirements(requirement))
    yield _py_trees()
    absent = [one for one in BESIDE if importlib.util.find_spec(one) is None]
    remedy = install_requirements(*(f"./ros2_ws/src/{one}" for one in absent)) if absent else ""
    state = f"{', '.join(absent)} absent" if absent else f"{', '.join(BESIDE)} installed"
    yield Diagnosis("siblings", NOTE if absent else RIGHT, state, remedy)


def _installed() -> Diagnosis:
    what, source = "installed", _PACKAGE.parent
    try:
        found = metadata.distribution("reactree_ros")
    except metadata.PackageNotFoundError:
        state = f"not installed, {source} is on the path: its plug-ins and requirements are unknown"
        return Diagnosis(what, NOTE, state, _install(source))
    folder = Path(str(found.locate_file(""))).resolve()
    origin = json.loads(found.read_text("direct_url.json") or "{}")
    is_editable = origin.get("dir_info", {}).get("editable", False)
    if is_editable:
        folder, how = Path(unquote(urlsplit(origin["url"]).path)).resolve(), "editable"
    else:
        how = "as a wheel" if found.read_text("WHEEL") else "by setup.py or colcon"
    if folder != source:
        remedy = "remove the other one from PYTHONPATH, or install the one that you want"
        return Diagnosis(what, NOTE, f"{how}, from {folder}, but what runs is {source}", remedy)
    if found.version != here.__version__:
        return Diagnosis(what, NOTE, f"{how}, from {folder}, when it was version {found.version}", _install(source))
    return Diagnosis(what, RIGHT, f"{how}, {'from' if is_editable else 'in'} {folder}")


def _install(source: Path) -> str:
    return install_requirements("-e", str(source))


def _py_trees() -> Diagnosis:
    oldest, newest = TESTED_PY_TREES
    try:
        version = metadata.version("py_trees")
    except metadata.PackageNotFoundError:
        return Diagnosis("py_trees", WRONG, "is missing", install_requirements(f"py_trees<={newest}"))
    tested = f"{version} (tested with {oldest} to {newest})"
    if numbers(oldest) <= numbers(version)[:3] <= numbers(newest):
        return Diagnosis("py_trees", RIGHT, tested)
    remedy = f"if trees misbehave: {install_requirements(f'py_trees>={oldest},<={newest}')}"
    return Diagnosis("py_trees", NOTE, tested, remedy)


def installed_extras() -> Iterator[Diagnosis]:
    names = extras()
    if not names:
        yield Diagnosis("extras", NOTE, "unknown: reactree_ros is not installed", _install(_PACKAGE.parent))
    for name in names:
        lacked = lacking(name if "[" in name else f"reactree_ros[{name}]")
        if not lacked:
            yield Diagnosis(name, RIGHT, "installed")
            continue
        parts = (f"{one} ({found} is installed)" if found else name_of(one) for one, found in lacked.items())
        level = WRONG if all(lacked.values()) else NOTE  # wrong: all are there, but not in fitting versions
        yield Diagnosis(name, level, f"lacks {', '.join(parts)}", install_requirements(*lacked))


def plug_ins() -> Iterator[Diagnosis]:
    registries = list(REGISTRIES)
    found: dict[str, list[str]] = {}
    for registry in registries:
        for name, by in registry.brought.items():
            found.setdefault(by, []).append(f"{registry.kind} '{name}'")
    yield from (Diagnosis(by, RIGHT, ", ".join(things)) for by, things in found.items())
    problems = [problem for registry in registries for problem in registry.problems()]
    for problem in dict.fromkeys([*problems, *misspelt_groups()]):
        yield Diagnosis("plug-in", WRONG, problem, "repair, rename or uninstall it")


def local_engines() -> Iterator[Diagnosis]:
    if importlib.util.find_spec("torch") is None:
        absent = "not installed; only --llm transformers, vllm, reactree lab train and sentence embeddings need it"
        yield Diagnosis("torch", NOTE, absent, install_line("reactree_local[transformers]"))
    else:
        yield from _torch()
    yield from (_engine(spec) for spec in MODELS if spec.needs)


def _engine(spec: ModelSpec) -> Diagnosis:
    try:
        spec.check_installed()
        spec.weights()
    except UserError as error:
        problem, _, remedy = str(error).partition(": ")
        return Diagnosis(f"--llm {spec.name}", NOTE, problem, remedy)
    named = metadata.packages_distributions()
    found = {f"{one} {metadata.version(one)}": None for module in spec.needs for one in named.get(module, [])}
    return Diagnosis(f"--llm {spec.name}", RIGHT, ", ".join(found) or "installed, version unknown")


def _torch() -> Iterator[Diagnosis]:
    try:
        found = in_a_process(_LOOK_AT_TORCH, seconds=PATIENCE)
    except ProbeFailed as error:
        remedy = f"{install_line('reactree_local[transformers]')} --force-reinstall, or another build of it"
        yield Diagnosis("torch", WRONG, f"cannot be imported: {error}", remedy)
        return
    yield Diagnosis("torch", RIGHT, found["version"])
    if found["gpus"]:
        yield Diagnosis("CUDA", RIGHT, f"{found['cuda']}: {'; '.join(found['gpus'])}")
        return
    if found["cuda"] is None:
        state = "this build of torch is for the CPU"
        remedy = "install a build for CUDA: https://pytorch.org/get-started"
    else:
        state = f"torch is built for {found['cuda']} and sees no GPU"
        remedy = "check nvidia-smi: this torch may be too new for the driver"
    yield Diagnosis("CUDA", NOTE, state, remedy if DRIVER.exists() else "")


def surroundings() -> Iterator[Diagnosis]:
    console = Console()
    colours = console.color_system or "none"
    if colours != "none" and console.no_color:
        colours = "off by NO_COLOR"
    what = "a terminal" if console.is_terminal else "no terminal"
    state = f"{what}, {console.width} columns, colours: {colours}, TERM: {os.environ.get('TERM') or 'not set'}"
    if console.is_terminal and console.width < WIDE_ENOUGH:
        remedy = f"make it {WIDE_ENOUGH} columns wide, so that tables are not folded"
        yield Diagnosis("terminal", NOTE, state, remedy)
    else:
        yield Diagnosis("terminal", RIGHT, state)
    encoding = getattr(console.file, "encoding", None) or "none"  # sys.stdout is rich's own while it shows a status
    if encoding.lower().startswith("utf"):
        yield Diagnosis("encoding", RIGHT, encoding)
    else:
        yield Diagnosis("encoding", WRONG, encoding, "set PYTHONUTF8=1, or a locale such as C.UTF-8")
    for folder, (contents, variable) in _caches().items():
        yield _room(folder, contents, variable)


def _caches() -> dict[Path, tuple[str, str]]:
    # the folders that dependencies fill, each with its contents and the variable that moves it
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    hub = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or hub / "hub")
    vllm = Path(os.environ.get("VLLM_CACHE_ROOT") or cache / "vllm")
    known = {
        "huggingface_hub": (hub, ("models of Hugging Face", "HF_HOME")),
        "vllm": (vllm, ("vLLM's compiled code", "VLLM_CACHE_ROOT")),
        "ai2thor": (Path.home() / ".ai2thor", ("AI2-THOR's simulator", "HOME")),
    }
    there = dict(found for module, found in known.items() if importlib.util.find_spec(module) is not None)
    return {Path(tempfile.gettempdir()): ("temporary files", "TMPDIR"), **there}


def _room(folder: Path, contents: str, variable: str) -> Diagnosis:
    there = next(one for one in (folder, *folder.parents) if one.exists())
    name, free = f"room for {contents}", shutil.disk_usage(there).free
    state = f"{folder}: {free / (1 << 30):.1f} GiB free"
    if not os.access(there, os.W_OK | os.X_OK):
        return Diagnosis(name, WRONG, f"{state}, but {there} is not writable", f"set {variable} to another folder")
    if free < ROOM:
        return Diagnosis(name, WRONG, state, f"free some space, or set {variable} to a folder on another disk")
    return Diagnosis(name, RIGHT, state)
