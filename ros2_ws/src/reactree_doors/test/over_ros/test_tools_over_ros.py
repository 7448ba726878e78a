"""Tools of MCP servers as skills of a bridge: of a simulator by its parameter ``mcp``, of a robot by ``robot.yaml``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from people import BRIDGE, Answerer
from reactree_interfaces.action import ExecuteSkill
from ros_graph import Graph

Result = ExecuteSkill.Result


pytest.importorskip("mcp")


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the entry of a server that tells who sits where, and opens a safe if a person says yes."""
    monkeypatch.setenv("MARKS", str(tmp_path))
    server = Path(__file__).parents[1] / "tool_server.py"
    tools = {
        "who_sits_in": {"wording": "look up who sits in {room}", "name": "look up"},
        "open_safe": {"wording": "unlock the safe", "policy": "confirm"},
    }
    return {"office": {"command": sys.executable, "args": [str(server), "office"], "env": ["MARKS"], "tools": tools}}


def look_up_and_open(graph: Graph, folder: Path, bridge: str) -> None:
    person = Answerer(graph, bridge)
    told = graph.skill("look up who sits in 204", to=bridge).result
    assert (told.outcome, told.observation.text) == (Result.DONE, "office says: Anna sits in 204")
    failed = graph.skill("look up who sits in 999", to=bridge).result
    assert failed.outcome == Result.EXECUTION
    assert "there is no room 999" in failed.observation.text
    assert graph.skill("wait for ever", to=bridge).result.outcome == Result.REFUSED_BY_POLICY
    assert not (folder / "waiting").exists()

    goal = graph.skill("unlock the safe", to=bridge)
    person.says("no", to="unlock the safe")
    assert goal.result.outcome == Result.REFUSED_BY_POLICY
    assert not (folder / "safe").exists()
    goal = graph.skill("unlock the safe", to=bridge)
    person.says("yes", to="unlock the safe")
    assert (goal.result.outcome, goal.result.observation.text) == (Result.DONE, "office says: the safe is open")
    assert (folder / "safe").exists()


def test_the_parameter_mcp_makes_tools_skills_of_a_bridge_and_a_person_confirms_them(
    graph: Graph, tmp_path: Path, office: dict[str, Any]
) -> None:
    file = tmp_path / "mcp.yaml"
    file.write_text(yaml.safe_dump({"mcp": office}))
    graph.bridge(mcp=str(file), confirm_timeout=600.0)
    look_up_and_open(graph, tmp_path, BRIDGE)


def test_tools_in_a_robots_file_are_skills_of_its_bridge_and_a_person_confirms_them(
    graph: Graph, tmp_path: Path, office: dict[str, Any]
) -> None:
    from robot_house import House

    house = House(graph, tmp_path)
    house.add_robot()
    house.start(lambda config: config.update(mcp=office), confirm_timeout=600.0)
    look_up_and_open(graph, tmp_path, "robot_bridge")
    assert house.robot.log == []
