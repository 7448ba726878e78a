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


def test_a_skill_that_is_done_succeeds_with_what_is_seen_afterwards(graph: Graph) -> None:
    world = ScriptedWorld()
    graph.bridge(world)
    goal = graph.skill("open fridge 1")
    assert (goal.status, goal.result.outcome, goal.result.message) == (GoalStatus.STATUS_SUCCEEDED, Result.DONE, "")
    assert goal.result.observation.text == "You open fridge 1."
    assert goal.result.skills == list(world.skills)


def test_the_result_of_every_goal_is_told_to_everybody(graph: Graph) -> None:
    graph.bridge(ScriptedWorld(refused=["open fridge 1"]))
    told = graph.listen(SkillEnded, "household_bridge/skill_ended")
    for skill, outcome in (("go to kitchen 1", Result.DONE), ("open fridge 1", Result.PRECONDITION)):
        goal = graph.skill(skill)
        result = goal.result
        graph.until(lambda skill=skill: any(end.skill == skill for end in told))
        assert (told[-1].outcome, bytes(told[-1].goal_id.uuid)) == (outcome, goal.id)
        for field in ("outcome", "message", "observation", "skills"):
            assert getattr(told[-1], field) == getattr(result, field)
    assert len(told) == 2


def test_a_skill_that_lasts_says_that_it_is_being_carried_out(graph: Graph) -> None:
    world = HeldWorld()
    graph.bridge(world)
    goal = graph.skill("open fridge 1")
    graph.until(lambda: len(goal.feedback) == 2)
    assert {(one.phase, one.fraction) for one in goal.feedback} == {(ExecuteSkill.Feedback.EXECUTING, -1.0)}
    world.finish()
    assert goal.result.outcome == Result.DONE


def test_a_skill_that_the_world_refuses_aborts_with_the_worlds_words(graph: Graph) -> None:
    graph.bridge(ScriptedWorld(refused=["open fridge 1"]))
    goal = graph.skill("open fridge 1")
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.PRECONDITION)
    assert goal.result.message == goal.result.observation.text == "You cannot open fridge 1."


def test_a_world_that_fails_is_named_and_the_bridge_lives_on(graph: Graph) -> None:
    class Broken(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            if skill == "open fridge 1":
                return Pending.failed(WorldError("the simulator is gone"))
            return super().execute(skill)

    graph.bridge(Broken())
    goal = graph.skill("open fridge 1")
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.WORLD_UNAVAILABLE)
    assert goal.result.message == "the simulator is gone"
    assert graph.skill("go to kitchen 1").result.outcome == Result.DONE


def test_a_world_that_raises_is_named_and_the_bridge_lives_on(graph: Graph) -> None:
    class Raising(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            raise RuntimeError("the driver is not loaded")

        def observe(self) -> Pending[Observation]:
            raise RuntimeError("the driver is not loaded")

    graph.bridge(Raising())
    goal = graph.skill("open fridge 1")
    assert (goal.result.outcome, goal.result.message) == (Result.WORLD_UNAVAILABLE, "the driver is not loaded")
    response = graph.call(Observe, "household_bridge/observe")
    assert (response.error_code, response.message) == (Observe.Response.WORLD_UNAVAILABLE, "the driver is not loaded")
    assert graph.skill("open fridge 1").result.outcome == Result.WORLD_UNAVAILABLE


def test_a_skill_that_was_done_but_did_not_hold_aborts_and_says_so(graph: Graph) -> None:
    class Slippery(ScriptedWorld):
        def execute(self, skill: str) -> Pending[Observation]:
            return Pending.of(Observation("The cup slipped out of the gripper.", Outcome.POSTCONDITION))

    graph.bridge(Slippery())
    goal = graph.skill("pick up cup 1")
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.POSTCONDITION)
    assert goal.result.message == "The cup slipped out of the gripper."


def test_a_skill_is_stopped_when_it_takes_too_long(graph: Graph) -> None:
    world = HeldWorld()
    graph.bridge(world, skill_timeout=0.2)
    goal = graph.skill("open fridge 1")
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.TIMEOUT)
    assert goal.result.message == "The skill was not carried out: took longer than 0.2 s and was stopped."
    assert world.cancelled == {"open fridge 1": 1}


def test_one_skill_at_a_time_a_further_one_is_rejected(graph: Graph) -> None:
    world = HeldWorld()
    graph.bridge(world)
    first = graph.skill("open fridge 1")
    assert first.accepted
    assert not graph.skill("go to kitchen 1").accepted
    graph.until(lambda: world.held)
    world.finish()
    assert first.result.outcome == Result.DONE
    assert world.executed == ["open fridge 1"]


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
            return Pending() if not self.resting.done() else Pending.of(None)

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


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("open", '{"thing": "fridge 2"}', "name and arguments are 'open fridge 2', and not 'open fridge 1'"),
        ("close", '{"thing": "fridge 1"}', "name and arguments are 'close fridge 1', and not 'open fridge 1'"),
        ("opn", '{"thing": "fridge 1"}', "there is no skill named 'opn'; did you mean 'open'?"),
        ("open", "", "thing: it is not said, but a thing (CAN_OPEN) has to be"),
        ("open", '{"thing": "fridge 1", "by": 1}', "'by' is no parameter of 'open {thing}'"),
        ("open", "[", "Expecting value"),
    ],
)
def test_name_and_arguments_that_do_not_fit_the_words_are_refused(
    graph: Graph, name: str, arguments: str, said: str
) -> None:
    world = ScriptedWorld()
    graph.bridge(world)
    goal = graph.skill("open fridge 1", name=name, arguments=arguments)
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.UNKNOWN_SKILL)
    assert said in goal.result.message
    assert world.executed == []


@pytest.mark.parametrize("words", ["open fridge 1", ""])
def test_a_declared_skill_is_carried_out_by_name_and_arguments(graph: Graph, words: str) -> None:
    world = ScriptedWorld()
    graph.bridge(world)
    assert graph.skill(words, name="open", arguments='{"thing": "fridge 1"}').result.outcome == Result.DONE
    assert world.executed == ["open fridge 1"]


# ---------------------------------------------------------------------- services


def test_the_services_say_what_the_world_says(graph: Graph) -> None:
    graph.bridge(ScriptedWorld(score=Score(0.0, 0.5)))
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
    assert (score.has_goal, score.gsr, score.ssr) == (True, 0.0, 0.5)


def test_a_world_without_a_goal_has_no_score(graph: Graph) -> None:
    graph.bridge(ScriptedWorld())
    score = graph.call(EvaluateGoal, "household_bridge/evaluate")
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


def test_the_latest_observation_reaches_who_comes_late(graph: Graph) -> None:
    graph.bridge(ScriptedWorld())
    graph.skill("go to kitchen 1").result  # noqa: B018 (waits)
    graph.skill("open fridge 1").result  # noqa: B018 (waits)
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    heard = graph.listen(ObservationMsg, "/household_bridge/observation", latched)
    graph.until(lambda: heard)
    assert [msg.text for msg in heard] == ["You open fridge 1."]


# ---------------------------------------------------------------------- lifecycle


@pytest.mark.parametrize("name", ["reset", "observe", "available_skills", "evaluate", "household"])
def test_services_of_an_inactive_bridge_say_so(graph: Graph, name: str) -> None:
    node = graph.bridge(ScriptedWorld(), active=False)
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    response = graph.call(SERVICES[name], f"household_bridge/{name}")
    assert (response.error_code, response.message) == (response.NOT_ACTIVE, "the bridge is not active")


def test_an_inactive_bridge_rejects_skills(graph: Graph) -> None:
    node = graph.bridge(ScriptedWorld(), active=False)
    node.trigger_configure()
    assert not graph.skill("open fridge 1").accepted
    node.trigger_activate()
    assert graph.skill("open fridge 1").result.outcome == Result.DONE


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


def test_a_bridge_can_be_cleaned_up_and_brought_up_again(graph: Graph) -> None:
    node = graph.bridge()
    for transition in (node.trigger_deactivate, node.trigger_cleanup, node.trigger_configure, node.trigger_activate):
        assert transition() == TransitionCallbackReturn.SUCCESS
    assert graph.skill("go to kitchen 1").result.outcome == Result.DONE


def test_deactivating_during_a_skill_stops_it(graph: Graph) -> None:
    world = HeldWorld()
    node = graph.bridge(world)
    goal = graph.skill("open fridge 1")
    graph.until(lambda: world.held)
    node.trigger_deactivate()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.WORLD_UNAVAILABLE)
    assert world.cancelled == {"open fridge 1": 1}
    assert not graph.skill("open fridge 1").accepted


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


def test_parameters_out_of_range_are_refused(graph: Graph) -> None:
    with pytest.raises(InvalidParameterValueException, match="skill_timeout"):
        graph.bridge(skill_timeout=-1.0)


def test_parameters_are_read_only(graph: Graph) -> None:
    node = graph.bridge(ScriptedWorld())
    (answer,) = node.set_parameters([Parameter("policy", value="")])
    assert not answer.successful


def test_a_setting_of_another_world_is_refused_with_what_it_belongs_to(graph: Graph) -> None:
    with pytest.raises(
        UserError, match=r"scene is 'FloorPlan1', but world 'virtualhome' has no such setting; it is one of ai2thor"
    ):
        graph.bridge(scene="FloorPlan1")


def test_an_unknown_world_is_refused_with_what_could_be_meant(graph: Graph) -> None:
    with pytest.raises(UserError, match="world 'virtualhom' is unknown; did you mean 'virtualhome'"):
        BridgeNode(context=graph.context, parameter_overrides=[Parameter("world", value="virtualhom")])


def test_every_parameter_says_what_it_means(graph: Graph) -> None:
    node = graph.bridge(ScriptedWorld())
    descriptions = {name: node.describe_parameter(name).description for name in ("world", "house", "skill_timeout")}
    assert all(descriptions.values()), descriptions
    (bounds,) = node.describe_parameter("skill_timeout").floating_point_range
    assert (bounds.from_value, bounds.to_value) == (0.1, 86400.0)
