"""A robot's whole launch, as a user starts it; and the tutorial "A robot with skills of its own", word for word."""

from __future__ import annotations

import importlib.util
import json
import signal
import sys
from pathlib import Path

import pytest
import yaml
from docs.blocks import ROOT, blocks_of
from processes import Process, Processes, need_program

pytestmark = pytest.mark.skipif(importlib.util.find_spec("nav2_msgs") is None, reason="needs nav2_msgs")

CONFIG = Path(__file__).parents[2] / "config"
INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"


def launch(processes: Processes, *arguments: str) -> Process:
    given = {argument.partition(":=")[0] for argument in arguments}
    config = [] if "robot_config" in given else [f"robot_config:={CONFIG / 'robot.yaml'}"]
    return processes.start("ros2", "launch", "reactree_ros", "mobile_manipulator.launch.py", *config, *arguments)


def written(path: Path, **entries: object) -> Path:
    config = yaml.safe_load((CONFIG / "robot.yaml").read_text())
    path.write_text(yaml.safe_dump(config | {"map": str(CONFIG / "semantic_map.yaml")} | entries))
    return path


def release(processes: Processes) -> None:
    """Publish an emergency stop that is not pressed, and outlives the robot."""
    latched = ("--qos-durability", "transient_local", "--qos-reliability", "reliable")
    processes.start("ros2", "topic", "pub", *latched, "/emergency_stop", "std_msgs/msg/Bool", "{data: false}")


def robot(processes: Processes, *arguments: str) -> Process:
    return processes.start(sys.executable, str(Path(__file__).parent / "robot_servers.py"), *arguments)


def test_an_instruction_is_carried_out_in_five_rooms(processes: Processes) -> None:
    body = robot(processes)
    whole = launch(processes, f"instruction:={INSTRUCTION}")
    assert whole.ended_cleanly(0)
    assert "You are in the house" not in whole.output
    assert "You open fridge. You see apple (1), fridge (1)" in whole.output
    assert "Claimed, not checked (end: done)" in whole.output
    put_down = [line for line in body.output.splitlines() if line.startswith("arm: put down")]
    assert put_down == ["arm: put down pudding 1 on coffee table 1", "arm: put down apple 1 on coffee table 1"]


@pytest.mark.parametrize("tf", ["/tf", "tf"])
def test_two_robots_share_an_instruction_each_with_a_bridge_of_its_own(
    processes: Processes, tmp_path: Path, tf: str
) -> None:
    """Each has frames of its own in one tf, or, as where Nav2's launches start it, a tf of its own."""
    remapped = ("--ros-args", "-r", f"/tf:={tf}", "-r", f"/tf_static:={tf}_static")
    bodies = [robot(processes, *remapped, "-r", f"__ns:=/{name}") for name in ("tall", "small")]
    frames = {name: f"{name}/base_link" if tf == "/tf" else "base_link" for name in ("tall", "small")}
    own = {name: {"base_frame": frame, "tf": tf, "detections": "detections"} for name, frame in frames.items()}
    robots = ",".join(f"{name}={written(tmp_path / f'{name}.yaml', **one)}" for name, one in own.items())
    given = (f"instruction:={INSTRUCTION}", f"robots:={robots}", "planner:=reactree_wm")
    whole = processes.start("ros2", "launch", "reactree_ros", "mobile_manipulator.launch.py", *given)
    assert whole.ended_cleanly(0)
    assert "Claimed, not checked (end: done)" in whole.output
    put_down = [[line for line in body.output.splitlines() if line.startswith("arm: put down")] for body in bodies]
    assert sorted(map(len, put_down)) == [1, 1]
    assert " is here, too" in whole.output


def test_a_dry_run_needs_no_robot_and_logs_every_goal(processes: Processes) -> None:
    whole = launch(processes, f"instruction:={INSTRUCTION}", "dry_run:=true")
    assert whole.ended_cleanly(0)
    assert whole.output.count("dry run: ") == 14
    assert "dry run: pick up apple 1 -> arm (nav2_msgs/action/DummyBehavior)" in whole.output
    assert '"position": {"x": 8.7, "y": 1.0, "z": 0.0}' in whole.output


def test_a_cancel_in_mid_navigation_stops_the_robot_and_the_next_goal_is_carried_out(processes: Processes) -> None:
    body = robot(processes, "--behave", "navigate_to_pose=hold")
    whole = launch(processes)
    whole.wait_until_up()
    action = ("/reactree_planner/execute_task", "reactree_interfaces/action/ExecuteTask")
    first = processes.start("ros2", "action", "send_goal", *action, f"{{instruction: '{INSTRUCTION}'}}", "--feedback")
    body.wait_for("navigate_to_pose: hold")
    first.wait_for("last_decision: 'Act: go to kitchen 1'")
    # By its service: ros2 action send_goal hangs now and then where Ctrl-C meets the feedback of a moving robot.
    cancel = ("/reactree_planner/execute_task/_action/cancel_goal", "action_msgs/srv/CancelGoal")
    assert processes.start("ros2", "service", "call", *cancel).end() == 0
    body.wait_for("cancel: navigate_to_pose\nstopped: navigate_to_pose\n")
    first.wait_for("Goal finished with status: CANCELED")
    assert first.end() == 0
    second = processes.node("execute_task", INSTRUCTION)
    assert second.end() == 0
    assert "Claimed, not checked (end: done)" in second.output
    whole.interrupt()
    assert whole.ended_cleanly(0)


def test_who_speaks_with_the_robot_starts_it_and_stops_it(processes: Processes, tmp_path: Path) -> None:
    config = written(tmp_path / "robot.yaml", voice={"called": "Max"})
    body = robot(processes, "--behave", "navigate_to_pose=hold")
    whole = launch(processes, f"robot_config:={config}")
    whole.wait_until_up(bring_up=6)
    whole.wait_for("[voice]: answers /reactree_planner")
    heard = ("ros2", "topic", "pub", "--once", "-w", "1", "/heard", "std_msgs/msg/String")
    assert processes.start(*heard, f"{{data: 'Max, {INSTRUCTION}'}}").end() == 0
    body.wait_for("navigate_to_pose: hold")
    assert processes.start(*heard, "{data: 'Max, stop!'}").end() == 0
    body.wait_for("stopped: navigate_to_pose")
    whole.wait_for("a person has stopped it")
    whole.interrupt()
    assert whole.ended_cleanly(0)


def test_ctrl_c_stops_the_robot(processes: Processes) -> None:
    body = robot(processes, "--behave", "navigate_to_pose=hold")
    whole = launch(processes, f"instruction:={INSTRUCTION}")
    body.wait_for("navigate_to_pose: hold")
    whole.interrupt()
    assert whole.ended_cleanly(1)
    body.wait_for("stopped: navigate_to_pose")


def test_what_the_policy_denies_is_not_done(processes: Processes, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    rules = [{"skill": "go to", "verdict": "allow"}, {"skill": "pick up", "verdict": "deny"}]
    policy.write_text(yaml.safe_dump({"rules": rules}))
    body = robot(processes)
    whole = launch(processes, "instruction:=Pick up 1 pudding", f"policy:={policy}")
    assert whole.ended_cleanly(1)
    assert "You pick up" not in whole.output
    assert "arm:" not in body.output


def test_a_server_that_vanishes_is_named_and_the_launch_ends(processes: Processes, tmp_path: Path) -> None:
    body = robot(processes, "--behave", "navigate_to_pose=hold", "--without", "button")
    release(processes)
    file = tmp_path / "parameters.yaml"
    file.write_text(json.dumps({"/**/robot_bridge": {"ros__parameters": {"server_timeout": 1.0}}}))
    whole = launch(processes, f"instruction:={INSTRUCTION}", f"params_file:={file}")
    body.wait_for("navigate_to_pose: hold")
    body.signal(signal.SIGKILL)
    assert whole.ended_cleanly(1)
    assert "navigate_to_pose has gone (for 1 s)" in whole.output
    assert "Broken off (end: world_gone)" in whole.output


def test_a_robots_triggers_start_instructions_by_themselves(processes: Processes, tmp_path: Path) -> None:
    triggers = {"tidy": {"instruction": INSTRUCTION, "every": 1.0}}
    body = robot(processes)
    whole = launch(processes, f"robot_config:={written(tmp_path / 'robot.yaml', triggers=triggers)}")
    whole.wait_for(f"trigger 'tidy' (every 1 s) starts '{INSTRUCTION}'")
    body.wait_for("arm: put down apple 1 on coffee table 1")
    whole.interrupt()
    assert whole.ended_cleanly(0)


def decisions(whole: Process) -> list[str]:
    return [line.partition("] ")[2] for line in whole.output.splitlines() if line.startswith("[execute_task-")]


def test_a_navigation_that_is_killed_and_started_again_changes_no_decision(processes: Processes) -> None:
    release(processes)
    body = robot(processes, "--without", "button")
    undisturbed = launch(processes, f"instruction:={INSTRUCTION}")
    assert undisturbed.ended_cleanly(0)
    body.interrupt()
    assert body.end() == 0
    body = robot(processes, "--without", "button", "--behave", "navigate_to_pose=hold")
    disturbed = launch(processes, f"instruction:={INSTRUCTION}")
    body.wait_for("navigate_to_pose: hold")
    body.signal(signal.SIGKILL)
    robot(processes, "--without", "button")
    assert disturbed.ended_cleanly(0)
    assert "'go to kitchen 1' is tried again: navigate_to_pose was restarted" in disturbed.output
    assert decisions(disturbed)[:-1] == decisions(undisturbed)[:-1]  # the last line has the time it took
    assert len(decisions(disturbed)) > 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["robots:=tall"], "'tall' is not NAME=CONFIG"),
        (["robots:=tall=one.yaml,tall=two.yaml"], "there are two called 'tall'"),
        (["robots:=tall=one.yaml"], "one robot alone is a robot_config"),
        (["robots:=a b=one.yaml,small=two.yaml"], "'a b' is not a namespace"),
        (["robots:=tall=nowhere.yaml,small=nowhere.yaml"], "nowhere.yaml"),
        (["robot:=nobody"], "there is no robot 'nobody'; there is office, pyrobosim"),
        (["robot:=pyrobosim", "robot_config:=robot.yaml"], "robot is 'pyrobosim' and robot_config is 'robot.yaml'"),
        (["instruction:=Wait"], "parameter robot_config is empty; name a file like config/robot.yaml"),
    ],
)
def test_what_names_no_robot_is_said_with_the_way_out(processes: Processes, arguments: list[str], said: str) -> None:
    whole = processes.start("ros2", "launch", "reactree_ros", "mobile_manipulator.launch.py", *arguments)
    assert whole.ended_cleanly(1)
    assert said in whole.output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hands": "two"}, "hands: input should be a valid integer, unable to parse string as an integer, not 'two'"),
        ({"skills": {"go to": {"action": "a", "type": "nav9_msgs/action/Go"}}}, "'nav9_msgs'"),
    ],
)
def test_a_wrong_robot_yaml_is_one_clear_line(
    processes: Processes, tmp_path: Path, change: dict[str, object], said: str
) -> None:
    config = written(tmp_path / "robot.yaml", **change)
    whole = launch(processes, f"instruction:={INSTRUCTION}", f"robot_config:={config}")
    assert whole.ended_cleanly(1)
    (line,) = (line for line in whole.output.splitlines() if said in line)
    assert str(tmp_path) in line


def test_every_argument_says_what_it_is(processes: Processes) -> None:
    shown = launch(processes, "--show-args")
    assert shown.end() == 0
    for name in ("instruction", "robot", "robot_config", "dry_run", "llm", "planner", "policy", "namespace"):
        assert f"'{name}':" in shown.output
    assert "no description given" not in shown.output


BLOCKS = list(blocks_of(ROOT / "docs/tutorials/own-skills.md"))
#: An alias holds in a terminal alone.
TERMINAL = 'reactree() { ros2 run reactree_ros reactree "$@"; }'


def block(part: str, language: str = "bash") -> str:
    (text,) = (one.text for one in BLOCKS if one.language == language and part in one.text)
    return text


def test_each_step_does_what_the_page_says(processes: Processes, tmp_path: Path) -> None:
    need_program("ros2")

    def terminal(command: str) -> Process:
        return processes.start("bash", "-c", f"cd {tmp_path}\n{TERMINAL}\n{command}")

    def asked(skill: str, like: str = "") -> str:
        command = block(f"{{skill: '{like or skill}'}}").splitlines()[-1]
        commands = block("SKILL=").partition("\n")[0], command.replace(like or skill, skill)
        goal = terminal("\n".join(commands))
        assert goal.end() == 0, goal.output
        return goal.output

    for one in BLOCKS:
        if one.file:
            (tmp_path / one.file).write_text(one.text)
    base = terminal(f"exec {block('base.py')}")
    assert terminal(block("robot map")).end() == 0
    check = terminal(block("robot check"))
    assert (check.end(), "nothing is wrong" in check.output) == (0, True), check.output
    assert block("/spin", "text").strip() in check.output
    wrong = terminal(f"sed -i s/target_yaw/target_yow/ robot.yaml\n{block('robot check')}")
    assert wrong.end() == 1, wrong.output
    assert " ".join(block("target_yow", "text").split()) in " ".join(wrong.output.split())
    launch = terminal(f"sed -i s/target_yow/target_yaw/ robot.yaml\nexec {block('policy:=policy.yaml' + chr(10))}")
    launch.wait_until_up()
    assert "You turn by 1.5 rad." in asked("turn by 1.5 rad")
    base.wait_for("turned by 1.5 rad")
    assert block("angle: 9 may not", "text").strip() in asked("turn by 9 rad")
    assert "write it as ''turn by 2 rad''" in asked("turn by 2.0 rad", like="turn by 9 rad")
    assert block("says deny", "text").strip() in asked("turn by 2.5 rad")
    assert base.output.count("turned by") == 1
    launch.interrupt()
    assert launch.ended_cleanly(0)
