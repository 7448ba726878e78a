"""The skill policy, enforced by the bridge: allow, deny, and a person who confirms, refuses, or does not answer."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from doubles import ScriptedWorld

if importlib.util.find_spec("rclpy"):
    from action_msgs.msg import GoalStatus
    from rcl_interfaces.msg import Log
    from rclpy.lifecycle import TransitionCallbackReturn
    from reactree_interfaces.action import ExecuteSkill
    from reactree_interfaces.srv import AvailableSkills, ConfirmSkill, DescribeHousehold

    from reactree_ros.nodes.confirm import ConfirmNode

    Result = ExecuteSkill.Result

if TYPE_CHECKING:
    from processes import Processes
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
    assert (goal.status, goal.result.outcome) == (GoalStatus.STATUS_ABORTED, Result.WORLD_UNAVAILABLE)
    assert world.executed == []


# ---------------------------------------------------------------------- a policy that does not fit, skills on offer


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{skill: turn on, object: Stove, verdict: deny}", "'Stove' is nothing here; did you mean 'stove'?"),
        ("{skill: fly to, verdict: allow}", "'fly to' is no skill here; use one of go to, pick up, put down"),
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


# ---------------------------------------------------------------------- somebody who confirms


def test_a_policy_that_wants_a_person_where_nobody_answers_says_so_at_the_start(graph: Graph, policy: str) -> None:
    heard = graph.listen(Log, "/rosout")
    graph.bridge(ScriptedWorld(), policy=policy)
    nobody = (
        "nobody answers /confirm_skill: they are refused until somebody does, e.g. by `ros2 run reactree_ros confirm`"
    )
    graph.until(lambda: any(nobody in log.msg for log in heard), "it is said")


def test_a_policy_that_wants_a_person_who_is_there_says_nothing(graph: Graph, policy: str) -> None:
    Person(graph, approves=True)
    heard = graph.listen(Log, "/rosout")
    bridge = graph.bridge(ScriptedWorld(), policy=policy)
    graph.until(lambda: bridge._somebody_by is None, "it was looked for")
    assert not [log.msg for log in heard if "nobody answers" in log.msg]


class Terminal:
    """A terminal with a person at it, and the tool that asks there."""

    def __init__(self, graph: Graph, shown: pytest.CaptureFixture[str]) -> None:
        self._graph, self._shown, self._text = graph, shown, ""
        read, self._write = os.pipe()
        self._open = [read, self._write]
        self.node = graph.add(ConfirmNode(context=graph.context, terminal=read))

    def shows(self, text: str) -> None:
        """Wait until it shows something."""

        def there() -> bool:
            self._text += self._shown.readouterr().out
            return text in self._text

        self._graph.until(there, f"'{text}' is shown")

    def types(self, text: str) -> None:
        os.write(self._write, text.encode())

    def close(self) -> None:
        """Nobody types any more."""
        self._open.remove(self._write)
        os.close(self._write)

    def end(self) -> None:
        for one in self._open:
            os.close(one)


@pytest.fixture
def terminal(graph: Graph, capsys: pytest.CaptureFixture[str]) -> Iterator[Terminal]:
    terminal = Terminal(graph, capsys)
    yield terminal
    terminal.end()


QUESTION = "the skill policy says confirm for 'turn on stove'. May 'turn on stove 1' be carried out?"


@pytest.mark.parametrize(
    ("typed", "outcome", "message"),
    [
        ("y\n", "DONE", ""),
        ("Yes\n", "DONE", ""),
        ("\n", "REFUSED_BY_POLICY", "'turn on stove 1' was not approved: the person said no"),
        ("it is hot\n", "REFUSED_BY_POLICY", "'turn on stove 1' was not approved: it is hot"),
    ],
)
def test_the_person_at_the_terminal_decides(
    graph: Graph, policy: str, terminal: Terminal, typed: str, outcome: str, message: str
) -> None:
    graph.bridge(ScriptedWorld(), policy=policy)
    goal = graph.skill("turn on stove 1")
    terminal.shows(QUESTION)
    terminal.types(typed)
    assert goal.result.outcome == getattr(Result, outcome)
    assert message in goal.result.message


def test_what_was_typed_before_the_question_is_no_answer_to_it(graph: Graph, policy: str, terminal: Terminal) -> None:
    world = ScriptedWorld()
    graph.bridge(world, policy=policy)
    terminal.types("y\ny\n")
    goal = graph.skill("turn on stove 1")
    terminal.shows(QUESTION)
    terminal.types("no\n")
    assert goal.result.outcome == Result.REFUSED_BY_POLICY
    assert world.executed == []


def test_a_question_that_is_not_answered_in_time_is_a_no_and_the_next_one_is_put(
    graph: Graph, terminal: Terminal
) -> None:
    late = graph.call(ConfirmSkill, "confirm_skill", skill="turn on stove 1", reason="it is hot", seconds=0.2)
    assert (late.approved, late.message) == (False, "nobody answered within 0.2 s")
    answer = graph.send(ConfirmSkill, "confirm_skill", skill="open door 1", reason="it is cold", seconds=600.0)
    terminal.shows("it is cold. May 'open door 1' be carried out?")
    terminal.types("y\n")
    assert graph.wait(answer, "it is answered").approved


def test_a_terminal_that_is_closed_or_left_refuses(graph: Graph, policy: str, terminal: Terminal) -> None:
    graph.bridge(ScriptedWorld(), policy=policy)
    goal = graph.skill("turn on stove 1")
    terminal.shows(QUESTION)
    terminal.node.leave()
    assert goal.result.message.endswith("was not approved: the person has left.")
    terminal.close()
    assert graph.skill("turn on stove 1").result.message.endswith("was not approved: nobody is at the terminal.")
    assert terminal.node.nobody_is_there()


def test_the_tool_says_where_it_answers_and_that_nobody_is_at_the_terminal(processes: Processes) -> None:
    tool = processes.start("ros2", "run", "reactree_ros", "confirm", "--ros-args", "-r", "__ns:=/robot")
    assert tool.end() == 1
    assert "answers /robot/confirm_skill; Ctrl-C ends it" in tool.output
    assert "error: nobody is at the terminal; run it where somebody can type" in tool.output
