"""The rules of a delivery robot's owner over ROS, with its own interfaces and a stand-in for its servers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import delivery_interfaces  # noqa: F401  # of ../shared, which the stand-in speaks
import pytest
import yaml
from command_line import Cli
from doubles import ScriptedModel, expand
from processes import Process
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from reactree_interfaces.action import ExecuteSkill
from robot.delivery import COUNTER, ERRANDS, delivery_robot, without_needless
from ros_graph import Graph, activate
from std_msgs.msg import Bool

from reactree_ros.agent.observation import Outcome
from reactree_ros.nodes.robot.robot_bridge_node import RobotBridgeNode
from reactree_ros.record.reader import read_record
from reactree_ros.world.port import WorldError
from reactree_ros.world.wrappers import unwrapped

Result = ExecuteSkill.Result
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
NEAR = "people are near"
TO_COUNTER, LOAD = COUNTER, "load the pills into drawer 3"


class Delivery:
    """The robot, whose people are told of by the test."""

    def __init__(self, graph: Graph, folder: Path) -> None:
        near = {"wording": NEAR, "topic": "near"}
        scale = {"wording": "the scale shows a load", "topic": "scale", "type": "std_msgs/msg/Float32"}
        conditions = {"people": near, "loaded": {**scale, "holds": {"above": 0}}}
        self.graph, self.file = graph, delivery_robot(folder, conditions=conditions)
        self.people = graph.probe.create_publisher(Bool, "near", LATCHED)
        self.servers = Process(sys.executable, str(folder / "robot_sim.py"), domain=graph.domain_id)
        self.bridge: Any = None

    def start(self, **parameters: Any) -> None:
        given = {"robot_config": str(self.file), "server_timeout": 5.0, "stop_timeout": 5.0} | parameters
        overrides = [Parameter(name, value=value) for name, value in given.items()]
        self.bridge = self.graph.add(
            activate(RobotBridgeNode(context=self.graph.context, parameter_overrides=overrides))
        )
        self.graph.until(lambda: not self.world.lacks(), "the servers are there")
        self.graph.until(lambda: self.world.conditions["loaded"] is not None, "the scale is heard")

    @property
    def world(self) -> Any:
        return unwrapped(self.bridge.host.bare)

    def near(self, said: bool) -> None:
        self.people.publish(Bool(data=said))
        self.graph.until(lambda: self.world.conditions["people"] is said, "it is heard")

    def ends(self, skill: str) -> tuple[int, str]:
        result = self.graph.skill(skill, to="robot_bridge").result
        return result.outcome, result.observation.text

    def did(self) -> list[str]:
        """Return what its servers did, in words."""
        lines = (line.split(maxsplit=1)[1].strip() for line in self.servers.output.splitlines() if line[:1] == " ")
        return [line for line in lines if line.startswith(("DRIVE begin", "DRIVE canceled", "ARM", "DRAWER"))]


@pytest.fixture
def delivery(graph: Graph, tmp_path: Path) -> Iterator[Delivery]:
    delivery = Delivery(graph, tmp_path)
    yield delivery
    delivery.servers.kill()


@pytest.mark.parametrize("offers", ["all", "possible"])
def test_a_model_that_breaks_every_rule_is_refused_with_its_reason_and_can_go_on(
    delivery: Delivery, offers: str
) -> None:
    delivery.start()
    delivery.near(True)
    said = {
        "navigate to counter at 1.2 m/s": "speed is 1.2 and may be at most 0.8 while people are near.",
        "load the pills into drawer 2": "you are not at counter; first navigate to counter at … m/s.",
        "hand the bandages over to Bob": "you do not hold bandages; first load the bandages into drawer ….",
        TO_COUNTER: "",
        "open drawer 3": "",
        LOAD: "",
        "navigate to nurse desk at 0.5 m/s": "drawer 3 is open; first close drawer 3.",
        "close drawer 3": "",
        "load the blood sample into drawer 3": "drawer 3 is closed; first open drawer 3.",
        "navigate to ward A at 0.8 m/s": "",
        "hand the pills over to Anna": "",
    }
    graph = delivery.graph
    decisions = [f"Act: {skill}" for skill in said]
    graph.inference(model := ScriptedModel({"root": [*decisions, "Act: done"]}))
    graph.planner(bridge="robot_bridge", planner="react", offers=offers)
    assert graph.task().result.success
    prompt = model.requests[-1].prompt
    for skill, reason in said.items():
        told = prompt.partition(f"Act: {skill}\n")[2].partition("\n")[0]
        refused = told.startswith(f"You cannot {skill}: ")
        if offers == "possible" and reason:  # what the planner's side knows, it need not ask the bridge
            refused |= told.startswith(f"'{skill}' is not done: ")
        assert (refused, reason in told) == (bool(reason), True), told
    assert [line.split(" (")[0] for line in delivery.did()] == [
        "DRIVE begin counter 0.5",
        "DRAWER 3 open",
        "ARM load pills 3",
        "DRAWER 3 close",
        "DRIVE begin ward A 0.8",
        "ARM hand over to Anna pills 0",
    ]


@pytest.mark.parametrize("comes", ["a person", "silence"])
def test_a_person_who_comes_near_in_mid_drive_stops_the_base_at_once(delivery: Delivery, comes: str) -> None:
    delivery.start()
    delivery.near(False)
    assert delivery.ends(TO_COUNTER)[0] == Result.DONE
    (delivery.file.parent / "faults.txt").write_text("drive=3600")
    goal = delivery.graph.skill("navigate to nurse desk at 1 m/s", to="robot_bridge")
    delivery.graph.until(lambda: "DRIVE begin nurse desk" in delivery.servers.output, "it drives")
    if comes == "a person":
        delivery.world._timer.cancel()  # who waits for the next period stops it never
        delivery.people.publish(Bool(data=True))
    else:
        delivery.graph.probe.destroy_publisher(delivery.people)
    result = goal.result
    assert (result.outcome, result.observation.begun) == (Result.PRECONDITION, True)
    why = "" if comes == "a person" else f", and nobody knows whether {NEAR}"
    assert result.observation.text == (
        f"You could not navigate to nurse desk at 1 m/s: speed is 1.0 and may be at most 0.8 while {NEAR}{why}; it "
        f"was stopped. Conditions: {NEAR}: {'unknown' if why else 'yes'}; the scale shows a load: no."
    )
    delivery.servers.wait_for("DRIVE canceled nurse desk")
    assert delivery.ends(LOAD) == (
        Result.PRECONDITION,
        f"You cannot {LOAD}: you are not at counter; first navigate to counter at … m/s.",
    )


def test_slow_drives_go_on_where_a_person_is_near_and_conditions_come_as_data(delivery: Delivery) -> None:
    delivery.start()
    world = delivery.graph.ros_world("robot_bridge")
    delivery.graph.settled(world.learn())
    assert delivery.graph.settled(world.observe()).conditions == {"the scale shows a load": False}
    delivery.near(False)
    driving = world.execute(TO_COUNTER)
    delivery.graph.until(lambda: "DRIVE begin counter" in delivery.servers.output, "it drives")
    delivery.near(True)
    seen = delivery.graph.settled(driving)
    assert (seen.outcome, seen.begun) == (Outcome.DONE, False)
    assert seen.conditions == {NEAR: True, "the scale shows a load": False}
    for skill in ("open drawer 3", LOAD):
        seen = delivery.graph.settled(world.execute(skill))
    assert " You hold pills." in seen.text
    later = delivery.graph.settled(world.observe())  # another task has to know it, too
    assert " You hold pills." in later.text
    assert [one.word for one in later.seen if one.held] == ["pills"]
    world.close()


def test_a_dry_run_and_a_policy_go_by_conditions_too(delivery: Delivery) -> None:
    rules = [{"skill": "say", "when": {"condition": "people"}, "verdict": "deny"}]
    rules += [{"skill": one, "verdict": "allow"} for one in ("say", "navigate")]
    (policy := delivery.file.parent / "rules.yaml").write_text(yaml.safe_dump({"rules": rules}))
    delivery.start(dry_run=True, policy=str(policy))
    for known in ("unknown", "yes"):
        outcome, text = delivery.ends("say Hello")
        assert outcome == Result.REFUSED_BY_POLICY
        assert f"the skill policy says deny for 'say Hello' (people: {known})" in text
        outcome, text = delivery.ends("navigate to counter at 1 m/s")
        assert (outcome, f"may be at most 0.8 while {NEAR}" in text) == (Result.PRECONDITION, True)
        delivery.near(True)
    assert delivery.did() == []


def test_it_speaks_while_it_drives_and_drives_one_after_the_other(delivery: Delivery) -> None:
    delivery.start()
    delivery.near(False)
    (delivery.file.parent / "faults.txt").write_text("drive=8")
    script = {
        "root": [expand("parallel", "a", "b", "c"), "Act: done"],
        "a": [f"Act: {TO_COUNTER}", "Act: done"],
        "b": ["Act: say I am coming", "Act: done"],
        "c": ["Act: navigate to nurse desk at 0.5 m/s", "Act: done"],
    }
    graph = delivery.graph
    graph.inference(ScriptedModel(script))
    graph.planner(bridge="robot_bridge", planner="reactree")
    goal = graph.task()
    graph.until(lambda: "SPEECH" in delivery.servers.output, "it speaks")
    (delivery.file.parent / "faults.txt").write_text("drive=0.5")
    assert goal.result.success
    lines = [line.split(maxsplit=1)[1] for line in delivery.servers.output.splitlines() if line[:1] == " "]
    done = [" ".join(line.split()[:3]) for line in lines if line.startswith(("DRIVE", "SPEECH"))]
    assert done == ["DRIVE begin counter", "SPEECH I am", "DRIVE end counter", "DRIVE begin nurse", "DRIVE end nurse"]


def test_goals_that_use_different_resources_are_under_way_together_and_end_each_for_itself(delivery: Delivery) -> None:
    (delivery.file.parent / "faults.txt").write_text("drive=3600 nobody")
    delivery.start()
    delivery.near(False)
    graph, world = delivery.graph, delivery.graph.ros_world("robot_bridge")
    graph.settled(world.learn())
    driving = world.execute(TO_COUNTER)
    graph.until(lambda: "DRIVE begin counter" in delivery.servers.output, "it drives")
    assert graph.settled(world.execute("say Hello")).outcome is Outcome.DONE
    assert "Under way: navigate to counter at 0.5 m/s." in graph.settled(world.observe()).text
    with pytest.raises(WorldError, match=r"rejected 'navigate to nurse desk at 0\.5 m/s': it is busy"):
        graph.settled(world.execute("navigate to nurse desk at 0.5 m/s"))
    waiting = world.execute("wait up to 300 s for a person")
    graph.until(lambda: "wait up to" in delivery.bridge._skills.skill, "it waits")
    waiting.cancel()  # that alone
    graph.settled(world.at_rest())
    assert not driving.done()
    assert "Conditions: people are near: no" in graph.settled(world.execute("say Bye")).text
    world.stop()
    graph.settled(world.at_rest())
    delivery.servers.wait_for("DRIVE canceled counter")
    assert driving.cancelled()
    world.close()


def test_an_emergency_stop_stops_all_that_is_under_way(delivery: Delivery) -> None:
    config = yaml.safe_load(delivery.file.read_text()) | {"emergency_stop": {"topic": "stop", "latched": True}}
    delivery.file.write_text(yaml.safe_dump(config, sort_keys=False))
    (delivery.file.parent / "faults.txt").write_text("drive=3600 nobody")
    stop = delivery.graph.probe.create_publisher(Bool, "stop", LATCHED)
    stop.publish(Bool(data=False))
    delivery.start()
    delivery.near(False)
    graph, world = delivery.graph, delivery.graph.ros_world("robot_bridge")
    graph.settled(world.learn())
    graph.until(lambda: not world.halted(), "it may move")
    both = [world.execute(TO_COUNTER), world.execute("wait up to 300 s for a person")]
    graph.until(lambda: delivery.bridge._skills.skill.count("' and '") == 1, "both are under way")
    stop.publish(Bool(data=True))
    assert [graph.settled(one).outcome for one in both] == [Outcome.HALTED] * 2
    delivery.servers.wait_for("DRIVE canceled counter")
    world.close()


def test_errands_are_learnt_and_done_elsewhere_and_otherwise_without_a_request(
    delivery: Delivery, tmp_path: Path, cli: Cli
) -> None:
    memory, graph = str(tmp_path / "memory.db"), delivery.graph
    delivery.start()
    delivery.near(False)
    script = {goal: [*(f"Act: {skill}" for skill in skills), "Act: done"] for goal, (skills, *_) in ERRANDS.items()}
    script["Bring the pills to Bob"] = ["Act: say The drawer is stuck.", "Act: done"]
    graph.inference(model := ScriptedModel(script))
    graph.planner(bridge="robot_bridge", planner="react", routines="on", memory=memory, save_to=str(tmp_path / "runs"))
    at = ""

    def does(goal: str, skills: Sequence[str], requests: int) -> str:
        nonlocal at
        model.requests.clear()
        result = graph.task(goal).result
        assert (result.success, len(model.requests)) == (True, requests), result.message
        events = read_record(Path(result.saved_to)).events
        expected = list(skills) if requests else without_needless(skills, at)
        assert [event["skill"] for event in events if event["e"] == "skill"] == expected
        at = next((one for one in reversed(skills) if one.startswith(("navigate", "dock"))), at)
        return str(result.saved_to)

    for errand, (skills, other, others) in ERRANDS.items():
        saved = does(errand, skills, len(skills) + 1)
        with ThreadPoolExecutor() as beside:  # the bridge goes on saying that it is there
            keeping = beside.submit(cli, "routine", "keep", saved, "--memory", memory, "--robot", str(delivery.file))
            graph.until(keeping.done, "it is kept")
        assert (keeping.result().code, "not tried out" in keeping.result().out) == (0, False)
        does(errand, skills, 0)
        does(other, others, 0)
    (delivery.file.parent / "faults.txt").write_text("jam")
    does("Bring the pills to Bob", (COUNTER, "open drawer 3", "say The drawer is stuck."), 2)
    assert "Done for this by" in model.requests[-1].prompt
