"""The help of every command: nothing is cut at any width, and its examples are understood by the real command line."""

from __future__ import annotations

import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Cli, OnATerminal, without_styles

from reactree_ros.cli import every_command
from reactree_ros.cli.help import described, examples_of, paragraphs

LEAVES = {" ".join(path): command for path, command in every_command()}
#: Of the plug-in that comes with the tests.
OURS = {
    name: command for name, command in LEAVES.items() if not command.callback.__module__.startswith("reactree_garden")
}
EXAMPLES = [(name, line) for name, command in OURS.items() for line in examples_of(command)]


def test_every_command_has_examples_of_itself() -> None:
    assert {name for name, _ in EXAMPLES} == set(OURS)
    assert [line for name, line in EXAMPLES if not f"{line} ".startswith(f"reactree {name} ")] == []


@pytest.mark.parametrize(("name", "line"), EXAMPLES, ids=[line for _, line in EXAMPLES])
def test_an_example_is_understood_to_the_last_setting(
    cli: Cli, name: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def reached(*args: Any, **settings: Any) -> None:
        print("understood")  # noqa: T201

    monkeypatch.chdir(tmp_path)
    body = inspect.unwrap(LEAVES[name].callback)
    monkeypatch.setattr(body, "__signature__", inspect.signature(body, eval_str=True), raising=False)
    monkeypatch.setattr(body, "__code__", reached.__code__)  # all but what the command does
    _, *words = shlex.split(line)
    assert cli(*words) == (0, "understood\n", "")
    assert cli(*words, "--no-such-option").code == 2


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_help_fits_the_terminal_and_nothing_of_it_is_cut(
    capsys: pytest.CaptureFixture[str], columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for name, command in LEAVES.items():
        command.format_help(typer.Context(command, info_name=f"reactree {name}"), None)
        shown = capsys.readouterr().out
        words = " ".join(shown.split())
        told = [*paragraphs(command.help), *map(described, (one for one in command.params if one.name != "help"))]
        assert [text for text in told if " ".join(text.split()) not in words] == []
        lines = [line for line in shown.splitlines() if not line.startswith("  reactree ")]  # can be copied whole
        assert [line for line in lines if len(line) > columns] == []
        assert not re.search("[<╭]|--help", shown)


@pytest.mark.parametrize("name", ["run", "record fork", "lab bench"])
def test_an_example_is_copied_whole_from_a_narrow_terminal(name: str, on_a_terminal: OnATerminal) -> None:
    shown = without_styles(on_a_terminal(*name.split(), "--help", columns=60)).replace(" \\\n", " ")
    copied = [shlex.split(line) for line in shown.splitlines() if line.startswith("  reactree ")]
    assert copied == [shlex.split(line) for line in examples_of(LEAVES[name])]


def test_the_options_that_are_used_most_come_first(cli: Cli) -> None:
    _, options = cli("run", "--help").out.split("\nOptions\n")
    found = re.findall(r"^  (--[a-z-]+)", options, re.MULTILINE)
    assert found[:6] == ["--world", "--llm", "--planner", "--memory", "--save", "--view"]
