"""A robot's own skills over ROS: one entry of `robot.yaml` each, as data from planner to server and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from reactree_interfaces.srv import AvailableSkills, DescribeHousehold
from robot_house import SKILLS, House, Result
from ros_graph import Graph

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.turns import Told
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.messages import request_from_msg, request_to_msg
from reactree_ros.nodes.planner.adapters import RosWorld
from reactree_ros.world.port import Outcome

SQUEEZED = "squeeze pudding 1 by 2.5 N in soft mode"


def settled(graph: Graph, pending: Any) -> Any:
    graph.until(pending.done)
    return pending.take()


def own(config: dict[str, Any]) -> None:
    config["skills"] |= SKILLS["own"]


@pytest.fixture
def house(house: House) -> House:
    house.add_robot()
    return house


@pytest.fixture
def at_table(house: House) -> House:
    house.start(own)
    house.does("go to kitchen table 1")
    return house


def test_a_skill_with_a_number_a_choice_or_a_text_is_done(at_table: House) -> None:
    at_table.does(SQUEEZED, "say Please wait. Then pick up pudding 1, and open fridge 1!")
    arguments = json.dumps({"thing": "pudding 1", "newton": 2.5, "mode": "soft"})
    goal = at_table.graph.skill("", to="robot_bridge", name="squeeze", arguments=arguments)
    assert goal.result.outcome == Result.DONE
    done = [line for line in at_table.robot.log if line.startswith("arm: s") and line != "arm: succeed"]
    squeezed, text = "arm: squeeze pudding 2.500 soft", "Please wait. Then pick up pudding 1, and open fridge 1!"
    assert done == [squeezed, f"arm: say at {text}", squeezed]
    assert at_table.robot.house.held == ""


def test_what_is_no_skill_is_refused_by_what_is_wrong_or_with_the_nearest(at_table: House) -> None:
    nearest = []
    for said, outcome, reason in (
        ("squeeze pudding 1 by 11 N in soft mode", Result.UNKNOWN_SKILL, "newton: 11 may not stand here"),
        ("squeeze pudding 1 by 2.6 N in soft mode", Result.UNKNOWN_SKILL, "newton: 2.6 may not stand here"),
        ("squeeze pudding 1 by 2.50 N in soft mode", Result.UNKNOWN_SKILL, "write it as 'squeeze pudding 1 by 2.5 N"),
        ("squeeze pudding 1 by 1 N in mad mode", Result.UNKNOWN_SKILL, "mode: 'mad' may not stand here; what may: so"),
        ("squeeze fridge 1 by 1 N in soft mode", Result.PRECONDITION, "thing: 'fridge 1' may not stand here"),
        ("squeeze unicorn 1 by 1 N in soft mode", Result.PRECONDITION, "thing: 'unicorn 1' may not stand here"),
        ("pick up unicorn 1", Result.UNKNOWN_SKILL, "unicorn"),
        ("squeze pudding 1", Result.UNKNOWN_SKILL, "did you mean 'squeeze'?"),
        ("pik up pudding 1", Result.UNKNOWN_SKILL, "did you mean 'pick up'?"),
        ("dance", Result.UNKNOWN_SKILL, "its skills are declared in robot.yaml"),
    ):
        refused = at_table.fails(said)
        assert (refused[0], reason in refused[1]) == (outcome, True), refused
        nearest.append(refused[1])
    assert all(f"{verb}," in message for message in nearest[-3:] for verb in ("go to", "pick up", "squeeze"))
    assert not any("squeeze" in line for line in at_table.robot.log)


@pytest.mark.parametrize(
    ("came", "said"),
    [("succeed", "note: succeed"), ("a" * 41, f"{'a' * 41} (it should be a text"), ("", "(it should be a text")],
)
def test_what_a_server_returns_is_data_and_kept_if_it_is_not_as_declared(at_table: House, came: str, said: str) -> None:
    at_table.robot.behave["switch"] = [came]
    result = at_table.does("signal")
    assert json.loads(result.observation.data) == {"note": came}
    assert said in result.observation.text


def test_a_skill_goes_as_data_from_the_planners_side(at_table: House) -> None:
    graph = at_table.graph
    calls = Calls(graph.probe, patience=3600.0)
    graph.probe.create_timer(0.02, calls.watch)
    world = RosWorld(graph.probe, "robot_bridge", calls, Heartbeat(graph.probe))
    settled(graph, world.learn())
    offers = [one for one in settled(graph, world.available_skills()) if isinstance(one, Offer)]
    grammar = DecisionGrammar(("done",), (), offers=tuple(offers))
    request = DecisionRequest((Told("Your task is to: root"),), grammar, id="0.1")
    assert request_from_msg(request_to_msg(request)) == request
    squeeze = next(one for one in offers if one.skill.name == "squeeze")
    assert {"mug 1", "pudding 1"} <= set(squeeze.now["thing"])
    call = squeeze.read(SQUEEZED)
    seen = settled(graph, world.execute(call))
    assert (seen.outcome, seen.text[: len(SQUEEZED)]) == (Outcome.DONE, f"You {SQUEEZED}"[: len(SQUEEZED)])
    assert isinstance(world.household.call(SQUEEZED), SkillCall)
    assert settled(graph, world.execute("signal")).data == {"note": "succeed"}
    world.close()


ROUTINE = """<root BTCPP_format="4">
  <BehaviorTree ID="press out" _goal="press out {what}">
    <Sequence>
      <go_to thing="kitchen table 1"/>
      <RetryUntilSuccessful num_attempts="2"><squeeze thing="{what}" newton="2.5" mode="soft"/></RetryUntilSuccessful>
    </Sequence>
  </BehaviorTree>
  <TreeNodesModel><SubTree ID="press out"><input_port name="what" type="thing"/></SubTree></TreeNodesModel>
</root>
"""


def test_a_file_of_xml_is_a_skill_of_the_robot(house: House, tmp_path: Path) -> None:
    """The planner sees one skill, whose steps go to the robot's servers, each judged by the policy."""
    (tmp_path / "press.xml").write_text(ROUTINE)
    rules = [{"skill": one, "verdict": "allow"} for one in ("go to", "squeeze")]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"rules": rules}))
    graph = house.graph
    house.start(own, routine_skills=str(tmp_path), policy=str(tmp_path / "policy.yaml"))
    household = graph.call(DescribeHousehold, "robot_bridge/household")
    assert "press out" in {json.loads(one)["name"] for one in household.skills}
    house.does("go to kitchen table 1")  # what stands there is known then
    offers = graph.call(AvailableSkills, "robot_bridge/available_skills").offers
    now = {json.loads(one)["skill"]["name"]: json.loads(one)["now"] for one in offers}
    assert "pudding 1" in now["press out"]["what"]
    assert SQUEEZED in house.does("press out pudding 1").observation.text
    assert [line for line in house.robot.log if "squeeze" in line] == ["arm: squeeze pudding 2.500 soft"]


def test_a_file_that_fits_no_skill_of_the_robot_is_said_before_anything_moves(house: House, tmp_path: Path) -> None:
    (tmp_path / "press.xml").write_text(ROUTINE.replace("squeeze thing", "squash thing"))
    node = house.graph.add(house.make_bridge(own, routine_skills=str(tmp_path)))
    with pytest.raises(UserError, match=r"press.xml:5: <squash>: 'squash' is no node and no skill here"):
        node.take(node.load())
