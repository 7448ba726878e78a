"""A robot's own skills over ROS: one entry of `robot.yaml` each, as data from planner to server and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from action_msgs.msg import GoalStatus
from reactree_interfaces.srv import AvailableSkills, DescribeHousehold
from robot_house import House, Result
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

SQUEEZE: dict[str, Any] = {
    "wording": "squeeze {thing} by {newton} N in {mode} mode",
    "parameters": {
        "thing": {"thing": "GRABBABLE"},
        "newton": {"number": {"from": 0.5, "to": 10.0, "by": 0.5, "unit": "N"}},
        "mode": ["soft", "hard"],
    },
    "action": "arm",
    "type": "nav2_msgs/action/DummyBehavior",
    "goal": {"command.data": "squeeze {thing.word} {newton} {mode}"},
    "outcomes": {7: "precondition"},
    "time_limit": 20.0,
}
SIGNAL: dict[str, Any] = {
    "wording": "signal",
    "returns": {"note": {"text": 40}},
    "result": {"note": "message"},
    "service": "switch",
    "type": "std_srvs/srv/SetBool",
    "goal": {"data": True},
}
SAY: dict[str, Any] = {
    "wording": "say {text}",
    "parameters": {"text": {"text": 60}},
    "action": "arm",
    "type": "nav2_msgs/action/DummyBehavior",
    "goal": {"command.data": "say at {text}"},
}
SQUEEZED = "squeeze pudding 1 by 2.5 N in soft mode"


def settled(graph: Graph, pending: Any) -> Any:
    """Return a pending result once it is there."""
    graph.until(pending.done)
    return pending.take()


def own(config: dict[str, Any]) -> None:
    config["skills"] |= {"squeeze": SQUEEZE, "signal": SIGNAL, "say": SAY}


@pytest.fixture
def house(graph: Graph, tmp_path: Path) -> House:
    house = House(graph, tmp_path)
    house.add_robot()
    house.start(own)
    house.does("go to kitchen table 1")
    return house


def test_a_skill_with_a_number_and_a_choice_is_done(house: House) -> None:
    assert house.skill(SQUEEZED).result.outcome == Result.DONE
    assert "arm: squeeze pudding 2.500 soft" in house.robot.log


def test_it_is_done_by_name_and_arguments(house: House) -> None:
    arguments = json.dumps({"thing": "pudding 1", "newton": 2.5, "mode": "soft"})
    goal = house.graph.skill("", to="robot_bridge", name="squeeze", arguments=arguments)
    assert goal.result.outcome == Result.DONE
    assert "arm: squeeze pudding 2.500 soft" in house.robot.log


@pytest.mark.parametrize(
    ("said", "outcome", "reason"),
    [
        ("squeeze pudding 1 by 11 N in soft mode", "UNKNOWN_SKILL", "newton: 11 may not stand here"),
        ("squeeze pudding 1 by 2.6 N in soft mode", "UNKNOWN_SKILL", "newton: 2.6 may not stand here"),
        ("squeeze pudding 1 by 2.50 N in soft mode", "UNKNOWN_SKILL", "write it as 'squeeze pudding 1 by 2.5 N"),
        (
            "squeeze pudding 1 by 1 N in mad mode",
            "UNKNOWN_SKILL",
            "mode: 'mad' may not stand here; what may: soft, hard",
        ),
        ("squeeze fridge 1 by 1 N in soft mode", "PRECONDITION", "thing: 'fridge 1' may not stand here"),
    ],
)
def test_it_is_refused_by_the_parameter_that_is_wrong(house: House, said: str, outcome: str, reason: str) -> None:
    refused = house.skill(said).result
    assert refused.outcome == getattr(Result, outcome)
    assert reason in refused.message
    assert not any("squeeze" in line for line in house.robot.log)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("squeze pudding 1", "did you mean 'squeeze'?"),
        ("pik up pudding 1", "did you mean 'pick up'?"),
        ("dance", "its skills are declared in robot.yaml"),
        ("pick up unicorn 1", "unicorn"),
        ("squeeze unicorn 1 by 1 N in soft mode", "thing: 'unicorn 1' may not stand here"),
    ],
)
def test_what_is_no_skill_is_told_the_nearest_of_its_own_and_the_households(
    house: House, said: str, reason: str
) -> None:
    message = house.skill(said).result.message
    assert reason in message
    if "unicorn" not in said:
        assert all(f"{verb}," in message for verb in ("go to", "pick up", "squeeze"))


def test_its_failures_have_outcomes_by_code(house: House) -> None:
    house.robot.behave["arm"] = ["abort:7", "abort:8"]
    assert house.skill(SQUEEZED).result.outcome == Result.PRECONDITION
    failed = house.skill(SQUEEZED).result
    assert failed.outcome == Result.EXECUTION
    assert failed.message.startswith(f"You could not {SQUEEZED}: arm: error code 8")


def test_a_cancel_goes_through_to_its_server(house: House) -> None:
    house.robot.behave["arm"] = ["hold"]
    goal = house.skill(SQUEEZED)
    house.graph.until(lambda: "arm: hold" in house.robot.log)
    goal.cancel()
    assert goal.status == GoalStatus.STATUS_CANCELED
    assert "stopped: arm" in house.robot.log


def test_what_a_server_returns_is_data(house: House) -> None:
    result = house.skill("signal").result
    assert result.outcome == Result.DONE
    assert json.loads(result.observation.data) == {"note": "succeed"}
    assert "note: succeed" in result.observation.text


@pytest.mark.parametrize(
    ("came", "said"), [("a" * 41, f"{'a' * 41} (it should be a text"), ("", "(it should be a text")]
)
def test_what_a_server_returns_is_said_and_kept_where_it_is_not_as_declared(house: House, came: str, said: str) -> None:
    house.robot.behave["switch"] = [came]
    result = house.skill("signal").result
    assert result.outcome == Result.DONE
    assert json.loads(result.observation.data) == {"note": came}
    assert said in result.observation.text


def test_a_text_is_not_cut_whatever_is_in_it(house: House) -> None:
    assert house.skill("say Please wait. Then pick up pudding 1, and open fridge 1!").result.outcome == Result.DONE
    assert "arm: say at Please wait. Then pick up pudding 1, and open fridge 1!" in house.robot.log
    assert house.robot.house.held == ""


def test_the_bridge_tells_what_is_declared_and_what_may_stand_now(house: House) -> None:
    household = house.graph.call(DescribeHousehold, "robot_bridge/household")
    assert {json.loads(one)["name"] for one in household.skills} >= {"squeeze", "signal", "say", "go to"}
    offers = house.graph.call(AvailableSkills, "robot_bridge/available_skills").offers
    now = {json.loads(one)["skill"]["name"]: json.loads(one)["now"] for one in offers}
    assert {"mug 1", "pudding 1"} == set(now["squeeze"]["thing"])


def test_a_skill_goes_as_data_from_the_planners_side(house: House) -> None:
    graph = house.graph
    calls = Calls(graph.probe, patience=3600.0)
    graph.probe.create_timer(0.02, calls.watch)
    world = RosWorld(graph.probe, "robot_bridge", calls, Heartbeat(graph.probe))
    settled(graph, world.learn())
    offers = [one for one in settled(graph, world.available_skills()) if isinstance(one, Offer)]
    grammar = DecisionGrammar(("done",), (), offers=tuple(offers))
    request = DecisionRequest((Told("Your task is to: root"),), grammar, id="0.1")
    assert request_from_msg(request_to_msg(request)) == request
    call = next(one for one in offers if one.skill.name == "squeeze").read(SQUEEZED)
    seen = settled(graph, world.execute(call))
    assert (seen.outcome, seen.text[: len(SQUEEZED)]) == (Outcome.DONE, f"You {SQUEEZED}"[: len(SQUEEZED)])
    assert isinstance(world.household.call(SQUEEZED), SkillCall)
    assert settled(graph, world.execute("signal")).data == {"note": "succeed"}
    world.close()


def test_a_policy_judges_it_by_its_values(graph: Graph, tmp_path: Path) -> None:
    rules = [
        {"skill": "squeeze", "when": {"newton": {"above": 5.0}}, "verdict": "deny"},
        {"skill": "squeeze", "when": {"mode": "soft"}, "verdict": "allow"},
        {"skill": "go to", "verdict": "allow"},
    ]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"rules": rules}))
    house = House(graph, tmp_path)
    house.add_robot()
    house.start(own, policy=str(tmp_path / "policy.yaml"))
    house.does("go to kitchen table 1", SQUEEZED)
    for said in (SQUEEZED.replace("2.5", "5.5"), SQUEEZED.replace("soft", "hard"), "say hello", "signal"):
        assert house.skill(said).result.outcome == Result.REFUSED_BY_POLICY
    assert sum("squeeze" in line for line in house.robot.log) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"goal": {"command.data": "{force}"}}, "names 'force'; there are {skill}"),
        ({"goal": {"command": "{newton}"}}, "cannot be '{newton}', which is a number"),
        ({"result": {"note": "nothing"}, "returns": {"note": "text"}}, "has no field 'nothing'"),
        ({"parameters": {**SQUEEZE["parameters"], "mode": []}}, "parameters.mode: [] is no choice"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_moves(
    graph: Graph, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    house = House(graph, tmp_path)
    node = graph.add(house.make_bridge(lambda config: config["skills"].update(squeeze={**SQUEEZE, **change})))
    with pytest.raises(UserError) as refused:
        node.load()
    assert said in str(refused.value)


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


def test_a_file_of_xml_is_a_skill_of_the_robot(graph: Graph, tmp_path: Path) -> None:
    """The planner sees one skill, whose steps go to the robot's servers, each judged by the policy."""
    (tmp_path / "press.xml").write_text(ROUTINE)
    rules = [{"skill": one, "verdict": "allow"} for one in ("go to", "squeeze")]
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump({"rules": rules}))
    house = House(graph, tmp_path)
    house.add_robot()
    house.start(own, routine_skills=str(tmp_path), policy=str(tmp_path / "policy.yaml"))
    household = graph.call(DescribeHousehold, "robot_bridge/household")
    assert "press out" in {json.loads(one)["name"] for one in household.skills}
    house.does("go to kitchen table 1")  # what stands there is known then
    offers = graph.call(AvailableSkills, "robot_bridge/available_skills").offers
    now = {json.loads(one)["skill"]["name"]: json.loads(one)["now"] for one in offers}
    assert "pudding 1" in now["press out"]["what"]
    result = house.skill("press out pudding 1").result
    assert result.outcome == Result.DONE
    assert SQUEEZED in result.observation.text
    assert [line for line in house.robot.log if "squeeze" in line] == ["arm: squeeze pudding 2.500 soft"]


def test_a_file_that_fits_no_skill_of_the_robot_is_said_before_anything_moves(graph: Graph, tmp_path: Path) -> None:
    (tmp_path / "press.xml").write_text(ROUTINE.replace("squeeze thing", "squash thing"))
    house = House(graph, tmp_path)
    node = graph.add(house.make_bridge(own, routine_skills=str(tmp_path)))
    with pytest.raises(UserError, match=r"press.xml:5: <squash>: 'squash' is no node and no skill here"):
        node.take(node.load())
