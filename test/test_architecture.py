"""What is written for whoever carries on is what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import yaml

from reactree_ros.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile, with its variables put in."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, target
    values = dict(re.findall(r"^(\w+) := (.*)$", MAKEFILE, re.MULTILINE))
    commands = re.sub(r"\$\((\w+)\)", lambda one: values.get(one[1], one[0]), found[1])
    return [line.removeprefix("\t") for line in commands.splitlines()]


def hooks() -> list[dict[str, Any]]:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in settings["repos"]] == ["local"], "nothing is fetched that the lock does not pin"
    return [hook for repo in settings["repos"] for hook in repo["hooks"]]


def test_the_drawing_names_every_folder_of_the_package() -> None:
    folders = {path.parent.name for path in (ROOT / "reactree_ros").glob("*/__init__.py")}
    assert {name for name in folders if f"{name}/" not in ARCHITECTURE} == set()


def test_before_a_commit_the_same_is_looked_at_as_by_make_lint() -> None:
    assert [hook["entry"] for hook in hooks()] == recipe("lint")
    assert {(hook["language"], hook["pass_filenames"]) for hook in hooks()} == {("system", False)}
    # of a commit that changes their settings alone, too
    assert [hook["types_or"] for hook in hooks()] == [["python", "toml"]] * len(hooks())


def test_every_target_that_is_named_is_there_and_every_test_target_is_named() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):(?! =)", MAKEFILE, re.MULTILINE))
    named = {name for page in (CONTRIBUTING, ARCHITECTURE, SECURITY) for name in re.findall(r"`make ([a-z-]+)", page)}
    assert named <= targets
    assert {name for name in targets if name.startswith("test")} <= named


def test_every_file_that_is_named_is_there() -> None:
    texts = {"CONTRIBUTING.md": CONTRIBUTING, "SECURITY.md": SECURITY, "docs/architecture.md": ARCHITECTURE}
    for page, text in texts.items():
        linked = re.findall(r"\]\(([^)#:]+)\)", text)
        assert [link for link in linked if not (ROOT / page).parent.joinpath(link).exists()] == [], page
        paths = re.findall(r"`((?:reactree_ros|test|docs|config|launch|ros2_ws|\.ci)/[\w./-]*)`", text)
        assert [path for path in paths if not (ROOT / path).exists()] == [], page


def test_every_command_that_is_named_is_there() -> None:
    for text in (CONTRIBUTING, SECURITY, ARCHITECTURE):
        for line in re.findall(r"`reactree ([^`]*)`", text):
            assert shlex.split(line)[0] in COMMANDS.names, line
