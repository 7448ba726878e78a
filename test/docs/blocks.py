"""The code blocks of a page, and how each is carried out.

``bash`` and ``python`` are executed, ``toml``, ``yaml``, ``xml`` and ``json`` have to be read, page by page, in
order, in one folder for each page. A comment directly before a block says otherwise:

``<!-- file: NAME -->``
    The block is the content of that file, which later blocks find.
``<!-- not run: WHY -->``
    It is not carried out, and why. That its commands, options and distributions exist is checked (`invalid`).
``<!-- run by: PATH -->``
    Another test carries it out; its file.
``<!-- serves: TEXT -->``
    It runs until Ctrl-C: it has to print the text, and end when it is interrupted.
``<!-- needs: ros -->``
    It is carried out where ROS 2 and this package are sourced.

:data:`SERVER` is the address of a language model's server in all pages; here it is that of a peer, in which the expert
answers.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
import threading
import venv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import yaml

from reactree_ros.cli import every_command

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
SERVER = "http://gpu-machine:8000/v1"
DISTRIBUTIONS = ".", *(f"./{path.relative_to(ROOT)}" for path in (ROOT / "ros2_ws/src").glob("reactree_[dl]*"))
READ: Mapping[str, Callable[[str], object]] = {
    "toml": tomllib.loads,
    "yaml": yaml.safe_load,
    "xml": ElementTree.fromstring,
    "json": json.loads,
}
RUN = ("bash", "python", *READ)
#: Of other languages: what is shown only.
SHOWN = ("text",)
#: Longest time for a block, in seconds.
BOUND = 600.0
_COMMENT = re.compile(r"<!-- (?P<kind>file|not run|run by|serves|needs): (?P<value>.+) -->")
_FENCE = re.compile(r"```(?P<language>[^`]*)")


class Broken(Exception):
    """A block is not as it should be: it says so with page and line."""


@dataclass(frozen=True)
class Block:
    where: str  # page and line
    language: str
    text: str
    file: str = ""  # whose content it is
    not_run: str = ""  # why
    run_by: str = ""  # the file of the test
    serves: str = ""  # what it prints when it is up
    needs: str = ""


def pages() -> list[Path]:
    """Return the README and every page of docs/ that is committed."""
    made = ROOT / "docs/reference/generated"
    found = [page for page in (ROOT / "docs").rglob("*.md") if made not in page.parents and "_build" not in page.parts]
    return [ROOT / "README.md", *sorted(found)]


def blocks_of(page: Path, root: Path = ROOT) -> Iterator[Block]:
    """Read the blocks of a page; one without a language, with another comment, or without an end is `Broken`."""
    lines = page.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        fence = _FENCE.fullmatch(lines[at])
        if fence is None:
            at += 1
            continue
        where, language = f"{page.relative_to(root).as_posix()}:{at + 1}", fence["language"]
        try:
            end = lines.index("```", at + 1)
        except ValueError:
            raise Broken(f"{where}: the block has no end") from None
        if not language.startswith("{"):  # a directive
            yield _block(where, language, "\n".join(lines[at + 1 : end]) + "\n", lines[at - 1] if at else "")
        at = end + 1


def _block(where: str, language: str, text: str, before: str) -> Block:
    if language not in (*RUN, *SHOWN):
        raise Broken(f"{where}: '{language}' is none of {', '.join((*RUN, *SHOWN))}")
    if not before.startswith("<!--"):
        return Block(where, language, text)
    comment = _COMMENT.fullmatch(before)
    if comment is None or (comment["kind"] == "needs" and comment["value"] != "ros"):
        raise Broken(
            f"{where}: {before} is none of 'file: NAME', 'not run: WHY', 'run by: PATH', 'serves: TEXT', 'needs: ros'"
        )
    return Block(where, language, text, **{comment["kind"].replace(" ", "_"): comment["value"]})


@dataclass(frozen=True)
class Place:
    """Where the blocks of a page are carried out: a folder, and an environment that sees this one and is its own."""

    folder: Path
    server: str  # stands for :data:`SERVER`
    environment: Mapping[str, str]
    bound: float = BOUND

    @classmethod
    def make(cls, folder: Path, server: str = SERVER) -> Place:
        """Make the environment: what a page installs is seen by this page alone."""
        work, own = folder / "work", folder / "venv"
        work.mkdir(parents=True)
        (folder / "home").mkdir()
        venv.create(own, symlinks=True, with_pip=False)
        site = own / "lib" / Path(sysconfig.get_path("purelib")).parent.name / "site-packages"
        (site / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        for name, module in (("pip", "pip"), ("reactree", "reactree_ros.cli")):
            script = own / "bin" / name
            script.write_text(f'#!/bin/sh\nexec "{own}/bin/python" -m {module} "$@"\n')
            script.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if name.startswith(("LANG", "LC_", "PIP_", "TMP"))}
        environment = {
            **kept,
            "HOME": str(folder / "home"),
            "PATH": f"{own}/bin:{os.environ['PATH']}",
            "PIP_NO_BUILD_ISOLATION": "0",  # pip reads it as the value of build isolation: what is here builds
            "OPENAI_API_KEY": "",
        }
        return cls(work, server, environment)

    def carry_out(self, block: Block) -> None:
        if block.not_run or block.run_by:
            return
        text = block.text.replace(SERVER, self.server)
        if block.file:
            file = self.folder / block.file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        if block.language in READ:
            self._read(block, text)
        elif not block.file and block.language in RUN:
            self._execute(block, text)

    def _read(self, block: Block, text: str) -> None:
        try:
            READ[block.language](text)
        except (tomllib.TOMLDecodeError, yaml.YAMLError, ElementTree.ParseError, json.JSONDecodeError) as error:
            raise Broken(f"{block.where}: no {block.language}: {error}") from error

    def _execute(self, block: Block, text: str) -> None:
        command = ["bash", "-euo", "pipefail", "-c", text] if block.language == "bash" else ["python", "-c", text]
        process = subprocess.Popen(
            ["/usr/bin/env", *command],  # which looks along the PATH that the block has
            cwd=self.folder,
            env=os.environ if block.needs else self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        printed = ""
        if block.serves:
            assert process.stdout is not None
            printed = self._until(process, block.serves)
            os.killpg(process.pid, signal.SIGINT)
        try:
            printed += process.communicate(timeout=self.bound)[0]
        except subprocess.TimeoutExpired as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Broken(f"{block.where}: it did not end within {self.bound:g} s:\n{text}") from error
        if block.serves and block.serves not in printed:
            raise Broken(f"{block.where}: it did not print {block.serves!r}:\n{text}\n{printed[-4000:]}")
        if process.returncode not in ((0, 130, -signal.SIGINT) if block.serves else (0,)):
            raise Broken(f"{block.where}: exit code {process.returncode}:\n{text}\n{printed[-4000:]}")

    def _until(self, process: subprocess.Popen[str], text: str) -> str:
        """Read what a process prints, up to the line with the text; within the bound."""
        timer = threading.Timer(self.bound, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        assert process.stdout is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if text in line:
                break
        timer.cancel()
        return printed


def invalid(block: Block) -> Iterator[str]:
    """Say which commands, options and distributions of a block of bash do not exist."""
    known = {
        path: {name for one in command.params for name in one.opts + one.secondary_opts}
        for path, command in every_command()
    }
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.partition(" | ")[0].partition(" && ")[0], comments=True)
        words = words[3:] if words[:3] == ["ros2", "run", "reactree_ros"] else words
        if words[:1] == ["reactree"]:
            path = next((path for path in known if list(path) == words[1 : len(path) + 1]), None)
            if path is None:
                yield f"{block.where}: no command begins like {line.strip()!r}"
                continue
            named = {word.partition("=")[0] for word in words if word.startswith("--")}
            yield from (f"{block.where}: {shlex.join(path)} has no {name}" for name in sorted(named - known[path]))
        if words[:2] == ["pip", "install"] or words[1:4] == ["-m", "pip", "install"]:
            for folder, extras in re.findall(r"(?<=[ '])(\.(?:/[\w./-]+)?)(?:\[([\w,-]+)\])?(?=[' ]|$)", line):
                project = ROOT / folder / "pyproject.toml"
                if folder not in DISTRIBUTIONS:
                    yield f"{block.where}: {folder} is none of {', '.join(DISTRIBUTIONS)}"
                    continue
                declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"].get(
                    "optional-dependencies", {}
                )
                yield from (
                    f"{block.where}: {folder} has no extra {one}"
                    for one in set(filter(None, extras.split(","))) - set(declared)
                )
