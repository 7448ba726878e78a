"""Transitions that are impossible, fail, or come while something moves."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedWorld
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy._rclpy_pybind11 import InvalidHandle
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.srv import Generate
from ros_graph import Graph, HeldWorld, activate

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.bridge.bridge_node import BridgeNode
from reactree_ros.nodes.inference.inference_node import InferenceNode
from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.nodes.robot.robot_bridge_node import RobotBridgeNode
from reactree_ros.world.port import Observation

if importlib.util.find_spec("nav2_msgs"):
    from robot_servers import Robot


NAV2 = pytest.mark.skipif(importlib.util.find_spec("nav2_msgs") is None, reason="needs nav2_msgs")
ROBOT = Path(__file__).parents[2] / "config/robot.yaml"


def clumsy(kind: type, *transitions: str) -> type:
    """Make a kind of node some of whose transitions raise."""

    def stumble(*_: object) -> None:
        raise RuntimeError("a fault of the test")

    return type("Clumsy", (kind,), dict.fromkeys(transitions, stumble))


def robot_bridge(graph: Graph, kind: Any = None, **parameters: object) -> Any:
    given = {"robot_config": str(ROBOT), "server_timeout": 600.0, "stop_timeout": 600.0} | parameters
    overrides = [Parameter(name, value=value) for name, value in given.items()]
    return graph.add((kind or RobotBridgeNode)(context=graph.context, parameter_overrides=overrides))


def driving(graph: Graph, bridge: Any, robot: Any) -> Any:
    """Send the robot off for good; returns the goal when it is on its way."""
    parts = bridge.host.bare._robot
    graph.until(lambda: parts.senses.map.robot and not parts.stop.engaged(), "tf and the emergency stop are heard")
    robot.behave["navigate_to_pose"] = ["hold"]
    goal = graph.skill("go to bed 1", to="robot_bridge")
    graph.until(lambda: "navigate_to_pose: hold" in robot.log, "the robot is on its way")
    return goal


def state(graph: Graph, node: str) -> int:
    return int(graph.call(GetState, f"{node}/get_state").current_state.id)


# ---------------------------------------------------------------------- impossible ones


@pytest.mark.parametrize("transition", [1, 2, 3, 99, "fly"])  # 1 to 3: configure, cleanup, activate
@pytest.mark.parametrize("kind", ["household_bridge", "inference", "reactree_planner"])
def test_an_impossible_transition_is_refused_and_the_node_lives_on(
    graph: Graph, kind: str, transition: int | str
) -> None:
    makes = {"household_bridge": graph.bridge, "inference": graph.inference, "reactree_planner": graph.planner}
    node = makes[kind]()
    asked = Transition(label=transition) if isinstance(transition, str) else Transition(id=transition)
    if transition == 2:
        node.trigger_deactivate()
        node.trigger_cleanup()
    before = state(graph, kind)
    assert not graph.call(ChangeState, f"{kind}/change_state", transition=asked).success
    assert state(graph, kind) == before


@NAV2
def test_an_impossible_transition_does_not_stop_a_robot_that_drives(graph: Graph) -> None:
    robot = graph.add(Robot(context=graph.context))
    bridge = activate(robot_bridge(graph))
    driving(graph, bridge, robot)
    configure = Transition(id=Transition.TRANSITION_CONFIGURE)
    assert not graph.call(ChangeState, "robot_bridge/change_state", transition=configure).success
    assert "cancel: navigate_to_pose" not in robot.log
    assert not bridge.stopped()


# ---------------------------------------------------------------------- ones that fail


@NAV2
@pytest.mark.parametrize("transition", ["deactivate", "shutdown"])
def test_a_transition_that_fails_stops_the_robot_and_the_bridge_can_be_configured_anew(
    graph: Graph, transition: str
) -> None:
    robot = graph.add(Robot(context=graph.context))
    bridge = activate(robot_bridge(graph, clumsy(RobotBridgeNode, f"on_{transition}")))
    goal = driving(graph, bridge, robot)
    label = "active_shutdown" if transition == "shutdown" else transition
    ids = {"active_shutdown": Transition.TRANSITION_ACTIVE_SHUTDOWN, "deactivate": Transition.TRANSITION_DEACTIVATE}
    asked = Transition(id=ids[label])
    assert not graph.call(ChangeState, "robot_bridge/change_state", transition=asked).success
    assert goal.result.outcome == ExecuteSkill.Result.WORLD_UNAVAILABLE
    assert robot.log[-1] == "stopped: navigate_to_pose"
    assert state(graph, "robot_bridge") == State.PRIMARY_STATE_UNCONFIGURED
    graph.until(bridge.stopped)
    activate(bridge)


def test_a_bridge_that_could_not_be_activated_carries_nothing_out(graph: Graph) -> None:
    node = graph.add(clumsy(BridgeNode, "on_activate")(world=ScriptedWorld(), context=graph.context))
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() == TransitionCallbackReturn.ERROR
    assert not graph.skill("open fridge 1").accepted


def test_a_bridge_whose_world_cannot_be_closed_can_be_configured_anew(graph: Graph) -> None:
    class Stuck(ScriptedWorld):
        def close(self) -> None:
            raise RuntimeError("the simulator does not answer")

    node = graph.bridge(Stuck())
    assert node.trigger_deactivate() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    activate(node)
    assert graph.skill("open fridge 1").result.outcome == ExecuteSkill.Result.DONE


def test_a_transition_of_the_inference_node_that_fails_stops_what_it_generates(graph: Graph) -> None:
    class Pensive(LanguageModel):
        reply: Pending[Reply] | None = None

        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            self.reply = Pending()
            return self.reply

    model = Pensive()
    node = graph.add(activate(clumsy(InferenceNode, "on_deactivate")(model=model, context=graph.context)))
    answer = graph.send(Generate, "inference/generate", id="one", max_tokens=9, kind=Generate.Request.TEXT)
    graph.until(lambda: model.reply)
    assert node.trigger_deactivate() == TransitionCallbackReturn.ERROR
    assert graph.wait(answer, "it is answered").error_code == Generate.Response.ABORTED
    assert model.reply.cancelled()


# ---------------------------------------------------------------------- ones that come while something moves


@NAV2
def test_a_goal_that_is_not_accepted_yet_when_the_bridge_is_cleaned_up_is_canceled_all_the_same(graph: Graph) -> None:
    robot = graph.add(Robot(context=graph.context, behave={"navigate_to_pose": ["hold"]}), alone=True)
    bridge = activate(robot_bridge(graph))
    parts = bridge.host.bare._robot
    graph.until(lambda: parts.senses.map.robot and not parts.stop.engaged(), "tf and the emergency stop are heard")
    graph.until(lambda: not bridge.host.bare.halted(), "the stop is heard")
    graph.halt(robot)
    graph.skill("go to bed 1", to="robot_bridge")
    graph.until(lambda: bridge.heartbeat.goals, "the goal was sent")
    for step in ("deactivate", "cleanup"):
        assert getattr(bridge, f"trigger_{step}")() == TransitionCallbackReturn.SUCCESS
    assert bridge.trigger_configure() == TransitionCallbackReturn.FAILURE
    graph.resume(robot)
    graph.until(lambda: "stopped: navigate_to_pose" in robot.log, "the late goal is canceled")
    graph.until(bridge.stopped)
    assert bridge.heartbeat.goals == []
    activate(bridge)


def test_a_world_is_closed_only_when_nothing_of_it_moves_any_more(graph: Graph) -> None:
    class Restless(HeldWorld):
        resting: Pending[None] = Pending()
        closed = 0

        def at_rest(self) -> Pending[None]:
            return self.resting

        def observe(self) -> Pending[Observation]:
            assert not self.closed
            return super().observe()

        def close(self) -> None:
            self.closed += 1

    world = Restless()
    node = graph.bridge(world, stop_timeout=600.0)
    graph.skill("open fridge 1")
    graph.until(lambda: world.held)
    assert node.trigger_shutdown() == TransitionCallbackReturn.SUCCESS
    assert (world.cancelled, world.closed, node.stopped()) == ({"open fridge 1": 1}, 0, False)
    world.resting.succeed(None)
    graph.until(node.stopped)
    assert world.closed == 1


# ---------------------------------------------------------------------- half made


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [("bridge", "skill_timeout", -1.0), ("inference", "llm", "parrot"), ("planner", "tick_rate", -1.0)],
)
def test_a_node_whose_parameters_are_refused_can_be_destroyed(
    graph: Graph, name: str, parameter: str, value: object
) -> None:
    """As rclpy itself does when it is shut down, since Kilted."""
    kind: Any = {"bridge": BridgeNode, "inference": InferenceNode, "planner": PlannerNode}[name]
    node = kind.__new__(kind)
    with pytest.raises(Exception, match=str(value)):
        kind.__init__(node, context=graph.context, parameter_overrides=[Parameter(parameter, value=value)])
    node.destroy_node()
    with pytest.raises(InvalidHandle):
        node.get_name()


# ---------------------------------------------------------------------- the end


@pytest.mark.parametrize("case", ["idle", "deactivated", "busy", "without a bridge", "two robots", "in one process"])
def test_who_is_destroyed_leaves_the_graph_although_something_refers_to_it(graph: Graph, case: str) -> None:
    """Else a later test, or a process that goes on, finds a planner that does not answer."""
    ended = Graph(graph.domain_id)
    if case in ("without a bridge", "two robots"):
        planner = ended.planner(robots="tall,short" if case == "two robots" else "")
    else:
        planner = ended.household({"root": ["Act: open fridge 1"]}, world=HeldWorld(), composed=case[:2] == "in")
    if case == "busy":
        assert ended.task().accepted
    if case == "deactivated":
        planner.trigger_deactivate()
    ours = {node.get_name() for node in ended.nodes}
    graph.until(lambda: ours <= {*graph.probe.get_node_names()}, "they are there")
    kept = list(ended.nodes)
    ended.close()
    graph.until(lambda: not (ours - {"probe"}) & {*graph.probe.get_node_names()}, "they have gone")
    assert kept
