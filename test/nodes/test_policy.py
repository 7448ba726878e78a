"""The skill policy, enforced by the bridge: allow, deny, and a person who confirms, refuses, or does not answer."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from doubles import ScriptedWorld

if importlib.util.find_spec("rclpy"):
    from action_msgs.msg import GoalStatus
    from reactree_interfaces.action import ExecuteSkill
    from reactree_interfaces.srv import ConfirmSkill

    Result = ExecuteSkill.Result

if TYPE_CHECKING:
    from ros_graph import Graph

pytestmark = pytest.mark.ros

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


class Person:
    """Answers what is to be confirmed, when told to.

    Attributes:
        asked: What was asked.
        thinks: Whether the answer is held back.
    """

    def __init__(self, graph: Graph, *, approves: bool, says: str = "", thinks: bool = False) -> None:
        self.asked: list[ConfirmSkill.Request] = []
        self._approves, self._says, self.thinks = approves, says, thinks
        self._node = graph.add_node("person", alone=True)
        self._node.create_service(ConfirmSkill, "confirm_skill", self._answer)
        if thinks:
            graph.halt(self._node)
        self._graph = graph

    def answers(self) -> None:
        """Let go of the answer."""
        self._graph.resume(self._node)

    def _answer(self, request: Any, response: Any) -> Any:
        self.asked.append(request)
        response.approved, response.message = self._approves, self._says
        return response


def test_what_a_rule_allows_is_carried_out(graph: Graph, policy: str) -> None:
    graph.bridge(ScriptedWorld(), policy=policy)
    assert graph.skill("pick up apple 1").result.outcome == Result.DONE


@pytest.mark.parametrize(
    ("skill", "reason"),
    [
        ("pick up cutlery knife 1", "the skill policy says deny for 'pick up cutlery knife'"),
        ("turn on tv 1", "the skill policy has no rule for 'turn on tv'"),
        ("open fridge 1", "the skill policy knows no skill like 'open fridge 1'"),
        ("dance", "the skill policy knows no skill like 'dance'"),
        ("", "the skill policy knows no skill like ''"),
    ],
)
def test_what_a_rule_denies_or_none_allows_is_refused(graph: Graph, policy: str, skill: str, reason: str) -> None:
    world = ScriptedWorld()
    graph.bridge(world, policy=policy)
    goal = graph.skill(skill)
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.REFUSED_BY_POLICY)
    assert goal.result.message == goal.result.observation.text == f"The skill was not carried out: {reason}."
    assert world.executed == []


def test_verb_and_target_do_not_lead_past_the_policy(graph: Graph, policy: str) -> None:
    world = ScriptedWorld()
    graph.bridge(world, policy=policy)
    goal = graph.skill("turn on tv 1", verb="pick up", target="apple 1")
    assert goal.result.outcome == Result.UNKNOWN_SKILL
    assert world.executed == []


def test_without_a_policy_every_skill_is_carried_out(graph: Graph) -> None:
    graph.bridge(ScriptedWorld())
    assert graph.skill("turn on tv 1").result.outcome == Result.DONE


def test_what_a_person_approves_is_carried_out(graph: Graph, policy: str) -> None:
    person = Person(graph, approves=True)
    graph.bridge(ScriptedWorld(), policy=policy, confirm_timeout=60.0)
    goal = graph.skill("turn on stove 1")
    assert goal.result.outcome == Result.DONE
    asked = person.asked[0]
    assert (asked.skill, asked.seconds) == ("turn on stove 1", 60.0)
    assert asked.reason == "the skill policy says confirm for 'turn on stove'"
    assert goal.feedback[0].phase == ExecuteSkill.Feedback.CONFIRMING


@pytest.mark.parametrize(("says", "reason"), [("it is hot", "it is hot"), ("", "no reason given")])
def test_what_a_person_refuses_is_not_carried_out(graph: Graph, policy: str, says: str, reason: str) -> None:
    Person(graph, approves=False, says=says)
    world = ScriptedWorld()
    graph.bridge(world, policy=policy)
    result = graph.skill("turn on stove 1").result
    assert (result.outcome, result.message) == (
        Result.REFUSED_BY_POLICY,
        f"The skill was not carried out: 'turn on stove 1' was not approved: {reason}.",
    )
    assert world.executed == []


def test_a_person_who_does_not_answer_in_time_refuses(graph: Graph, policy: str) -> None:
    person = Person(graph, approves=True, thinks=True)
    world = ScriptedWorld()
    graph.bridge(world, policy=policy, confirm_timeout=0.2)
    result = graph.skill("turn on stove 1").result
    assert (result.outcome, result.message) == (
        Result.REFUSED_BY_POLICY,
        "The skill was not carried out: nobody confirmed 'turn on stove 1' within 0.2 s.",
    )
    person.answers()
    graph.until(lambda: person.asked)
    assert graph.skill("pick up apple 1").result.outcome == Result.DONE
    assert world.executed == ["pick up apple 1"], "the late answer changes nothing"


def test_with_nobody_to_ask_it_is_refused(graph: Graph, policy: str) -> None:
    world = ScriptedWorld()
    graph.bridge(world, policy=policy, confirm_timeout=0.2)
    result = graph.skill("turn on stove 1").result
    assert result.outcome == Result.REFUSED_BY_POLICY
    assert "nobody could be asked about 'turn on stove 1': " in result.message
    assert "confirm_skill is not there (for 0.2 s)" in result.message
    assert world.executed == []


def test_cancel_while_a_person_is_asked_ends_it_at_once(graph: Graph, policy: str) -> None:
    person = Person(graph, approves=True, thinks=True)
    world = ScriptedWorld()
    graph.bridge(world, policy=policy, confirm_timeout=3600.0)
    goal = graph.skill("turn on stove 1")
    graph.until(lambda: goal.feedback)
    goal.cancel()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_CANCELED, Result.CANCELED)
    person.answers()
    graph.until(lambda: person.asked)
    assert graph.skill("pick up apple 1").result.outcome == Result.DONE
    assert world.executed == ["pick up apple 1"]


def test_what_is_approved_after_the_bridge_was_deactivated_is_not_carried_out(graph: Graph, policy: str) -> None:
    person = Person(graph, approves=True, thinks=True)
    world = ScriptedWorld()
    node = graph.bridge(world, policy=policy, confirm_timeout=3600.0)
    goal = graph.skill("turn on stove 1")
    graph.until(lambda: goal.feedback)
    node.trigger_deactivate()
    person.answers()
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.CANCELED)
    assert world.executed == []
