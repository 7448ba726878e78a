"""Routines that a person wrote: from a file, through the command line, into a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Cli
from houses import carry_out, tasks
from recorded_runs import assert_replays
from robot.delivery import delivery_robot

from reactree_doors.trees import bt_nodes
from reactree_doors.trees.xml_in import read_routine, routine_of_xml
from reactree_ros.agent.parameters import Parameter
from reactree_ros.files.xml import parse_xml
from reactree_ros.household.household import SKILLS
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.robot.map_file import load_map
from reactree_ros.routine.fitting import Kept
from reactree_ros.routine.model import Node, Origin, Role, Routine, Sequence, Skill, WaitFor, say

OFFICE = Path(__file__).parents[5] / "config/robots/office.yaml"
(TASK, *_) = (task for task in tasks(1, 8) if len(task.goal) == 1)
ROLES = '<input_port name="thing" type="thing"/><input_port name="to" type="place"/>'
STEPS = (
    '<Search of="{thing}" finds="{it}"/><pick_up thing="{it}"/><Search of="{to}" finds="{there}"/>'
    '<Fallback><put_down thing="{it}"/><Sequence><open thing="{there}"/><put_down thing="{it}"/></Sequence></Fallback>'
)
FIND = '<Search of="{thing}" finds="{it}"/><pick_up thing="{it}"/><AgentNode goal="put down {it} on the {to}"/>'


def file_of(steps: str, ports: str = ROLES) -> str:
    thing, place = (TASK.word_of(getattr(TASK.goal[0], name)) for name in ("item", "target"))
    goal = TASK.instruction.rstrip(".").replace(thing, "{thing}").replace(place, "{to}")
    return (
        f'<root BTCPP_format="4"><BehaviorTree ID="bring" _goal="{goal}"><Sequence>{steps}</Sequence></BehaviorTree>'
        f'<TreeNodesModel><SubTree ID="bring">{ports}</SubTree></TreeNodesModel></root>'
    )


@pytest.fixture
def xml(tmp_path: Path) -> Path:
    path = tmp_path / "bring.xml"
    path.write_text(file_of(STEPS))
    return path


def test_a_file_by_hand_is_run_without_a_request(xml: Path, memory: SqliteMemory) -> None:
    routine = read_routine(xml, SKILLS)
    Kept(memory).replace(routine.name, routine)
    came = carry_out(TASK, memory)
    assert (came.used, came.requests, came.result.gsr) == ([""], 0, 1.0)


def test_an_agent_node_in_it_asks_the_model_and_knows_what_was_found(memory: SqliteMemory) -> None:
    routine = routine_of_xml(file_of(FIND), SKILLS)
    Kept(memory).replace(routine.name, routine)
    came = carry_out(TASK, memory)
    thing = TASK.word_of(TASK.goal[0].item)
    assert came.used == [""]
    assert came.requests > 0
    subgoals = [
        node["subgoal"] for grown in came.kept.events_of("grow") for node in grown["nodes"] if node["kind"] == "agent"
    ]
    assert any(one.startswith(f"put down {thing} ") and "{" not in one for one in subgoals)
    assert_replays(came.kept)


def test_it_goes_out_as_xml_and_python_and_comes_in_again(cli: Cli, xml: Path, tmp_path: Path) -> None:
    of, out = ("--memory", tmp_path / "own.db"), tmp_path / "out.xml"
    assert "bring: version 1 is kept" in cli("routine", "import", xml, *of).out
    first = Routine.of_json(cli("routine", "show", "bring", *of, "--json").out)
    assert (first.body, first.origin.household) == (read_routine(xml, SKILLS).body, "wah_nl")
    assert cli("routine", "export", "bring", *of, "--out", out).code == 0
    assert "bring: version 2 is kept" in cli("routine", "import", out, *of).out
    again = Routine.of_json(cli("routine", "show", "bring", *of, "--json").out)
    assert (again.body, again.goal, again.roles) == (first.body, first.goal, first.roles)
    assert "ROUTINE = routine_of(bring," in cli("routine", "export", "bring", *of, "--as", "python").out.replace(
        "\n", ""
    )
    whole = first.model_copy(update={"name": "whole", "origin": Origin(household="office")})
    (tmp_path / "whole.json").write_text(whole.to_json())
    assert cli("routine", "edit", "whole", *of, "--file", tmp_path / "whole.json").code == 0
    assert '<Skill wording="pick up {it}"/>' in cli("routine", "export", "whole", *of).out
    assert "exists already" in cli("routine", "export", "bring", *of, "--out", out).err
    assert "there is no routine 'brig'; did you mean 'bring'?" in cli("routine", "export", "brig", *of).err


def test_what_is_wrong_in_a_file_is_said_with_its_line(cli: Cli, xml: Path, tmp_path: Path) -> None:
    xml.write_text(file_of("\n<UnsetBlackboard key='a'/>"))
    ended = cli("routine", "import", xml, "--memory", tmp_path / "new.db")
    assert ended.code == 2
    assert f"{xml}:2: <UnsetBlackboard>: an entry stays set here" in ended.err
    assert not (tmp_path / "new.db").exists()
    xml.write_text(file_of(STEPS).replace("_goal", "_description"))
    assert "--goal" in cli("routine", "import", xml, "--memory", tmp_path / "new.db").err
    goal = cli("routine", "import", xml, "--goal", "move {thing} to {to}", "--memory", tmp_path / "new.db")
    assert "it is for 'move {thing} to {to}'" in goal.out


def test_the_nodes_model_is_of_a_world_or_a_robot(cli: Cli, tmp_path: Path) -> None:
    for command, skill in ((("routine", "nodes"), "pick_up"), (("robot", "nodes", OFFICE), "hand_over")):
        out = tmp_path / skill
        assert cli(*command, "--out", out).code == 0
        (model,) = parse_xml(out.read_text(encoding="utf-8")).named("TreeNodesModel")
        assert {"AgentNode", "Holds", skill} <= {one.attributes["ID"] for one in model.children}
    steps = '<navigate place="desk 1"/><say text="here I am"/>'
    (tmp_path / "go.xml").write_text(file_of(steps, "").replace('_goal="', '_goal="go there" _description="'))
    ended = cli("robot", "routine", OFFICE, tmp_path / "go.xml", "--memory", tmp_path / "robot.db")
    assert "bring: version 1 is kept" in ended.out


def all_of(robot: RobotConfig) -> Routine:
    """Return a routine of every skill of a robot, with names of its map and with roles, and of its conditions."""
    known, roles, steps = load_map(robot.map).names, list[Role](), list[Node]()
    for skill in robot.declared:
        of = skill.parameters.items()
        values = {name: one.write(one.example(known(one.named) if one.named else None)) for name, one in of}
        kinds = {f"{skill.name}_{name}".replace(" ", "_"): one for name, one in of}
        roles += [Role.model_validate({"name": name, "kind": kind_of(one)}) for name, one in kinds.items()]
        returns = {name: f"got_{name}" for name in skill.returns}
        for each in (values, dict(zip(values, (f"{{{name}}}" for name in kinds), strict=True))):
            steps.append(Skill(wording=say(skill, each), returns=returns))
    for condition in robot.wordings.values():
        steps += [WaitFor(condition=condition, seconds=seconds) for seconds in (0, 60, None)]
    goal = " and ".join(["do it", *(f"{{{role.name}}}" for role in roles)])
    return Routine(name="all", goal=goal, roles=tuple(roles), body=Sequence(children=tuple(steps)))


def kind_of(parameter: Parameter) -> str:
    return type(parameter.named).__name__.lower() if parameter.named else bt_nodes.kind_of(parameter)


@pytest.mark.parametrize("which", ["office", "delivery"])
def test_all_skills_of_a_robot_go_out_as_its_nodes_and_come_in_again(
    which: str, cli: Cli, xml: Path, tmp_path: Path
) -> None:
    config = OFFICE if which == "office" else delivery_robot(tmp_path / "robot", {})
    first, out, of = all_of(load_robot(config)), tmp_path / "all.xml", ("--memory", tmp_path / "own.db")
    (tmp_path / "all.json").write_text(first.to_json())
    assert cli("routine", "import", xml, *of).code == 0  # which makes the memory
    assert cli("routine", "edit", "all", *of, "--file", tmp_path / "all.json").code == 0
    assert cli("routine", "export", "all", *of, "--robot", config, "--out", out).code == 0
    assert "<Skill " not in out.read_text(encoding="utf-8")
    assert "all: version 2 is kept" in cli("robot", "routine", config, out, *of).out
    again = Routine.of_json(cli("routine", "show", "all", *of, "--json").out)
    assert (again.body, again.goal, again.roles) == (first.body, first.goal, first.roles)
    assert "it can be run, given" in cli("tree", "check", out, "--robot", config).out


def test_a_check_says_of_each_file_what_it_lacks(cli: Cli, xml: Path, tmp_path: Path) -> None:
    nodes = '<Sequence>\n<FollowPath path="{p}"/><SubTree ID="Core"/></Sequence>'
    lacks = f'<root BTCPP_format="4"><BehaviorTree ID="t">{nodes}'
    (tmp_path / "lacks.xml").write_text(f"{lacks}</BehaviorTree></root>")
    (tmp_path / "odd.xml").write_text(lacks.replace("SubTree", "UnsetBlackboard key=") + "</BehaviorTree></root>")
    ended = cli("tree", "check", tmp_path)
    assert ended.code == 1
    assert ended.out.splitlines() == [
        f"{xml}: it can be run, given {{thing}}, a thing and {{to}}, a place",
        f"{tmp_path}/lacks.xml: no skill is declared for 'FollowPath' (2), 'Core' (2)",
        f"{tmp_path}/odd.xml:2: is not XML: not well-formed (invalid token)",
    ]
    assert cli("tree", "check", xml).code == 0
