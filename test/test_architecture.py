"""What is written for whoever carries on is what there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from reactree_ros.cli.commands import COMMANDS

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")

#: Arrows from one room to another; import-linter sees to it that there are no circles. It may only be made smaller.
#: A new room brings its own: `routine` brought twelve, `telemetry` nine, `mcp` fourteen.
MOST_ARROWS = 168
#: The rooms that are not core.
FLOORS = {"household", "lab", "nodes", "robot"}


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


def test_the_table_of_the_layer_rule_is_that_of_the_contracts() -> None:
    pytest.importorskip("importlinter", reason="`make test` has it")
    from layer_rule import contracts, with_table

    assert with_table(ARCHITECTURE, contracts()) == ARCHITECTURE, "the contracts have changed: run `make layers`"


def test_there_are_no_more_arrows_between_rooms_than_there_were() -> None:
    pytest.importorskip("grimp", reason="import-linter brings it, `make test` has that")
    from layer_rule import arrows

    found = arrows()
    assert len(found) <= MOST_ARROWS, f"there are {len(found)}: {found}"
    into = {room for _, room in found}
    assert {"household", "lab", "nodes", "robot"} & {to for of, to in found if of not in FLOORS} == set(), into


def test_the_table_says_who_may_not_import_what_by_which_contract() -> None:
    pytest.importorskip("importlinter", reason="`make test` has it")
    from layer_rule import Contract, table

    rule = Contract("below knows no above", ("below",), (), ("above", "ROS"), (("**", "above.port"),))
    others = Contract("nobody knows cli", (), ("cli",), ("cli",), (), directly=True)
    assert table([rule, others]).splitlines() == [
        "| imports | `above` | `ROS` | `cli` |",
        "|---|---|---|---|",
        "| `below` | ✗1 | ✗1 | ✗2 |",
        "| `above` |   |   | ✗2 |",
        "| `cli` |   |   |   |",
        "| every other |   |   | ✗2 |",
        "",
        "1. below knows no above (left alone: `above.port`)",
        "2. nobody knows cli (directly)",
    ]


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
            assert shlex.split(line)[0] in COMMANDS.own, line
