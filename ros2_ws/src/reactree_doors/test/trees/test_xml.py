"""XML of BehaviorTree.CPP: a routine comes back as the same tree; what has no counterpart is named with its line."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from routine.any_routine import DECLARED, AnyRoutine

from reactree_doors.trees import bt_nodes
from reactree_doors.trees.xml_in import read_routine, routine_of_xml
from reactree_doors.trees.xml_out import nodes_model, xml_of
from reactree_ros.agent.parameters import Number
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.errors import UserError
from reactree_ros.files import xml
from reactree_ros.routine.model import (
    DEEPEST,
    MOST_NODES,
    Always,
    Decorator,
    Fallback,
    Goal,
    Node,
    Parallel,
    Pause,
    Role,
    Routine,
    RoutineError,
    Script,
    Search,
    Sequence,
    Skill,
    WaitFor,
    Within,
)

GO, WAIT = '<go_to thing="sink 1"/>', '<WaitFor condition="it rings"/>'
WENT = Skill(wording="go to sink 1")
RINGS = WaitFor(condition="it rings")


def file_of(body: str, more: str = "", ports: str = "") -> str:
    """Return a file with a main tree, whose nodes stand in line 3."""
    model = f'<TreeNodesModel><SubTree ID="main">{ports}</SubTree></TreeNodesModel>' if ports else ""
    return (
        f'<root BTCPP_format="4" main_tree_to_execute="main">\n<BehaviorTree ID="main" _goal="do it">\n{body}\n'
        f"</BehaviorTree>{more}{model}</root>"
    )


def body_of(body: str, more: str = "", ports: str = "", goal: str = "") -> Node:
    return routine_of_xml(file_of(body, more, ports), DECLARED, goal=goal).body


def refused(body: str, more: str = "", ports: str = "", goal: str = "") -> str:
    with pytest.raises(RoutineError) as caught:
        body_of(body, more, ports, goal)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.slow
def test_500_random_routines_come_back_as_the_same_trees() -> None:
    make = AnyRoutine(44)
    for _ in range(500):
        routine = make.make()
        assert routine_of_xml(xml_of(routine, DECLARED), DECLARED) == routine
        assert routine_of_xml(xml_of(routine)).goal == routine.goal


def test_a_skill_of_another_robot_is_written_with_its_whole_wording() -> None:
    drawer = Declared(name="open drawer", wording="open drawer {number}", parameters={"number": Number(1, 6)})
    body = Skill(wording="open drawer {number_1}")
    routine = Routine(name="r", goal="{number_1}", roles=(Role(name="number_1", kind="number"),), body=body)
    written = xml_of(routine)
    assert '<Skill wording="open drawer {number_1}"/>' in written
    assert routine_of_xml(written, [drawer]) == routine


def test_what_only_tells_an_editor_about_a_tree_is_written_back() -> None:
    text = file_of(GO).replace('_goal="do it"', '_goal="do it" _favorite="false" _uid="1"')
    routine = routine_of_xml(text, DECLARED)
    assert (routine.body, routine.labels) == (WENT, {"_favorite": "false", "_uid": "1"})
    assert '_favorite="false" _uid="1"' in xml_of(routine)


def test_a_skill_is_an_action_with_ports() -> None:
    """What a person writes in Groot2, and what stands in the file for it."""
    ports = '<input_port name="thing" type="thing"/><input_port name="who" type="std::string"/>'
    hand = '<Action ID="hand_over" thing="{thing}" person="{who}"/>'
    body = f'<Sequence><pick_up thing="{{thing}}"/>{hand}</Sequence>'
    routine = routine_of_xml(file_of(body, ports=ports), DECLARED, goal="bring {who} the {thing}")
    assert routine.roles == (Role(name="thing", kind="thing"), Role(name="who", kind="text"))
    picked = Skill(wording="pick up {thing}")
    handed = Skill(wording="hand {thing} to {who}")
    assert routine.body == Sequence(children=(picked, handed))
    written = xml_of(routine, DECLARED)
    assert '<hand_over thing="{thing}" person="{who}"/>' in written


@pytest.mark.parametrize(
    ("body", "meant"),
    [
        (f"<Sequence>{GO}</Sequence>", Sequence(children=(WENT,))),
        (
            f"<ReactiveSequence><AlwaysSuccess/>{GO}</ReactiveSequence>",
            Sequence(children=(Always(succeeds=True), WENT), memory=False),
        ),
        (f'<Control ID="Fallback">{GO}</Control>', Fallback(children=(WENT,))),
        (f"<ReactiveFallback>{GO}</ReactiveFallback>", Fallback(children=(WENT,), memory=False)),
        (f'<Parallel failure_count="1">{GO}{WAIT}{GO}</Parallel>', Parallel(children=(WENT, RINGS, WENT))),
        (
            f'<ParallelAll max_failures="2">{GO}{WAIT}{GO}</ParallelAll>',
            Parallel(children=(WENT, RINGS, WENT), policy="majority"),
        ),
        (f"<Inverter>{GO}</Inverter>", Decorator(does="invert", child=WENT)),
        (f"<ForceSuccess>{GO}</ForceSuccess>", Decorator(does="succeed", child=WENT)),
        (f'<Decorator ID="ForceFailure">{GO}</Decorator>', Decorator(does="fail", child=WENT)),
        (
            f'<RetryUntilSuccessful num_attempts="3">{GO}</RetryUntilSuccessful>',
            Decorator(does="retry", times=3, child=WENT),
        ),
        (f'<Repeat num_cycles="-1">{GO}</Repeat>', Decorator(does="repeat", times=0, child=WENT)),
        (f'<Timeout msec="5000">{GO}</Timeout>', Within(seconds=5, children=(WENT,))),
        (f'<Timeout msec="5000"><Sequence>{GO}{WAIT}</Sequence></Timeout>', Within(seconds=5, children=(WENT, RINGS))),
        ("<AlwaysSuccess/>", Always(succeeds=True)),
        ("<AlwaysFailure name='no'/>", Always(succeeds=False, labels={"name": "no"})),
        (f'<Timeout msec="500">{GO}</Timeout>', Within(seconds=0.5, children=(WENT,))),
        (f"<SequenceWithMemory>{GO}{GO}</SequenceWithMemory>", Sequence(children=(WENT, WENT), memory="kept")),
        (f"<RoundRobin>{GO}</RoundRobin>", Fallback(children=(WENT,), memory="kept")),
        (f"<PipelineSequence>{GO}{GO}</PipelineSequence>", Sequence(children=(WENT, WENT), memory="again")),
        ('<Condition ID="Skill" wording="look {0: it}"/>', Skill(wording="look {{0: it}}", looks=True)),
        ('<Holds condition="it rings"/>', WaitFor(condition="it rings", seconds=0)),
        ('<AgentNode goal="find it" _uid="3"/>', Goal(text="find it", labels={"_uid": "3"})),
        ('<Script code="a := 1"/>', Script(code="a := 1")),
        ("<Sleep msec='500'/>", Pause(milliseconds=500)),
    ],
)
def test_nodes_that_both_have_are_carried_over(body: str, meant: Node) -> None:
    assert body_of(body) == meant


@pytest.mark.parametrize("name", sorted(bt_nodes.WITHOUT))
def test_a_node_without_a_counterpart_is_named_with_its_line_and_a_reason(name: str) -> None:
    said = refused(f'<Sequence>\n<{name} name="mine">{GO}</{name}></Sequence>')
    assert said == f"routine:4: <{name} 'mine'>: {bt_nodes.WITHOUT[name]}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "<pick_upp thing='mug 1'/>",
            "routine:3: <pick_upp>: 'pick_upp' is not a node and no skill here; did you mean",
        ),
        ("<pick_up/>", "the port 'thing' is missing"),
        ("<pick_up thing='mug 1' with='hand'/>", "there is no port 'with'"),
        ("<pick_up thing='{mug}'/>", "'{mug}' is not a role, and nothing sets it or finds it"),
        ("<pick_up thing='mug 1' _skipIf='a == 1'/>", "'{a}' is not a role, and nothing sets it"),
        ("<pick_up thing='mug 1' _skipIf='a ~= 1'/>", "_skipIf 'a ~= 1': '~= 1' is not understood in a script"),
        ("<pick_up thing='mug 1' _skipif='1'/>", "'_skipif' says nothing; did you mean '_skipIf'?"),
        ("<pick_up thing='mug 1' _onHalted='1'/>", "'_onHalted' cannot stand here"),
        (f"<Fallback><Sequence><pick_up thing='mug 1' _skipIf='1'/></Sequence>{GO}</Fallback>", "may be skipped, and"),
        ("<pick_up thing='mug 1' _expected='dome'/>", "expected: did you mean 'done'"),
        ("<drive metres='7'/>", "metres: 7 may not stand here"),
        (f"<pick_up thing='mug 1'>{GO}</pick_up>", "nothing may stand in it"),
        ("<Sequence/>", "there is nothing in it"),
        (f"<ReactiveSequence>{WAIT}{GO}</ReactiveSequence>", "3: <ReactiveSequence>: without memory just the last of"),
        (f"<ReactiveFallback>{GO}{GO}</ReactiveFallback>", "or conditions, and 1 before it do"),
        (
            f"<PipelineSequence><SpeedController>{GO}</SpeedController>{GO}</PipelineSequence>",
            "<SpeedController>: in PipelineSequence it goes by time, way, speed or goal",
        ),
        (f"<RoundRobin wrap_around='false'>{GO}</RoundRobin>", "there is no port 'wrap_around'; it has none"),
        (f"<Switch2 variable='1' case_1='1' case_2='2'>{GO}</Switch2>", "it has 1 nodes in it; put one for each case"),
        (f"<GoalUpdater>{GO}</GoalUpdater>", "it goes by what a topic or a service says"),
        (f"<Inverter>{GO}{GO}</Inverter>", "it has 2 nodes in it; put just one there"),
        (f"<Timeout msec='9999000'>{GO}</Timeout>", "seconds: input should be less than or equal to 3600"),
        (f"<Repeat num_cycles='0'>{GO}</Repeat>", "num_cycles is 0"),
        (f"<Repeat num_cycles='many'>{GO}</Repeat>", "num_cycles is 'many'; write a whole number"),
        (
            f"<ParallelAll max_failures='3'>{GO}{GO}{GO}</ParallelAll>",
            "max_failures is 3; most have to succeed: of 3 write 2",
        ),
        (f"<Parallel success_count='1'>{GO}{GO}</Parallel>", "all have to succeed here"),
        (f"<Parallel failure_count='-1'>{GO}{GO}</Parallel>", "all have to succeed here"),
        ("<WaitFor condition='it rings' seconds='long'/>", "seconds: input should be a valid number"),
        ("<Search of='a mug' finds='mug'/>", "finds needs a name in braces"),
        ("<SubTree ID='other'/>", "there is no tree 'other', here or in a file beside it; use one of main"),
        ("<SubTree ID='main'/>", "its trees stand in one another: main, main"),
        (f"{GO}{GO}", "<BehaviorTree 'main'>: it has 2 nodes in it"),
    ],
)
def test_what_cannot_be_carried_over_is_an_error_that_names_it(body: str, reason: str) -> None:
    assert reason in refused(body)


@pytest.mark.parametrize(
    ("port", "reason"),
    [
        ('<input_port name="Thing" type="thing"/>', "call a role in small letters"),
        ('<input_port name="thing" type="Pose"/>', "a role of type 'Pose' is not known"),
        ('<input_port name="thing" type="thing"/>', "'do it' has to name each of its roles once: thing"),
    ],
)
def test_a_role_is_an_input_port_of_the_main_tree(port: str, reason: str) -> None:
    assert reason in refused(GO, ports=port)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<tree/>", "<tree>: the first element of a file of BehaviorTree.CPP is <root>"),
        ('<root BTCPP_format="5"/>', "there is no version '5'; 3 and 4 are read"),
        ('<root BTCPP_format="4"/>', "there is no tree"),
        ('<root BTCPP_format="4"><include path="a.xml"/></root>', "it has to name a file below its own folder"),
        ('<root BTCPP_format="4"><Sequence/></root>', "only BehaviorTree, TreeNodesModel and include stand here"),
        ('<root BTCPP_format="4"><BehaviorTree/><BehaviorTree/></root>', "this ID is that of line 1, too"),
        (
            f'<root BTCPP_format="4"><BehaviorTree ID="a">{WAIT}</BehaviorTree></root>',
            'as _goal="bring me the {thing}"',
        ),
        (file_of(WAIT).replace('execute="main"', 'execute="mein"'), "there is no tree 'mein'; did you mean 'main'?"),
        (file_of(WAIT, f'<BehaviorTree ID="main">{WAIT}</BehaviorTree>'), "this ID is that of line 2, too"),
        (file_of(WAIT).replace("_goal", "_gaol"), "say what it is for"),
        (
            file_of(WAIT, f'<BehaviorTree ID="b">{WAIT}</BehaviorTree>').replace(' main_tree_to_execute="main"', ""),
            "main_tree_to_execute is one of main, b",
        ),
    ],
)
def test_a_file_that_is_no_tree_of_version_4_is_refused(text: str, reason: str) -> None:
    with pytest.raises(RoutineError, match=re.escape(reason)):
        routine_of_xml(text)


def test_the_main_tree_is_named_or_the_one_that_stands_in_no_other() -> None:
    text = file_of('<SubTree ID="b"/>', f'<BehaviorTree ID="b">{WAIT}</BehaviorTree>')
    assert routine_of_xml(text.replace(' main_tree_to_execute="main"', "")).name == "main"
    alone = routine_of_xml(f'<root BTCPP_format="4"><BehaviorTree>{WAIT}</BehaviorTree></root>', goal="wait")
    assert (alone.name, alone.body) == ("tree", RINGS)


def test_a_subtree_becomes_a_part_of_the_tree_with_its_ports_remapped() -> None:
    """Roles, constants, defaults, ``{=}``, what a subtree finds, and names of its own that others have, too."""
    fetch = (
        '<BehaviorTree ID="fetch"><Sequence><Search of="{what}" finds="{it}"/><Search of="hand" finds="{own}"/>'
        '<Skill wording="take {it} to {where}"/></Sequence></BehaviorTree>'
        '<TreeNodesModel><SubTree ID="fetch"><input_port name="what"/><input_port name="where" default="sink 1"/>'
        '<output_port name="it"/></SubTree><SubTree ID="main"><input_port name="thing" type="thing"/></SubTree>'
        "</TreeNodesModel>"
    )
    body = (
        '<Sequence><SubTree ID="fetch" what="{thing}" it="{box}"/><Skill wording="shake {box}"/>'
        '<SubTree ID="fetch" what="a pan" where="{box}" name="again"/></Sequence>'
    )
    routine = routine_of_xml(file_of(body, fetch), goal="bring {thing}")
    first = (Search(finds="box", of="{thing}"), Search(finds="own", of="hand"), Skill(wording="take {box} to sink 1"))
    then = (Search(finds="it", of="a pan"), Search(finds="own_2", of="hand"), Skill(wording="take {it} to {box}"))
    shaken = Skill(wording="shake {box}")
    assert routine.body == Sequence(children=(Sequence(children=first), shaken, Sequence(children=then)))
    assert "the port 'what' is missing" in refused('<SubTree ID="fetch"/>', fetch)
    same = '<BehaviorTree ID="s"><Skill wording="take {thing}"/></BehaviorTree>'
    ports = '<input_port name="thing" type="thing"/>'
    for call in ('<SubTree ID="s" thing="{=}"/>', '<SubTree ID="s" _autoremap="true"/>'):
        assert body_of(call, same, ports, "take {thing}") == Skill(wording="take {thing}")
    assert "'{thing}' is not a role" in refused('<SubTree ID="s"/>', same, ports, "take {thing}")


def test_what_begins_and_ends_with_a_role_is_no_reference() -> None:
    ports = '<input_port name="a" type="thing"/><input_port name="b" type="place"/>'
    body = "<AgentNode goal=\"'{a} to {b}'\"/>"
    routine = routine_of_xml(file_of(body, ports=ports), goal="{a} to {b}")
    assert routine.body == Goal(text="{a} to {b}")
    assert body in xml_of(routine)


def test_what_xml_cannot_hold_is_an_error_that_names_the_node() -> None:
    def written(node: Node) -> str:
        with pytest.raises(RoutineError) as caught:
            xml_of(Routine(name="r", goal="g", body=Sequence(children=(node,))))
        return str(caught.value)

    assert written(Goal(text="ring\x07")) == "goal 'ring\x07': goal has a character that XML cannot hold"
    assert "search 'a': 'b;c' has a ;" in written(Search(finds="x", of="a", order=("b;c",)))
    assert "invert is done once, not 3 times" in written(Decorator(does="invert", times=3, child=WENT))


def test_the_nodes_model_has_every_node_and_every_skill() -> None:
    model = nodes_model(DECLARED)
    for name in (*bt_nodes.OWN, "pick_up", "hand_over", "drive", "say"):
        assert f'ID="{name}"' in model
    assert '<output_port name="finds">what was found</output_port>' in model
    assert 'ID="Sequence"' not in model  # BehaviorTree.CPP's own


# ---------------------------------------------------------------------- hostile files


def _bomb(_: Path) -> str:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 20))
    return f'<!DOCTYPE root [<!ENTITY e0 "ha">{entities}]><root>&e19;</root>'


def _other_file(path: Path) -> str:
    (path / "secret").write_text("secret")
    return f'<!DOCTYPE root [<!ENTITY s SYSTEM "file://{path / "secret"}">]><root>&s;</root>'


def _copies(_: Path) -> str:
    twice = "".join(
        f'<BehaviorTree ID="t{n}"><Sequence><SubTree ID="t{n + 1}"/><SubTree ID="t{n + 1}"/></Sequence></BehaviorTree>'
        for n in range(18)
    )
    return file_of('<SubTree ID="t0"/>', f'{twice}<BehaviorTree ID="t18">{WAIT}</BehaviorTree>')


def _wide(_: Path) -> str:
    trees = "".join(
        f'<BehaviorTree ID="t{n}"><SubTree ID="t{n + 1}" a="{"{a}" * 500}"/></BehaviorTree>' for n in range(12)
    )
    leaf = '<BehaviorTree ID="t12"><AgentNode goal="{a}"/></BehaviorTree>'
    return file_of('<SubTree ID="t0" a="ha"/>', trees + leaf)


def _chain(_: Path) -> str:
    trees = "".join(f'<BehaviorTree ID="t{n}"><SubTree ID="t{n + 1}"/></BehaviorTree>' for n in range(5000))
    return file_of('<SubTree ID="t0"/>', trees)


def _skipped(_: Path) -> str:
    nine = {n: f'<SubTree ID="t{n + 1}"/>' * 9 for n in range(18)}
    trees = "".join(f'<BehaviorTree ID="t{n}"><Fallback>{one}</Fallback></BehaviorTree>' for n, one in nine.items())
    last = '<BehaviorTree ID="t18"><SubTree ID="t0" _skipIf="1"/></BehaviorTree>'
    return file_of(f'<Sequence>{WAIT}<SubTree ID="t0"/></Sequence>', trees + last)


def _names(_: Path) -> str:
    goals = ("".join(f"{{é{n}}}" for n in range(first, first + 40)) for first in range(0, 16_000, 40))
    return file_of(f"<Sequence>{''.join(f'<AgentNode goal={one!r}/>' for one in goals)}</Sequence>")


def _labels(_: Path) -> str:
    labels = " ".join(f"_a{n}='1'" for n in range(50_000))
    return file_of(f"<AlwaysSuccess {labels}/>")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_skipped, "all that is in it may be skipped"),
        (_names, "more than 1,000 names"),
        (_labels, "at most 50 items"),
        (lambda _: file_of(f"<Script code='{'(' * 1000}'/>"), "its brackets stand more than 50 deep"),
        (lambda _: file_of(f"<Script code='{'x := 1;' * 100_000}'/>"), "a script has at most 2000 characters"),
        (_bomb, "a document type and its entities are not read"),
        (_other_file, "a document type and its entities are not read"),
        (lambda _: "<a>" * 200_000, "nested more than 100 levels deep"),
        (lambda _: f"<root>{'<a/>' * 100_001}</root>", "more than 100,000 elements and attributes"),
        (lambda _: f"<root>{' ' * xml.LARGEST_XML}</root>", "is larger than 8 MiB"),
        (lambda _: file_of("<Inverter>" * DEEPEST + WAIT + "</Inverter>" * DEEPEST), f"{DEEPEST} in one another"),
        (lambda _: file_of(f"<Sequence>{WAIT * MOST_NODES}</Sequence>"), f"at most {MOST_NODES} nodes"),
        (_copies, f"at most {MOST_NODES} nodes"),
        (_wide, "comes to more than 2000 characters"),
        (_chain, "its trees stand in one another"),
        (lambda _: "<root", "is not XML: unclosed token"),
        (lambda _: "", "is not XML: no element found"),
        (lambda _: "<root>\x00</root>", "is not XML: not well-formed"),
        (lambda _: '<root a="1" a="2"/>', "is not XML: duplicate attribute"),
        (lambda _: file_of(f'<AgentNode goal="{"x" * 5000}"/>'), "comes to more than 2000 characters"),
    ],
)
def test_a_hostile_file_ends_in_one_line(make: Callable[[Path], str], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "tree.xml"
    path.write_text(make(tmp_path))
    with pytest.raises(UserError, match=re.escape(reason)) as caught:
        read_routine(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert "secret'" not in str(caught.value)


def test_files_in_other_encodings_are_refused_and_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tree.xml"
    path.write_bytes(file_of(WAIT).encode("utf-8-sig"))
    assert read_routine(path).body == RINGS
    path.write_bytes(file_of(WAIT).encode("utf-16"))
    with pytest.raises(UserError, match="is not text in UTF-8"):
        read_routine(path)


def test_1000_damaged_files_are_read_or_end_in_one_line() -> None:
    pick, make = random.Random(5), AnyRoutine(5)
    files = [xml_of(make.make(), DECLARED) for _ in range(20)]
    tokens = [
        *("<", ">", '"', "{", "}", "&", "/", "=", "ID", "SubTree", "Sequence", "name", "\x00", "\ud83d", "-1", "{=}"),
    ]
    tokens += ["AgentNode", "_autoremap", "default", "5000", "]]>", "<!--", "<?x", "&#0;", "'"]
    said: list[str] = []
    for _ in range(1000):
        text = pick.choice(files)
        for _ in range(pick.randint(1, 4)):
            at = pick.randrange(len(text))
            text = text[:at] + pick.choice((pick.choice(tokens), "")) + text[at + pick.choice((0, 1, 3, 20)) :]
        said.append(_error_of(text))
    assert 0 < len(list(filter(None, said))) < 1000  # some are read
    assert [one for one in said if "\n" in one or len(one) > 800] == []


def _error_of(text: str) -> str:
    try:
        routine_of_xml(text, DECLARED)
    except RoutineError as error:
        return str(error)
    return ""
