"""What a tree of XML does with its blackboard: what skills return comes to later ones, and scripts choose."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedWorld

from reactree_doors.trees.xml_in import read_routine, routine_of_xml
from reactree_doors.trees.xml_out import xml_of
from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import Boolean, List, Number, Text
from reactree_ros.agent.skill import Skill
from reactree_ros.background.pending import Pending, where_late
from reactree_ros.errors import UserError
from reactree_ros.files.xml import LARGEST_XML
from reactree_ros.routine.fitting import Fit
from reactree_ros.routine.model import RoutineError
from reactree_ros.routine.skills import carried_out
from reactree_ros.world.port import Observation, Outcome

SKILLS = (
    Skill(
        name="measure",
        wording="measure",
        returns={"metres": Number(0, 5, 0.1), "ok": Boolean(), "path": List(Number(0, 9))},
    ),
    Skill(name="drive", wording="drive {metres} m", parameters={"metres": Number(0, 5, 0.1)}),
    Skill(name="set", wording="set it to {so}", parameters={"so": Boolean()}),
    Skill(name="follow", wording="follow {path}", parameters={"path": List(Number(0, 9))}),
    Skill(name="say", wording="say {text}", parameters={"text": Text(default="hello")}),
    *(Skill(name=name, wording=name) for name in "abcde"),
    Skill(name="Look at table", wording="look at the table"),
)
RETURNED = {"metres": 1.5, "ok": True, "path": (1, 2)}


class Robot(ScriptedWorld):
    household = Household(name="robot", skills=SKILLS)

    def __init__(self, failing: str = "", data: Mapping[str, Any] = RETURNED, seconds: float = 0.0) -> None:
        super().__init__(settle=not seconds)
        self._seconds = seconds
        self._failing, self._data = {one: int(times) for one, times in re.findall(r"(\w)(\d+)", failing)}, data

    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        self._failing[skill] = self._failing.get(skill, 0) - 1
        outcome = Outcome.EXECUTION if self._failing[skill] >= 0 else Outcome.DONE
        pending = self._pending(skill, seen := Observation(f"{skill}: {outcome.value}", outcome, data=self._data))
        if self._seconds:
            where_late(pending, self._seconds, lambda late: late.succeed(seen))
        return pending


def text_of(body: str, more: str = "", version: str = ' BTCPP_format="4"') -> str:
    return f'<root{version} main_tree_to_execute="main"><BehaviorTree ID="main">{body}</BehaviorTree>{more}</root>'


def done(text: str, failing: str = "", data: Mapping[str, Any] = RETURNED, seconds: float = 0.0) -> str:
    """Return what was asked of the robot, and how it ended; what is written of the tree does the same."""
    routine = routine_of_xml(text, SKILLS, goal="do it")
    assert routine_of_xml(xml_of(routine, SKILLS), SKILLS) == routine
    robot = Robot(failing, data, seconds)
    came = carried_out(Fit(routine, {}), robot).result(20)
    return ", ".join([*robot.executed, "yes" if came.outcome is Outcome.DONE else "no"])


def sequence(*nodes: str) -> str:
    return f"<Sequence>{''.join(nodes)}</Sequence>"


def either(*nodes: str) -> str:
    return f"<Fallback>{''.join(nodes)}</Fallback>"


def rated(hz: str) -> str:
    return f'<RateController hz="{hz}"><a/></RateController>'


def sets(code: str) -> str:
    return f"<Script code='{code}'/>"


ONE = sets("x := 1")
LAST = "<ScriptCondition code='n &lt; 3'/>"
WAITS = "<Sleep msec='150'/>"
KEPT = "<SequenceWithMemory><a/><b/></SequenceWithMemory>"
BCD = "<Sequence><b/><c/><d/></Sequence>"
SWITCH = '<Switch2 variable="{x}" case_1="1" case_2="on"><a/><b/><c/></Switch2>'
COUNTS = f"<KeepRunningUntilFailure>{sequence('<a/>', sets('n += 1'), LAST)}</KeepRunningUntilFailure>"


@pytest.mark.parametrize(
    ("body", "failing", "does"),
    [
        (sequence('<measure metres="{m}"/>', '<drive metres="{m}"/>'), "", "measure, drive 1.5 m, yes"),
        (
            sequence('<measure ok="{so}" path="{p}"/>', '<set so="{so}"/>', '<follow path="{p}"/>'),
            "",
            "measure, set it to yes, follow 1 and 2, yes",
        ),
        (sequence('<measure metres="{m}"/>', sets("m *= 2"), '<drive metres="{m}"/>'), "", "measure, drive 3 m, yes"),
        (sequence('<SetBlackboard output_key="m" value="2.5"/>', '<drive metres="{m}"/>'), "", "drive 2.5 m, yes"),
        (
            sequence(
                '<SetBlackboard output_key="{w}" value="so"/>',
                '<SetBlackboard output_key="v" value="{w}"/>',
                '<say text="{v}"/>',
            ),
            "",
            "say so, yes",
        ),
        ("<say/>", "", "say hello, yes"),
        ('<SubTree ID="Look at table"/>', "", "look at the table, yes"),
        (sequence(ONE, "<a _skipIf='x == 1'/>", "<b/>"), "", "b, yes"),
        (sequence(ONE, either("<a _skipIf='x == 1'/>", "<b/>")), "", "b, yes"),
        (sequence(ONE, "<Inverter><a _skipIf='x == 1'/></Inverter>", "<b/>"), "", "b, yes"),
        (sequence(ONE, "<a _successIf='x == 1'/>", "<b _failureIf='x == 1'/>", "<c/>"), "", "no"),
        (sequence(ONE, "<a _while='x == 1'/>", "<b _while='x == 2'/>", "<c/>"), "", "a, c, yes"),
        (sequence(ONE, "<a _onSuccess='x := 2' _post='x += 1'/>", "<b _skipIf='x == 3'/>"), "", "a, yes"),
        (sequence(ONE, either("<a _onFailure='x := 2' _post='x += 1'/>", "<b _skipIf='x != 3'/>")), "a1", "a, b, yes"),
        (sequence(ONE, "<ScriptCondition code='x &gt; 1'/>", "<a/>"), "", "no"),
        (sequence(ONE, "<Precondition if='x == 2' else='SUCCESS'><a/></Precondition>", "<b/>"), "", "b, yes"),
        (sequence(ONE, "<Precondition if='x == 2'><a/></Precondition>", "<b/>"), "", "no"),
        ("<IfThenElse><a/><b/><c/></IfThenElse>", "", "a, b, yes"),
        ("<IfThenElse><a/><b/><c/></IfThenElse>", "a1", "a, c, yes"),
        ("<IfThenElse><a/><b/><c/></IfThenElse>", "b1", "a, b, no"),
        ("<IfThenElse><a/><b/></IfThenElse>", "a1", "a, no"),
        (sequence(ONE, "<WhileDoElse><ScriptCondition code='x == 1'/><a/></WhileDoElse>"), "", "a, yes"),
        ("<TryCatch><a/><b/><c/></TryCatch>", "", "a, b, yes"),
        ("<TryCatch><a/><b/><c/></TryCatch>", "a1", "a, c, no"),
        (sequence(sets("n := 0"), COUNTS), "", "a, a, a, no"),
        ('<LoopDouble queue="1;0.5" value="{m}"><drive metres="{m}"/></LoopDouble>', "", "drive 1 m, drive 0.5 m, yes"),
        ('<RecoveryNode number_of_retries="2"><a/><b/></RecoveryNode>', "", "a, yes"),
        ('<RecoveryNode number_of_retries="2"><a/><b/></RecoveryNode>', "a1", "a, b, a, yes"),
        ('<RecoveryNode number_of_retries="2"><a/><b/></RecoveryNode>', "a9", "a, b, a, b, a, no"),
        ('<RecoveryNode number_of_retries="2"><a/><b/></RecoveryNode>', "a9b1", "a, b, no"),
        ('<RateController hz="1.0"><a/></RateController>', "", "a, yes"),
        (
            '<RecoveryNode number_of_retries="4"><a/><RoundRobin><b/><c/></RoundRobin></RecoveryNode>',
            "a3c1",
            "a, b, a, c, b, a, c, a, yes",
        ),
        ("<Inverter><RoundRobin><b/><c/></RoundRobin></Inverter>", "b1c1", "b, c, yes"),
        (
            f'<RetryUntilSuccessful num_attempts="3">{KEPT}</RetryUntilSuccessful>',
            "b2",
            "a, b, b, b, yes",
        ),
        (sequence(sets("n := 2"), '<Repeat num_cycles="{n}"><a/></Repeat>', "<b/>"), "", "a, a, b, yes"),
        (sequence(sets("n := 2"), '<Repeat num_cycles="{n}"><a/></Repeat>', "<b/>"), "a1", "a, no"),
        *((sequence(sets(f"x := {x}"), SWITCH), "", f"{does}, yes") for x, does in ((1, "a"), ('"on"', "b"), (3, "c"))),
        ('<Delay delay_msec="1"><a/></Delay>', "", "a, yes"),
        (
            sequence(sets("n := 0"), f'<Repeat num_cycles="3">{sets("n += 1")}</Repeat>', '<drive metres="{n}"/>'),
            "",
            "drive 3 m, yes",
        ),
    ],
)
def test_a_tree_does_what_its_nodes_and_scripts_say(body: str, failing: str, does: str) -> None:
    assert done(text_of(body), failing) == does


@pytest.mark.parametrize(
    ("body", "failing", "does"),
    [
        (f"<PipelineSequence><a/>{BCD}</PipelineSequence>", "", "a, b, a, c, a, d, yes"),
        (f"<PipelineSequence><a/>{BCD}</PipelineSequence>", "b1", "a, b, no"),
        (f"<PipelineSequence>{rated('0.01')}{BCD}</PipelineSequence>", "", "a, b, c, d, yes"),
        (
            f"<PipelineSequence>{rated('500')}<Sequence><b/>{WAITS}<c/></Sequence></PipelineSequence>",
            "",
            "a, b(, a)+, c.*",
        ),
        (f'<ReactiveFallback><Condition ID="a"/>{BCD}</ReactiveFallback>', "a2", "a, b, a, c, a, yes"),
        (f'<ReactiveSequence><Condition ID="a"/>{BCD}</ReactiveSequence>', "", "a, b, a, c, a, d, yes"),
    ],
)
def test_what_is_done_again_waits_for_a_skill_and_breaks_nothing_off(body: str, failing: str, does: str) -> None:
    assert re.fullmatch(does, done(text_of(body), failing, seconds=0.01))


def test_what_is_done_again_runs_beside_a_skill_that_uses_something_else_and_may_break_it_off() -> None:
    class Parted(Robot):
        household = Household(
            name="robot", skills=tuple(Skill(name=one, wording=one, uses=frozenset({one})) for one in "ab")
        )

    text = text_of('<ReactiveFallback><Condition ID="a"/><b/></ReactiveFallback>')
    robot = Parted("a1", seconds=60)
    came = carried_out(Fit(routine_of_xml(text, robot.household.skills, goal="do it"), {}), robot)
    robot.settle_all()
    assert (robot.executed, robot.cancelled["b"], came.done()) == (["a", "b", "a"], 0, False)
    looked, seen = robot.in_flight[-1]
    looked.succeed(seen)
    assert (robot.executed, robot.cancelled["b"]) == (["a", "b", "a"], 1)
    assert came.result(20).outcome is Outcome.DONE


def test_a_subtree_has_a_blackboard_of_its_own_but_for_what_it_is_given() -> None:
    tree = sequence(sets("m := m + 1; own := 5; @top := 2"), '<drive metres="{m}"/>')
    more = f'<BehaviorTree ID="s">{tree}</BehaviorTree><BehaviorTree ID="t"><drive metres="{{m}}"/></BehaviorTree>'
    sub = '<SubTree ID="s" m="{x}"/>'
    assert (
        done(text_of(sequence(ONE, sub, sub, '<drive metres="{top}"/>'), more))
        == "drive 2 m, drive 3 m, drive 2 m, yes"
    )
    with pytest.raises(RoutineError, match=re.escape("'{own}' is not a role, and nothing sets it or finds it")):
        done(text_of(sequence(ONE, sub, '<drive metres="{own}"/>'), more))
    with pytest.raises(RoutineError, match=r"'\{m\}' stands for 3 already, and cannot be set"):
        done(text_of(sequence(ONE, '<SubTree ID="s" m="3"/>'), more))
    shared = sequence(
        sets("m := 1"), '<SubTree ID="t" _autoremap="1"/>', '<SubTree ID="t" m="3"/>', '<SubTree ID="t" m="{=}"/>'
    )
    assert done(text_of(shared, more)) == "drive 1 m, drive 3 m, drive 1 m, yes"


def test_a_file_of_version_3_is_read() -> None:
    more = '<BehaviorTree ID="s"><drive metres="{m}"/></BehaviorTree>'
    checked = '<BlackboardCheckDouble value_A="{x}" value_B="1.5" return_on_mismatch="SUCCESS">'
    body = sequence(
        '<SetBlackboard output_key="x" value="1.5"/>',
        '<SubTree ID="s" m="x"/>',
        '<SubTreePlus ID="s" m="2" __autoremap="false"/>',
        '<RetryUntilSuccesful num_attempts="2"><a/></RetryUntilSuccesful>',
        f"{checked}<b/></BlackboardCheckDouble>",
        f"{checked.replace('1.5', '2')}<c/></BlackboardCheckDouble>",
    )
    assert done(text_of(body, more, ""), "a1") == "drive 1.5 m, drive 2 m, a, a, b, yes"


def test_a_file_of_py_trees_is_read(tmp_path: Path) -> None:
    """Its words for nodes, its ports that a tree has values for, and its imports."""
    tree = '<BehaviorTree ID="s" m="0.5"><drive metres="{m}"/></BehaviorTree>'
    (tmp_path / "other.xml").write_text(f"<root>{tree}</root>")
    nodes = '<a/><FailureIsSuccess><b/></FailureIsSuccess><Retry num_failures="2"><c/></Retry><SubTree ID="s"/>'
    timed = '<Timeout duration="5.0"><d/></Timeout>'
    body = f'<selector memory="true">{sequence(nodes, timed)}<e/></selector>'
    path = tmp_path / "tree.xml"
    path.write_text(text_of(body, '<Import src="other.xml"/>', ""))
    robot = Robot("b1c1d1")
    assert carried_out(Fit(read_routine(path, SKILLS, goal="do it"), {}), robot).result(20).outcome is Outcome.DONE
    assert robot.executed == ["a", "b", "c", "c", "drive 0.5 m", "d", "e"]


def test_what_the_goal_names_is_given_by_whoever_asks() -> None:
    tree = '<Sequence><drive metres="{far}"/><say text="{words}"/></Sequence>'
    routine = routine_of_xml(text_of(tree), SKILLS, goal="drive {far} and say {words}")
    assert [(role.name, role.kind) for role in routine.roles] == [("far", "number"), ("words", "text")]
    assert routine_of_xml(text_of(tree), SKILLS, goal=None).goal == "do it and {far} and {words}"


@pytest.mark.parametrize(
    ("body", "data", "does"),
    [
        (either(sequence(sets('m := "x"'), sets("m += 1"), "<a/>"), "<b/>"), RETURNED, "no"),  # it is not a failure
        (sequence('<measure metres="{m}"/>', "<a/>"), {}, "measure, no"),
        (sequence(sets('m := "far"'), '<measure metres="{m}"/>', "<a/>"), RETURNED, "measure, no"),
        (either('<drive metres="{m}"/>', sequence(sets("m := 1"), "<a/>")), RETURNED, "a, yes"),  # not set before
        (f"<KeepRunningUntilFailure>{sets('n := 1')}</KeepRunningUntilFailure>", RETURNED, "no"),  # nor for ever
        (sequence(sets('t := "xx"'), f"<KeepRunningUntilFailure>{sets('t += t')}</KeepRunningUntilFailure>"), {}, "no"),
    ],
)
def test_what_cannot_be_worked_out_ends_the_tree(body: str, data: Mapping[str, Any], does: str) -> None:
    assert done(text_of(body), "", data) == does


def test_trees_come_from_files_below_the_own_folder_alone(tmp_path: Path) -> None:
    def read(include: str) -> str:
        path = tmp_path / "trees" / "tree.xml"
        path.write_text(text_of('<SubTree ID="s"/>', include))
        try:
            return read_routine(path, SKILLS, goal="do it").body.kind
        except UserError as error:
            return str(error)

    (tmp_path / "trees" / "deep").mkdir(parents=True)
    tree = '<root BTCPP_format="4"><BehaviorTree ID="s"><a/></BehaviorTree></root>'
    for place in ("outside.xml", "trees/deep/deep.xml"):
        (tmp_path / place).write_text(tree)
    (tmp_path / "trees/link.xml").symlink_to(tmp_path / "outside.xml")
    (tmp_path / "trees/deep/round.xml").write_text(tree.replace(">", '><include path="round.xml"/>', 1))
    assert read('<include path="deep/deep.xml"/>') == "skill"
    assert read('<include path="./deep/round.xml"/>') == "skill"
    for outside in ("../outside.xml", str(tmp_path / "outside.xml"), "link.xml", "deep/../../outside.xml"):
        assert "is not below the folder of" in read(f'<include path="{outside}"/>')
    assert "cannot be read: No such file" in read('<include path="none.xml"/>')
    assert "it has to name a file" in read('<include ros_pkg="other" path="deep/deep.xml"/>')
    (tmp_path / "trees/deep/odd.xml").write_text(tree.replace("<a/>", "\n<unknown/>"))
    assert f"{tmp_path}/trees/deep/odd.xml:2: <unknown>: 'unknown' is not a node" in read(
        '<include path="deep/odd.xml"/>'
    )
    assert "there is no tree 's', here or in a file beside it" in read("")
    (tmp_path / "trees/link.xml").unlink()
    (tmp_path / "trees/beside.xml").write_text(tree + " " * LARGEST_XML)
    assert "beside it; beside.xml is not looked through: files beside it are read that are texts, of 8 MiB" in read("")
    (tmp_path / "trees/beside.xml").write_text(tree)
    assert read("") == "skill"
