"""The whole launch, as a user starts it: a process of its own, seen by its output and its exit code.

It is driven through `ros2 launch` rather than by launch_testing, which runs the launch inside the test and so can see
neither its exit code nor its end by Ctrl-C.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from processes import Process, Processes, release

from reactree_ros.llm.spec import MODELS
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.spec import WORLDS

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"


@pytest.fixture
def held_parameters(tmp_path: Path) -> str:
    """A parameter file with which the planner uses the nodes of held_nodes.py instead of the launch's own."""
    return parameters(tmp_path, planner={"bridge": "held_bridge", "inference": "held_inference"})


def parameters(folder: Path, **of_nodes: dict[str, object]) -> str:
    names = {"planner": "reactree_planner", "bridge": "household_bridge"}
    file = folder / "parameters.yaml"
    file.write_text(json.dumps({f"/**/{names[node]}": {"ros__parameters": of_nodes[node]} for node in of_nodes}))
    return f"params_file:={file}"


def held_nodes(processes: Processes, *arguments: str) -> tuple[Process, Process]:
    bridge, inference = processes.held("bridge", *arguments), processes.held("inference", *arguments)
    assert processes.node("bring_up", "held_inference", "held_bridge", *arguments).end() == 0
    return bridge, inference


# ------------------------------------------------------------------ an instruction


#: As processes of their own, and in one.
APART_OR_NOT = pytest.mark.parametrize("how", ["composed:=false", "composed:=true"])


@APART_OR_NOT
def test_an_instruction_is_carried_out_and_the_launch_ends_with_0(processes: Processes, how: str) -> None:
    launch = processes.launch(f"instruction:={INSTRUCTION}", how)
    assert launch.ended_cleanly(0)
    assert "[1] Think: To solve the task" in launch.output
    assert "- control flow: parallel" in launch.output
    assert "You put down apple on coffee table" in launch.output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in launch.output
    assert "24 decisions, 16 steps" in launch.output


def test_a_goal_that_is_not_reached_ends_the_launch_with_1(processes: Processes, tmp_path: Path) -> None:
    few = parameters(tmp_path, planner={"max_decisions": 3})
    launch = processes.launch(f"instruction:={INSTRUCTION}", few)
    assert launch.ended_cleanly(1)
    assert "Goal not reached (end: out_of_decisions, GSR 0.00, SSR 0.00)" in launch.output
    assert launch.output.count("the goal was not reached") == 1


def test_two_robots_share_an_instruction_each_by_a_bridge_of_its_own(processes: Processes) -> None:
    launch = processes.launch(f"instruction:={INSTRUCTION}", "robots:=2", "namespace:=house", "planner:=reactree_wm")
    assert launch.ended_cleanly(0)
    assert "robot_1 is here, too" in launch.output
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in launch.output


def test_an_instruction_arrives_as_it_was_written(processes: Processes, tmp_path: Path) -> None:
    instruction = "--put \"Käse\" 'n' $(env HOME) on\nthe table: 1 # apple"
    saving = parameters(tmp_path, planner={"save_to": str(tmp_path / "saved")})
    processes.launch(f"instruction:={instruction}", saving).end()
    (saved,) = (tmp_path / "saved").glob("*.jsonl")
    assert json.loads(saved.read_text().partition("\n")[0])["instruction"] == instruction


# ------------------------------------------------------------------ arguments


@pytest.mark.parametrize(
    ("file", "given", "meant"),
    [
        ("household", "hous:=villa", "house"),
        ("mobile_manipulator", "robot_confg:=x.yaml", "robot_config"),
        ("inference", "lm:=vllm", "llm"),
    ],
)
def test_an_argument_that_there_is_not_ends_a_launch_before_anything_is_started(
    processes: Processes, file: str, given: str, meant: str
) -> None:
    launch = processes.start("ros2", "launch", "reactree_ros", f"{file}.launch.py", given)
    assert launch.ended_cleanly(1)
    assert f"{given}: there is no argument '{given.partition(':=')[0]}'; did you mean '{meant}'?" in launch.output
    assert "process started" not in launch.output


def test_an_included_launch_with_an_argument_that_there_is_not_starts_nothing(
    processes: Processes, tmp_path: Path
) -> None:
    file = tmp_path / "mine.launch.yaml"
    inner = "$(find-pkg-share reactree_ros)/launch/household.launch.py"
    file.write_text(
        "launch:\n- arg: {name: robots_there, default: '1'}\n"
        f"- include: {{file: {inner}, arg: [{{name: hous, value: villa}}]}}\n"
    )
    launch = processes.start("ros2", "launch", str(file), "robots_there:=2")
    assert launch.ended_cleanly(1)
    assert "hous:=villa: there is no argument 'hous'; did you mean 'house'?" in launch.output
    assert "process started" not in launch.output


def test_every_argument_says_what_it_is(processes: Processes) -> None:
    shown = processes.start("ros2", "launch", "reactree_ros", "household.launch.py", "--show-args")
    assert shown.end() == 0
    own = "instruction task_id memory policy params_file namespace view view_port log_level respawn house_map"
    assert all(f"'{name}':" in shown.output for name in own.split())
    assert "no description given" not in shown.output
    for registry in (WORLDS, MODELS):
        assert ", ".join(registry.names) in shown.output
        for spec in map(registry.get, registry.own):
            for name, field in spec.settings.model_fields.items():
                assert f"'{name}':" in shown.output
                assert field.description in shown.output
    for name, field in RunOptions.model_fields.items():
        assert f"'{name}':" in shown.output
        assert field.description in shown.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("world:=moon", "world 'moon' is unknown; use one of virtualhome, virtualhome_unity, declared"),
        ("port:=8080", "port is '8080', but world 'virtualhome' has no such setting; it is one of virtualhome_unity"),
        ("model:=big", "model is 'big', but language model 'expert' has no such setting; it is one of openai"),
        ("house:=nowhere", "house nowhere: is neither a file nor one of apartment, villa"),
        ("task_id:=99", "there is no task 99 in virtualhome"),
        ("llm:=parrot", "language model 'parrot' is unknown; use one of expert, openai"),
        ("planner:=none", "planner 'none' is unknown; use one of reactree, react"),
        ("policy:=/nowhere.yaml", "/nowhere.yaml: cannot be read"),
        ("params_file:=/nowhere.yaml", "params_file: there is no file '/nowhere.yaml'"),
        ("namespace:=1st", "Invalid namespace"),
        ("log_level:=loud", 'Argument "log_level" provided value "loud" is not valid'),
        ("composed:=true robots:=2", "composed:=true is for one robot; leave it out for robot_1/household_bridge"),
        ("robots:=two", "robots is 'two'; it must be a whole number"),
        ("world:=ai2thor headless:=perhaps", "headless is 'perhaps'; it must be true or false"),
        ("llm:=openai request_timeout:=long", "request_timeout is 'long'; it must be a number"),
    ],
)
def test_a_wrong_argument_is_named_and_the_launch_ends_with_1(processes: Processes, arguments: str, said: str) -> None:
    launch = processes.launch(f"instruction:={INSTRUCTION}", *arguments.split())
    assert launch.ended_cleanly(1)
    assert said in launch.output


def test_a_parameter_file_may_say_which_world_an_argument_belongs_to(processes: Processes, tmp_path: Path) -> None:
    file = parameters(tmp_path, bridge={"world": "ai2thor"})
    launch = processes.launch(file, "scene:=Attic7", "instruction:=Wait")
    assert launch.ended_cleanly(1)
    assert "has no such setting" not in launch.output
    assert "'household_bridge' could not be configured" in launch.output


@APART_OR_NOT
def test_arguments_outrank_the_parameter_file_and_that_the_defaults(
    processes: Processes, tmp_path: Path, how: str
) -> None:
    file = parameters(tmp_path, bridge={"house": "nowhere", "policy": "/nowhere.yaml"})
    launch = processes.launch("task_id:=1", "house:=villa", "namespace:=robot", file, how)
    assert launch.ended_cleanly(1)
    assert "/nowhere.yaml: cannot be read" in launch.output


def test_a_parameter_file_that_is_no_yaml_ends_the_launch_with_1(processes: Processes, tmp_path: Path) -> None:
    file = tmp_path / "parameters.yaml"
    file.write_text("a: [")
    launch = processes.launch(f"params_file:={file}")
    assert launch.ended_cleanly(1)
    assert f"Couldn't parse params file: '--params-file {file}'" in launch.output


@pytest.mark.skipif(bool(shutil.which("py-trees-tree-viewer")), reason="py_trees_ros_viewer is here")
def test_without_the_viewer_the_launch_says_so_and_goes_on(processes: Processes) -> None:
    launch = processes.launch("task_id:=1", "use_viewer:=true")
    assert launch.ended_cleanly(0)
    assert "install the ROS package py_trees_ros_viewer" in launch.output


# ------------------------------------------------------------------ Ctrl-C


@pytest.mark.parametrize(
    ("node", "code"), [("bridge_node", 0), ("inference_node", 0), ("planner_node", 0), ("bring_up absent", 130)]
)
def test_ctrl_c_while_a_node_starts(processes: Processes, node: str, code: int) -> None:
    process = processes.node(*node.split(), "--ros-args", "--log-level", "debug")
    process.wait_for("[DEBUG]")
    process.interrupt()
    assert process.ended_cleanly(code)


def test_ctrl_c_while_it_waits_for_goals(processes: Processes) -> None:
    launch = processes.launch()
    launch.wait_until_up()
    launch.interrupt()
    assert launch.ended_cleanly(0)


@APART_OR_NOT
@pytest.mark.parametrize("what", ["generation", "skill"])
def test_ctrl_c_stops_what_is_in_flight(processes: Processes, held_parameters: str, what: str, how: str) -> None:
    bridge, inference = held_nodes(processes)
    if what == "skill":
        release(inference)
    launch = processes.launch(f"instruction:={INSTRUCTION}", held_parameters, how)
    holder = bridge if what == "skill" else inference
    holder.wait_for("holds: ")
    if what == "skill":
        launch.wait_for("[8] Act: go to kitchen 1")
    launch.interrupt()
    assert launch.ended_cleanly(1)
    holder.wait_for("stopped: ")
    assert "interrupted before the goal was reached" in launch.output


def test_a_launch_ends_with_1_when_one_of_its_nodes_dies(processes: Processes) -> None:
    launch = processes.launch()
    launch.wait_until_up()
    os.kill(launch.pid_of("bridge_node"), signal.SIGKILL)
    assert launch.ended_cleanly(1)
    assert "bridge_node has ended" in launch.output


# ------------------------------------------------------------------ goals from elsewhere


def send_goal(processes: Processes, instruction: str) -> Process:
    action = ("/reactree_planner/execute_task", "reactree_interfaces/action/ExecuteTask")
    return processes.start("ros2", "action", "send_goal", *action, f"{{instruction: '{instruction}'}}", "--feedback")


def test_goals_are_carried_out_and_cancelled_by_ctrl_c(processes: Processes, held_parameters: str) -> None:
    bridge, inference = held_nodes(processes)
    release(inference)
    launch = processes.launch(held_parameters)
    launch.wait_until_up()

    first = send_goal(processes, INSTRUCTION)
    bridge.wait_for("holds: go to kitchen 1")
    first.wait_for("last_decision: 'Act: go to kitchen 1'")
    first.interrupt()
    bridge.wait_for("stopped: go to kitchen 1")
    first.end()

    release(bridge)
    second = send_goal(processes, INSTRUCTION)
    second.wait_for("Goal finished with status: SUCCEEDED")
    assert second.end() == 0
    assert "success: true" in second.output
    launch.interrupt()
    assert launch.ended_cleanly(0)
