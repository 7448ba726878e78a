"""The bridge: skills, their cancellation and bounds, the services, the lifecycle."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from action_msgs.msg import GoalStatus
from doubles import START, ScriptedWorld
from rclpy.exceptions import InvalidParameterValueException
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, QoSProfile
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import Observation as ObservationMsg
from reactree_interfaces.msg import SkillEnded
from reactree_interfaces.srv import AvailableSkills, DescribeHousehold, EvaluateGoal, Observe, ResetWorld
from ros_graph import Graph, HeldWorld

from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.nodes.bridge.bridge_node import BridgeNode
from reactree_ros.nodes.messages import arguments_to_msgs
from reactree_ros.world.port import Observation, Outcome, Score, World, WorldError

Result = ExecuteSkill.Result
SERVICES = {
    "reset": ResetWorld,
    "observe": Observe,
    "available_skills": AvailableSkills,
    "evaluate": EvaluateGoal,
    "household": DescribeHousehold,
}


# ---------------------------------------------------------------------- skills


def test_the_result_of_every_goal_is_told_to_everybody(graph: Graph) -> None:
    world = ScriptedWorld(refused=["open fridge 1"])
    graph.bridge(world)
    told = graph.listen(SkillEnded, "household_bridge/skill_ended")
    done, refused = (Result.DONE, "", "You go to kitchen 1."), (Result.PRECONDITION, *["You cannot open fridge 1."] * 2)
    for skill, came, status in (
        ("go to kitchen 1", done, GoalStatus.STATUS_SUCCEEDED),
        ("open fridge 1", refused, GoalStatus.STATUS_ABORTED),
    ):
        goal = graph.skill(skill)
        result = goal.result
        assert (result.outcome, result.message, result.observation.text) == came
        assert (goal.status, result.skills) == (status, list(world.skills))
        graph.until(lambda skill=skill: any(end.skill == skill for end in told))
        assert bytes(told[-1].goal_id.uuid) == goal.id
        for field in ("outcome", "message", "observation", "skills"):
            assert getattr(told[-1], field) == getattr(result, field)
    assert len(told) == 2
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    heard = graph.listen(ObservationMsg, "/household_bridge/observation", latched)
    graph.until(lambda: heard)
    assert [msg.text for msg in heard] == ["You cannot open fridge 1."]  # the latest reaches who comes late


def test_one_skill_at_a_time_a_further_one_is_rejected(graph: Graph) -> None:
    world = HeldWorld()
    graph.bridge(world)
    first = graph.skill("open fridge 1")
    assert not graph.skill("go to kitchen 1").accepted
    graph.until(lambda: len(first.feedback) == 2)
    assert {(one.phase, one.fraction) for one in first.feedback} == {(ExecuteSkill.Feedback.EXECUTING, -1.0)}
    world.finish()
    assert first.result.outcome == Result.DONE
    assert world.executed == ["open fridge 1"]


class Faulty(ScriptedWorld):
    """Does one skill well, and fails in other ways at others."""

    def execute(self, skill: str) -> Pending[Observation]:
        if skill == "open fridge 1":
            return Pending.failed(WorldError("the simulator is gone"))
        if skill == "pick up cup 1":
            return Pending.ready(Observation("The cup slipped out of the gripper.", Outcome.POSTCONDITION))
        if skill == "go to kitchen 1":
            return super().execute(skill)
        raise RuntimeError("the driver is not loaded")

    def observe(self) -> Pending[Observation]:
        raise RuntimeError("the driver is not loaded")


def test_a_world_that_fails_is_named_and_the_bridge_lives_on(graph: Graph) -> None:
    graph.bridge(Faulty())
    for skill, outcome, message in (
        ("open fridge 1", Result.WORLD_UNAVAILABLE, "the simulator is gone"),
        ("turn on tv 1", Result.WORLD_UNAVAILABLE, "the driver is not loaded"),
        ("pick up cup 1", Result.POSTCONDITION, "The cup slipped out of the gripper."),
    ):
        goal = graph.skill(skill)
        assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, outcome)
        assert goal.result.message == message
    response = graph.call(Observe, "household_bridge/observe")
    assert (response.error_code, response.message) == (Observe.Response.WORLD_UNAVAILABLE, "the driver is not loaded")
    assert graph.skill("go to kitchen 1").result.outcome == Result.DONE


def test_a_skill_is_stopped_when_it_takes_too_long(graph: Graph) -> None:
    world = HeldWorld()
    graph.bridge(world, skill_timeout=0.2)
    goal = graph.skill("open fridge 1")
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.TIMEOUT)
    assert goal.result.message == "The skill was not carried out: took longer than 0.2 s and was stopped."
    assert world.cancelled == {"open fridge 1": 1}


def test_cancel_during_a_skill_stops_it_once(graph: Graph) -> None:
    world = HeldWorld()
    graph.bridge(world)
    goal = graph.skill("open fridge 1")
    graph.until(lambda: world.held)
    goal.cancel()
    goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    assert world.cancelled == {"open fridge 1": 1}
    assert goal.result.observation.text == "The skill was not carried out: canceled."
    again = graph.skill("go to kitchen 1")
    graph.until(lambda: "go to kitchen 1" in world.executed)
    world.finish()
    assert again.result.outcome == Result.DONE


@pytest.mark.parametrize("how", ["cancelled", "too late"])
def test_a_skill_that_does_not_stop_is_told_and_nothing_else_is_begun_meanwhile(graph: Graph, how: str) -> None:
    class Restless(HeldWorld):
        resting: Pending[None] = Pending()

        def at_rest(self) -> Pending[None]:
            return Pending() if not self.resting.done() else Pending.ready(None)

    world = Restless()
    world.resting = Pending()
    graph.bridge(world, stop_timeout=0.2, skill_timeout=0.2 if how == "too late" else 3600.0)
    goal = graph.skill("open fridge 1")
    graph.until(lambda: world.held or world.cancelled)
    if how == "cancelled":
        goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.WORLD_UNAVAILABLE)
    assert goal.result.message == "'open fridge 1' did not stop within 0.2 s"
    assert graph.skill("go to kitchen 1").result.outcome == Result.WORLD_UNAVAILABLE
    assert world.executed == ["open fridge 1"]
    world.resting.succeed(None)
    after = graph.skill("go to kitchen 1")
    graph.until(lambda: world.held)
    world.finish()
    assert after.result.outcome == Result.DONE


def test_a_declared_skill_is_carried_out_by_name_and_arguments_that_fit_its_words(graph: Graph) -> None:
    world = ScriptedWorld()
    graph.bridge(world)
    for name, arguments, said in (
        ("open", {"thing": ["fridge 2"]}, "name and arguments are 'open fridge 2', and not 'open fridge 1'"),
        ("close", {"thing": ["fridge 1"]}, "name and arguments are 'close fridge 1', and not 'open fridge 1'"),
        ("opn", {"thing": ["fridge 1"]}, "there is no skill named 'opn'; did you mean 'open'?"),
        ("open", {}, "thing: it is not said, but a thing (CAN_OPEN) has to be"),
        ("open", {"thing": ["fridge 1"], "by": ["1"]}, "'by' is not a parameter of 'open {thing}'"),
        ("open", {"thing": ["fridge 1", "fridge 2"]}, "thing: ['fridge 1', 'fridge 2'] may not stand here"),
        ("open", {"thing": []}, "thing: [] may not stand here"),
    ):
        goal = graph.skill("open fridge 1", name=name, arguments=arguments_to_msgs(arguments))
        assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.UNKNOWN_SKILL)
        assert said in goal.result.message
    assert world.executed == []
    for words in ("open fridge 1", ""):
        given = arguments_to_msgs({"thing": ["fridge 1"]})
        assert graph.skill(words, name="open", arguments=given).result.outcome == Result.DONE
    assert world.executed == ["open fridge 1"] * 2


# ---------------------------------------------------------------------- services


def test_the_services_say_what_the_world_says(graph: Graph) -> None:
    graph.bridge(ScriptedWorld(score=Score(0.0, 0.5, unmet=["apple on sofa"])))
    assert graph.call(Observe, "household_bridge/observe").observation.text == START
    survey = graph.call(Observe, "household_bridge/observe", everything=True)
    assert (survey.error_code, survey.message) == (
        Observe.Response.WORLD_UNAVAILABLE,
        "this world cannot say all there is in it; use a planner that looks around",
    )
    skills = graph.call(AvailableSkills, "household_bridge/available_skills")
    assert skills.skills == list(ScriptedWorld().skills)
    household = graph.call(DescribeHousehold, "household_bridge/household")
    assert (household.name, household.recallable) == ("wah_nl", list(ScriptedWorld.recallable))
    score = graph.call(EvaluateGoal, "household_bridge/evaluate")
    assert (score.has_goal, score.gsr, score.ssr, score.unmet) == (True, 0.0, 0.5, ["apple on sofa"])
    graph.bridge(ScriptedWorld(), name="aimless")
    score = graph.call(EvaluateGoal, "aimless/evaluate")
    assert (score.error_code, score.has_goal) == (EvaluateGoal.Response.NONE, False)


def test_reset_brings_a_house_to_its_task(graph: Graph) -> None:
    graph.bridge()
    graph.skill("go to kitchen 1").result  # noqa: B018 (waits)
    before = graph.call(Observe, "household_bridge/observe").observation.text
    reset = graph.call(ResetWorld, "household_bridge/reset", task_id=-1)
    assert reset.error_code == ResetWorld.Response.NONE
    assert reset.instruction
    assert reset.observation.text != before
    assert graph.call(Observe, "household_bridge/observe").observation.text != before
    again = graph.call(ResetWorld, "household_bridge/reset", task_id=reset.task_id)
    assert (again.instruction, again.task_name, again.task_id) == (reset.instruction, reset.task_name, reset.task_id)
    assert again.observation.text == reset.observation.text


def test_others_are_answered_while_a_task_takes_long_to_be_found(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked_for = threading.Event(), threading.Event()

    def change_task(self: BridgeNode, task_id: int) -> World | None:
        asked_for.set()
        assert found.wait(60)
        return None

    graph.bridge()
    monkeypatch.setattr(BridgeNode, "change_task", change_task)
    reset = graph.send(ResetWorld, "household_bridge/reset", task_id=1)
    graph.until(asked_for.is_set)
    assert graph.call(Observe, "household_bridge/observe").error_code == Observe.Response.NONE
    assert not reset.done()
    found.set()
    assert graph.wait(reset, "the bridge answers").error_code == ResetWorld.Response.UNKNOWN_TASK


def test_two_resets_at_a_time_are_each_told_their_own_task(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "house.json"
    file.write_text(json.dumps(generate_house(seed=9_000_000, tasks=2)), encoding="utf-8")
    change_task, changed, go_on = BridgeNode.change_task, threading.Event(), threading.Event()

    def slowly(self: BridgeNode, task_id: int) -> World | None:
        world = change_task(self, task_id)
        if task_id == 1:
            changed.set()
            assert go_on.wait(60)
        return world

    graph.bridge(tasks=str(file))
    alone = {one: graph.call(ResetWorld, "household_bridge/reset", task_id=one) for one in (1, 2)}
    assert alone[1].instruction != alone[2].instruction
    monkeypatch.setattr(BridgeNode, "change_task", slowly)
    first = graph.send(ResetWorld, "household_bridge/reset", task_id=1)
    graph.until(changed.is_set)
    second = graph.send(ResetWorld, "household_bridge/reset", task_id=2)
    graph.call(Observe, "household_bridge/observe")
    assert not second.done()
    go_on.set()
    for reset, number in ((first, 1), (second, 2)):
        told = graph.wait(reset, "the bridge answers")
        assert (told.task_id, told.instruction) == (number, alone[number].instruction)
        assert told.observation.text == alone[number].observation.text


@pytest.mark.parametrize("task_id", [99, -2])
def test_reset_to_an_unknown_task_is_refused_with_its_number(graph: Graph, task_id: int) -> None:
    graph.bridge()
    reset = graph.call(ResetWorld, "household_bridge/reset", task_id=task_id)
    assert reset.error_code == ResetWorld.Response.UNKNOWN_TASK
    assert str(task_id) in reset.message


# ---------------------------------------------------------------------- lifecycle


def test_an_inactive_bridge_carries_nothing_out_and_says_so(graph: Graph) -> None:
    world = HeldWorld()
    node = graph.bridge(world, active=False)
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    for name, kind in SERVICES.items():
        response = graph.call(kind, f"household_bridge/{name}")
        assert (response.error_code, response.message) == (response.NOT_ACTIVE, "the bridge is not active")
    assert not graph.skill("open fridge 1").accepted
    node.trigger_activate()
    goal = graph.skill("open fridge 1")
    graph.until(lambda: world.held)
    node.trigger_deactivate()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.WORLD_UNAVAILABLE)
    assert world.cancelled == {"open fridge 1": 1}
    assert not graph.skill("open fridge 1").accepted
    for step in ("cleanup", "configure", "activate"):
        assert getattr(node, f"trigger_{step}")() == TransitionCallbackReturn.SUCCESS
    again = graph.skill("go to kitchen 1")
    graph.until(lambda: world.held)
    world.finish()
    assert again.result.outcome == Result.DONE


def test_parameters_say_what_they_mean_are_bounded_and_read_only(graph: Graph) -> None:
    node = graph.bridge(ScriptedWorld())
    descriptions = {name: node.describe_parameter(name).description for name in ("world", "house", "skill_timeout")}
    assert all(descriptions.values()), descriptions
    (bounds,) = node.describe_parameter("skill_timeout").floating_point_range
    assert (bounds.from_value, bounds.to_value) == (0.1, 86400.0)
    (answer,) = node.set_parameters([Parameter("policy", value="")])
    assert not answer.successful
    with pytest.raises(InvalidParameterValueException, match="skill_timeout"):
        graph.bridge(skill_timeout=-1.0)


@pytest.mark.parametrize(
    ("parameter", "value", "said"),
    [
        ("scene", "FloorPlan1", "world 'virtualhome' has no such setting; it is one of ai2thor"),
        ("world", "virtualhom", "world 'virtualhom' is unknown; did you mean 'virtualhome'"),
    ],
)
def test_a_world_or_a_setting_that_is_not_there_is_refused_with_what_is_meant(
    graph: Graph, parameter: str, value: str, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        graph.bridge(**{parameter: value})


@pytest.mark.parametrize(
    ("parameter", "content"),
    [
        ("policy", "rules: [{skill: open, verdict: perhaps}]"),
        ("policy", None),
        ("house", "{}"),
        ("house", None),
        ("tasks", "[]"),
    ],
)
def test_configuring_with_a_bad_file_fails_and_can_be_repeated(
    graph: Graph, tmp_path: Path, parameter: str, content: str | None
) -> None:
    file = tmp_path / "file"
    if content is not None:
        file.write_text(content)
    node = graph.bridge(active=False, **{parameter: str(file)})
    assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
    good = Path(__file__).parents[2] / "config/skill_policy.yaml"
    if parameter != "policy":
        good = Path(__file__).parents[2] / "reactree_ros/household/houses/apartment.json"
    file.write_text(good.read_text())
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    assert graph.skill("go to kitchen 1").result.outcome == Result.DONE


def test_a_world_that_cannot_be_made_is_named_and_the_bridge_lives_on(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the driver is not loaded")

    node = graph.bridge(active=False)
    with monkeypatch.context() as patch:
        patch.setattr(SymbolicWorld, "__init__", broken)
        assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    task_id = graph.call(ResetWorld, "household_bridge/reset", task_id=-1).task_id
    with monkeypatch.context() as patch:
        patch.setattr(SymbolicWorld, "__init__", broken)
        reset = graph.call(ResetWorld, "household_bridge/reset", task_id=task_id)
    assert (reset.error_code, reset.message) == (ResetWorld.Response.WORLD_UNAVAILABLE, "the driver is not loaded")
    assert graph.call(ResetWorld, "household_bridge/reset", task_id=task_id).error_code == ResetWorld.Response.NONE
    assert graph.skill("go to kitchen 1").result.outcome == Result.DONE


@pytest.mark.parametrize("way", ["cleanup", "shutdown"])
def test_taken_down_in_the_midst_of_a_skill_and_of_a_look_the_bridge_stays_whole(graph: Graph, way: str) -> None:
    class Pensive(HeldWorld):
        def observe(self) -> Pending[Observation]:
            self.held.append((pending := Pending[Observation](), "look"))
            return pending

    world = Pensive()
    node = graph.bridge(world)
    graph.skill("open fridge 1")
    graph.send(Observe, "household_bridge/observe")
    graph.until(lambda: len(world.held) == 2)
    if way == "cleanup":
        node.trigger_deactivate()
        assert node.trigger_cleanup() == TransitionCallbackReturn.SUCCESS
    else:
        assert node.trigger_shutdown() == TransitionCallbackReturn.SUCCESS
    assert world.cancelled == {"open fridge 1": 1}
    world.finish()
    graph.until(node.stopped)
    assert graph.call(Observe, "household_bridge/observe").error_code == Observe.Response.NOT_ACTIVE
