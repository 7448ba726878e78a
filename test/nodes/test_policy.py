"""The skill policy, enforced by the bridge: allow, deny, and a person who confirms, refuses, or does not answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from action_msgs.msg import GoalStatus
from doubles import ScriptedWorld
from people import BRIDGE, Answerer, Stubborn
from rcl_interfaces.msg import Log
from rclpy.lifecycle import TransitionCallbackReturn
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.srv import AvailableSkills, DescribeHousehold
from ros_graph import Goal, Graph

from reactree_ros.errors import UserError
from reactree_ros.nodes.messages import arguments_to_msgs
from reactree_ros.nodes.people.ros_person import HINT
from reactree_ros.person.port import Answer

Result = ExecuteSkill.Result


POLICY = """
rules:
  - {skill: turn on, object: stove, verdict: confirm}
  - {skill: pick up, object: cutlery knife, verdict: deny}
  - {skill: pick up, verdict: allow}
"""


@pytest.fixture
def policy(tmp_path: Path) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return str(file)


def refused(reason: str) -> tuple[int, str]:
    return Result.REFUSED_BY_POLICY, f"The skill was not carried out: {reason}."


def end(goal: Goal) -> tuple[int, str]:
    return goal.result.outcome, goal.result.message


def test_what_a_rule_allows_is_carried_out_and_nothing_else(graph: Graph, policy: str) -> None:
    world = ScriptedWorld()
    graph.bridge(world, policy=policy)
    for skill, reason in (
        ("pick up cutlery knife 1", "the skill policy says deny for 'pick up cutlery knife'"),
        ("turn on tv 1", "the skill policy has no rule for 'turn on tv'"),
        ("open fridge 1", "the skill policy has no rule for 'open fridge'"),
        ("dance", "the skill policy knows no skill like 'dance'"),
        ("", "the skill policy knows no skill like ''"),
    ):
        goal = graph.skill(skill)
        assert (goal.status, *end(goal)) == (GoalStatus.STATUS_ABORTED, *refused(reason))
        assert goal.result.message == goal.result.observation.text
    past = graph.skill("turn on tv 1", name="pick up", arguments=arguments_to_msgs({"thing": ["apple 1"]}))
    assert past.result.outcome == Result.UNKNOWN_SKILL
    assert world.executed == []
    assert graph.skill("pick up apple 1").result.outcome == Result.DONE
    graph.bridge(ScriptedWorld(), name="free")
    assert graph.skill("turn on tv 1", to="free").result.outcome == Result.DONE


def test_what_a_person_does_not_approve_in_so_many_words_is_not_carried_out(graph: Graph, policy: str) -> None:
    person, world = Stubborn(graph, BRIDGE), ScriptedWorld()
    graph.bridge(world, policy=policy)
    nos = "no", "n", "yes, but it is hot", "yes yes", "y\nyes", "yesterday", "ok", "sure", "stop", "turn on stove 1"
    for number, says in enumerate(nos, 1):
        goal = graph.skill("turn on stove 1")
        graph.until(lambda number=number: len(person.asked) == number, "it is asked")
        person.says(says)
        assert end(goal) == refused(f"'turn on stove 1' was not approved: \"{' '.join(says.split())}\"")
    assert world.executed == []


@pytest.mark.parametrize("yes", ["y", "yes", " Yes! "])
def test_what_a_person_approves_is_carried_out(graph: Graph, policy: str, yes: str) -> None:
    person = Answerer(graph, BRIDGE)
    graph.bridge(ScriptedWorld(), policy=policy, confirm_timeout=60.0)
    goal = graph.skill("turn on stove 1")
    asked = person.is_asked().question
    text = "May 'turn on stove 1' be carried out?"
    assert (asked.text, asked.skill, asked.asker) == (text, "turn on stove 1", BRIDGE)
    assert asked.goal == "the skill policy says confirm for 'turn on stove'"
    assert asked.seconds == pytest.approx(60.0, abs=5.0)
    person.says(yes)
    assert goal.result.outcome == Result.DONE
    assert goal.feedback[0].phase == ExecuteSkill.Feedback.CONFIRMING


def test_a_person_who_does_not_answer_in_time_refuses_and_a_late_yes_is_none(graph: Graph, policy: str) -> None:
    person, world = Stubborn(graph, BRIDGE), ScriptedWorld()
    graph.bridge(world, policy=policy, confirm_timeout=0.5)
    goal = graph.skill("turn on stove 1")
    assert end(goal) == refused("nobody could be asked about 'turn on stove 1': nobody answered within 0.5 s")
    graph.until(lambda: person.asked, "it was asked")
    person.says("yes")
    assert graph.skill("pick up apple 1").result.outcome == Result.DONE
    assert world.executed == ["pick up apple 1"], "the late answer changes nothing"


def test_with_nobody_to_ask_it_is_refused_at_once_and_said_at_the_start(graph: Graph, policy: str) -> None:
    world, heard = ScriptedWorld(), graph.listen(Log, "/rosout")
    graph.bridge(world, policy=policy, confirm_timeout=3600.0)
    nobody = f"nobody answers {BRIDGE}/ask_person"
    reason = f"nobody could be asked about 'turn on stove 1': {nobody}; {HINT}"
    assert end(graph.skill("turn on stove 1")) == refused(reason)
    assert world.executed == []
    warned = f"{nobody}: they are refused until somebody does; `reactree robot answer`"
    graph.until(lambda: any(warned in log.msg for log in heard), "it is said")


def test_a_late_yes_is_none_to_the_next_skill_nor_to_the_same_one_again(graph: Graph, policy: str) -> None:
    person, world = Stubborn(graph, BRIDGE), ScriptedWorld(skills=("turn on stove 1", "turn on stove 2"))
    heard = graph.listen(Log, "/rosout")
    bridge = graph.bridge(world, policy=policy, confirm_timeout=600.0)
    for number, skill in enumerate(("turn on stove 1", "turn on stove 2", "turn on stove 1"), 1):
        goal = graph.skill(skill)
        graph.until(lambda number=number: len(person.asked) == number, "it is asked")
        if number < 3:
            goal.cancel()
            assert goal.result.outcome == Result.CANCELED
    person.says("yes", to=0)
    person.says("yes", to=1)
    graph.until(lambda: not bridge._person._over, "all was said of those that were canceled")
    assert world.executed == []
    person.says("no")
    assert goal.result.outcome == Result.REFUSED_BY_POLICY
    assert world.executed == []
    graph.until(lambda: bridge._skills._person_by is None, "it was looked for who confirms")
    assert not [log.msg for log in heard if "nobody answers" in log.msg]


def test_cancel_while_a_person_is_asked_ends_it_at_once_and_takes_the_question_back(graph: Graph, policy: str) -> None:
    person, world = Answerer(graph, BRIDGE), ScriptedWorld()
    graph.bridge(world, policy=policy, confirm_timeout=3600.0)
    goal = graph.skill("turn on stove 1")
    one = person.is_asked()
    goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    graph.until(one.answer.cancelled, "it is taken back")
    with pytest.raises(UserError, match="not open any more"):
        person.desk.answer(one.number, "yes")
    assert graph.skill("pick up apple 1").result.outcome == Result.DONE
    assert world.executed == ["pick up apple 1"]


def test_what_is_approved_after_the_bridge_was_deactivated_is_not_carried_out(graph: Graph, policy: str) -> None:
    person, world = Stubborn(graph, BRIDGE), ScriptedWorld()
    node = graph.bridge(world, policy=policy, confirm_timeout=3600.0)
    goal = graph.skill("turn on stove 1")
    graph.until(lambda: person.asked, "it is asked")
    node.trigger_deactivate()
    person.says("yes")
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.WORLD_UNAVAILABLE)
    assert world.executed == []


def test_a_yes_of_another_bridge_is_none_here(graph: Graph, policy: str) -> None:
    person = Answerer(graph, "/robot_1/household_bridge", "/robot_2/household_bridge")
    worlds = {name: ScriptedWorld() for name in ("robot_1", "robot_2")}
    for name, world in worlds.items():
        graph.bridge(world, namespace=name, policy=policy, confirm_timeout=600.0)
    goals = [graph.skill("turn on stove 1", to=f"{name}/household_bridge") for name in worlds]
    graph.until(lambda: len(person.desk.open) == 2, "both ask")
    person.says("yes", of="robot_2")
    assert goals[1].result.outcome == Result.DONE
    assert worlds["robot_1"].executed == []
    person.says("no", of="robot_1")
    assert goals[0].result.outcome == Result.REFUSED_BY_POLICY
    assert worlds["robot_1"].executed == []


def test_of_a_no_and_a_yes_what_came_first_counts(graph: Graph, policy: str) -> None:
    world = ScriptedWorld()
    graph.bridge(world, policy=policy, confirm_timeout=600.0)
    careful, hasty = Answerer(graph, BRIDGE, name="careful"), Answerer(graph, BRIDGE, name="hasty", alone=True)
    goal = graph.skill("turn on stove 1")
    one, other = careful.is_asked(), hasty.is_asked()
    graph.halt(hasty.node)
    careful.desk.answer(one.number, "no")
    assert other.answer.succeed(Answer("yes"))
    assert goal.result.outcome == Result.REFUSED_BY_POLICY
    graph.resume(hasty.node)
    graph.until(lambda: hasty.answering.idle, "the yes has been said")
    assert graph.skill("pick up apple 1").result.outcome == Result.DONE
    assert world.executed == ["pick up apple 1"]


# ---------------------------------------------------------------------- a policy that does not fit, skills on offer


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{skill: turn on, object: Stove, verdict: deny}", "'Stove' is nothing here; did you mean 'stove'?"),
        ("{skill: fly to, verdict: allow}", "'fly to' is not a skill here; use one of go to, pick up, put down"),
    ],
)
def test_a_policy_that_does_not_fit_the_bridges_world_is_refused_at_the_start(
    graph: Graph, tmp_path: Path, rule: str, said: str
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(f"rules: [{rule}]")
    heard = graph.listen(Log, "/rosout")
    node = graph.bridge(policy=str(file), active=False)
    assert node.trigger_configure() == TransitionCallbackReturn.FAILURE
    graph.until(lambda: any(f"{file}: rules.0." in log.msg and said in log.msg for log in heard), "it says why")


def test_what_the_policy_denies_is_not_offered(graph: Graph, policy: str) -> None:
    world = ScriptedWorld(skills=["pick up cutlery knife 1", "pick up apple 1", "turn on stove 1", "go to kitchen 1"])
    graph.bridge(world, policy=policy)
    offered = ["pick up apple 1", "turn on stove 1"]
    assert graph.call(AvailableSkills, "household_bridge/available_skills").skills == offered
    assert graph.skill("pick up apple 1").result.skills == offered
    assert graph.call(DescribeHousehold, "household_bridge/household").actions == ["pick up", "turn on"]
