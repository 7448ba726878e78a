"""The tutorial "A robot with skills of its own", word for word, but for the language models."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from docs.blocks import ROOT, blocks_of
from processes import Process, Processes

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nav2_msgs") is None, reason="needs nav2_msgs")

BLOCKS = list(blocks_of(ROOT / "docs/tutorials/own-skills.md"))
#: An alias holds in a terminal alone.
TERMINAL = 'reactree() { ros2 run reactree_ros reactree "$@"; }'


def block(part: str, language: str = "bash") -> str:
    """Return the only block that has something in it."""
    (text,) = (one.text for one in BLOCKS if one.language == language and part in one.text)
    return text


def test_each_step_does_what_the_page_says(processes: Processes, tmp_path: Path) -> None:
    def terminal(command: str) -> Process:
        return processes.start("bash", "-c", f"cd {tmp_path}\n{TERMINAL}\n{command}")

    def asked(skill: str, like: str = "") -> str:
        command = block(f"{{skill: '{like or skill}'}}").splitlines()[-1]
        commands = block("SKILL=").partition("\n")[0], command.replace(like or skill, skill)
        goal = terminal("\n".join(commands))
        assert goal.end() == 0, goal.output
        return goal.output

    for one in BLOCKS:
        if one.file:
            (tmp_path / one.file).write_text(one.text)
    base = terminal(f"exec {block('base.py')}")
    assert terminal(block("robot map")).end() == 0
    check = terminal(block("robot check"))
    assert (check.end(), "nothing is wrong" in check.output) == (0, True), check.output
    assert block("right  /spin", "text").strip() in check.output
    wrong = terminal(f"sed -i s/target_yaw/target_yow/ robot.yaml\n{block('robot check')}")
    assert wrong.end() == 1, wrong.output
    assert block("target_yow", "text") in "".join(f"{line.rstrip()}\n" for line in wrong.output.splitlines())
    launch = terminal(f"sed -i s/target_yow/target_yaw/ robot.yaml\nexec {block('policy:=policy.yaml' + chr(10))}")
    launch.wait_until_up()
    assert "You turn by 1.5 rad." in asked("turn by 1.5 rad")
    base.wait_for("turned by 1.5 rad")
    assert block("angle: 9 may not", "text").strip() in asked("turn by 9 rad")
    assert "write it as ''turn by 2 rad''" in asked("turn by 2.0 rad", like="turn by 9 rad")
    assert block("says deny", "text").strip() in asked("turn by 2.5 rad")
    assert base.output.count("turned by") == 1
    launch.interrupt()
    assert launch.ended_cleanly(0)
