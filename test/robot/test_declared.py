"""A world made of a robot's declarations, and what is done in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Cli
from robot.delivery import delivery_robot

from reactree_ros.agent.turns import About, Said, Told
from reactree_ros.episode.assembly import again, assemble, tried_out
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, FreeText, RequestRejected
from reactree_ros.llm.script import PersonModel, ScriptModel
from reactree_ros.llm.spec import MODELS
from reactree_ros.person.desk import Desk
from reactree_ros.plugins.settings import read_settings
from reactree_ros.robot.check import check_files
from reactree_ros.robot.declared import SPEC, DeclaredSettings, DeclaredWorld
from reactree_ros.routine.learn import learnt
from reactree_ros.routine.model import Routine
from reactree_ros.routine.use import vocabulary_of
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Observation, Outcome
from reactree_ros.world.spec import Place

DONE, REFUSED = Outcome.DONE, Outcome.PRECONDITION
#: The robot's errand of its script.
ERRAND = (
    "navigate to counter at 0.5 m/s",
    "open drawer 3",
    "load the pills into drawer 3",
    "close drawer 3",
    "navigate to nurse desk at 0.5 m/s",
    "hand the pills over to Anna",
)


def world(folder: Path, *, expected: Sequence[Mapping[str, str]] = (), **settings: Any) -> DeclaredWorld:
    given = {"robot": str(delivery_robot(folder)), "condition": {"people": False}, **settings}
    with (folder / "map.yaml").open("a") as file:
        file.write(yaml.safe_dump({"expected": list(expected)}))
    made = SPEC.make(read_settings(DeclaredSettings, given, where="test"), None)
    assert isinstance(made, DeclaredWorld)
    return made


def did(one: DeclaredWorld, skills: Sequence[str]) -> list[Observation]:
    return [one.execute(skill).result() for skill in skills]


def test_an_errand_has_its_effects_and_reaches_its_goal(tmp_path: Path) -> None:
    goal = {"not": {"held": "pills"}, "at": "nurse desk"}
    one = world(tmp_path, goal=goal, returns="load.weight=1.25")
    seen = did(one, ERRAND[:3])
    assert [each.outcome for each in seen] == [DONE] * 3
    assert seen[2].data == {"weight": 1.25}
    score = one.score().result()
    assert score is not None
    assert (score.ssr, score.unmet) == (0.0, ["not held pills", "at nurse desk"])
    assert {each.outcome for each in did(one, ERRAND[3:])} == {DONE}
    assert one.score().result().gsr == 1.0  # type: ignore[union-attr]
    (after,) = did(one, ["navigate to counter at 0.5 m/s", *ERRAND[1:3], ERRAND[5]])[-1:]
    assert "Anna" not in {each.place for each in after.seen}


@pytest.mark.parametrize(
    ("skills", "goal", "unmet"),
    [
        (ERRAND, {"placed": {"pills": "Anna"}}, []),
        (ERRAND[4:], {"at": "nurse desk", "placed": {"pills": "Anna"}}, ["placed pills: Anna"]),  # without any pills
        (ERRAND, {"placed": {"pills": "Bob"}}, ["placed pills: Bob"]),
        ((*ERRAND, *ERRAND[:3]), [{"placed": {"pills": "Anna"}}, {"at": "counter"}], ["placed pills: Anna"]),
        ((), {"placed": {"pill box 1": "counter", "pill box": "pharmacy"}}, []),
        ((), {"placed": {"pill box 1": "nurse desk"}}, ["placed pill box 1: nurse desk"]),
    ],
)
def test_a_goal_says_who_has_a_thing_or_where_it_is(
    tmp_path: Path, skills: Sequence[str], goal: Any, unmet: Sequence[str]
) -> None:
    one = world(tmp_path, goal=goal, expected=[{"name": "pill box 1", "at": "counter"}])
    did(one, skills)
    score = one.score().result()
    assert score is not None
    assert (score.gsr, list(score.unmet)) == (not unmet, unmet)


@pytest.mark.parametrize(
    ("skills", "condition", "said"),
    [
        (ERRAND[2:3], "people=false", "you are not at counter; first navigate to counter at … m/s"),
        ((ERRAND[0], ERRAND[2]), "people=false", "drawer 3 is closed; first open drawer 3"),
        (ERRAND[5:], "people=false", "you do not hold pills; first load the pills into drawer …"),
        ((*ERRAND[:2], ERRAND[4]), "people=false", "drawer 3 is open; first close drawer 3"),
        (
            ["navigate to counter at 1 m/s"],
            "people=true",
            "speed is 1.0 and may be at most 0.8 while people are near",
        ),
        (["navigate to counter at 1 m/s"], "loaded=true", "and nobody knows whether people are near"),
        (["navigate to counter at 1 m/s"], "people=false;people=true@1", "while people are near; it was stopped"),
    ],
)
def test_what_a_skill_needs_is_looked_at(tmp_path: Path, skills: Sequence[str], condition: str, said: str) -> None:
    last = did(world(tmp_path, condition=condition), skills)[-1]
    assert last.outcome is REFUSED
    assert said in last.text
    assert last.begun == ("stopped" in said)


def test_the_same_seed_fails_and_returns_the_same(tmp_path: Path) -> None:
    skills = ["scan the barcode", "measure the temperature of ward A"] * 20

    def ended(seed: int) -> list[tuple[Outcome, Any]]:
        one = world(tmp_path, fail="scan barcode=0.5", seed=seed)
        return [(each.outcome, dict(each.data)) for each in did(one, skills)]

    assert ended(1) == ended(1) != ended(2)
    assert 5 < sum(outcome is Outcome.EXECUTION for outcome, _ in ended(1)) < 15


def test_a_wait_sees_what_changes(tmp_path: Path) -> None:
    wait = "wait until the scale shows a load for up to 20 s"
    one = world(tmp_path, condition="loaded=false;loaded=true@2")
    assert [each.outcome for each in did(one, [wait, wait])] == [Outcome.TIMEOUT, DONE]
    assert one.observe().result().conditions == {"the scale shows a load": True}


def test_it_is_a_world(tmp_path: Path) -> None:
    assert check_world(world(tmp_path), at_once=60.0) == []


def test_a_start_names_where_it_is_and_what_there_is(tmp_path: Path) -> None:
    one = world(tmp_path)
    one.attend("Bring the pills to Bob at the charger")
    text = one.observe().result().text
    assert text.startswith("You are a robot in pharmacy. Rooms: pharmacy, ward A")
    assert "Places: charger, counter, nurse desk. People: Bob, Anna." in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"fail": "lod=0.3"}, "fail: there is no skill 'lod'; did you mean 'load'?"),
        ({"fail": "load=3"}, "less than or equal to 1"),
        ({"condition": "peple=true"}, "condition: there is no 'peple'; did you mean 'people'?"),
        ({"condition": "people=yes"}, "'yes': write true, false, or true@3"),
        ({"returns": "load.wait=3"}, "'load' does not return 'wait'; did you mean 'weight'?"),
        ({"returns": "load.weight=99"}, "99 may not stand here"),
        ({"start": "countre"}, "start: 'countre' is nowhere on the map; did you mean 'counter'?"),
        ({"goal": {"hld": "pills"}}, "goal: 'hld' is nothing that can be needed; did you mean 'held'?"),
        ({"goal": {"held": "pils"}}, "goal: held: 'pils' is nothing on the map"),
        (
            {"goal": {"placed": "pills"}},
            "goal: placed: 'pills' names no place; write it like {pills: Anna}",
        ),
        ({"goal": {"placed": {"pils": "Anna"}}}, "goal: held: 'pils' is nothing on the map"),
        (
            {"goal": {"placed": {"pills": "Ana"}}},
            "goal: placed: 'Ana' is neither a place nor a person of the map; did you mean 'Anna'?",
        ),
        ({"goal": {"condition": "peple"}}, "'peple' is none of the conditions; did you mean 'people'?"),
    ],
)
def test_a_slip_in_the_settings_is_refused(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        world(tmp_path, **settings)
    assert said in str(refused.value)


# ---------------------------------------------------------------------- the commands


@pytest.fixture
def robot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    delivery_robot(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "replies.txt").write_text("".join(f"Act: {skill}\n" for skill in (*ERRAND, "done")))
    return tmp_path


def change(folder: Path, **changes: Any) -> None:
    file = folder / "robot.yaml"
    values = yaml.safe_load(file.read_text())
    for name, change in changes.items():
        values["skills"][name] |= change
    file.write_text(yaml.safe_dump(values, sort_keys=False))


TRY = ("robot", "try", "robot.yaml", "Bring the pills to Anna", "--condition", "people=false")
SCRIPT = ("--llm", "script", "--llm-option", "replies=replies.txt")


def test_an_instruction_is_tried_judged_by_the_policy_and_repeated(robot: Path, cli: Cli) -> None:
    given = (*SCRIPT, "--policy", "policy.yaml", "--save", "run.jsonl", "--goal", "at: nurse desk")
    assert cli(*TRY, *given).code == 0
    assert "identical" in cli("record", "replay", "run.jsonl").out
    (robot / "policy.yaml").write_text("rules: [{skill: load, verdict: deny}, {skill: navigate, verdict: allow}]")
    assert "You load" not in cli(*TRY, *SCRIPT, "--policy", "policy.yaml").out


#: A pose on the map, and what a skill needs to be one over ROS.
SPOT = {"pose": {axis: {"from": 0, "to": 9, "by": 0.5} for axis in "xy"}}
SERVICE = {"service": "s", "type": "std_srvs/srv/Trigger"}
LOOK = {"wording": "look for {who}", "parameters": {"who": "person"}, "returns": {"where": SPOT}, **SERVICE}
SPEED = {"number": {"from": 0.1, "to": 1.2, "by": 0.1, "unit": "m/s"}}
HOW = {"boolean": ["quietly", "as usual"], "default": False}


def test_who_drives_into_a_room_is_told_of_what_it_may_take_there(robot: Path, cli: Cli) -> None:
    box = {"parameters": {"box": {"thing": "GRABBABLE"}}, "requires": {"free": "hand"}, "effect": {"held": "box"}}
    config = yaml.safe_load((robot / "robot.yaml").read_text())
    config["skills"]["pick up"] = {"wording": "pick up {box}", **box, **SERVICE}
    (robot / "robot.yaml").write_text(yaml.safe_dump(config | {"hands": 1}, sort_keys=False))
    expected = [{"name": f"{one} 1", "at": "counter"} for one in ("pill box", "blood sample")]
    (robot / "map.yaml").write_text((robot / "map.yaml").read_text() + yaml.safe_dump({"expected": expected}))
    skills = ("navigate to ward A at 0.5 m/s", "navigate to pharmacy at 0.5 m/s", "pick up pill box 1")
    said = [*skills, "pick up blood sample 1", "done"]
    (robot / "replies.txt").write_text("".join(f"Act: {one}\n" for one in said))
    out = " ".join(cli(*TRY, *SCRIPT).out.split())
    (robot / "replies.txt").write_text("Act: pick up pill box 1\nAct: done\n")
    begun = " ".join(cli(*TRY, *SCRIPT, "--start", "nursery").out.split())
    assert "'pick up pill box 1' is not done: no pill box has been seen. Not searched yet: " in begun
    assert "You navigate to pharmacy at 0.5 m/s. You see blood sample (1), counter, pill box (1)." in out
    assert "You pick up pill box 1. You see blood sample (1), counter. You hold pill box (1)." in out
    assert "'pick up blood sample 1' is not done: you do not have an empty hand" in out


def test_what_a_skill_returned_is_said_by_its_name_and_judged_by_what_it_is(robot: Path, cli: Cli) -> None:
    config = yaml.safe_load((robot / "robot.yaml").read_text())
    config["skills"]["navigate"]["wording"] = "navigate to {place}[ at {speed} m/s]"
    config["skills"]["navigate"]["parameters"]["speed"]["default"] = 0.5
    config["skills"] |= {
        "look for": LOOK | {"result": {"where": "message"}},
        "come": {"wording": "come to {spot}[, {how}]", "parameters": {"spot": SPOT, "how": HOW}, **SERVICE},
    }
    (robot / "robot.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    denied = [{"skill": "say", "when": {"text": "some code"}}, {"skill": "come", "when": {"how": True}}]
    denied.append({"skill": "navigate", "when": {"speed": {"above": 0.8}}})
    allowed = [{"skill": one, "verdict": "allow"} for one in config["skills"]]
    rules = [*({**one, "verdict": "deny"} for one in denied), *allowed]
    said = {
        "say <code>": "<code> stands for nothing yet: no skill has returned it",
        "scan the barcode": "It returned code: some code.",
        "say Your code is <code>.": "the skill policy says deny for 'say Your code is some code.'",
        "look for Anna": "It returned where: x 0, y 0, yaw 0.",
        "come to <where>": "You come to x 0, y 0, yaw 0.",
        "come to <where>, quietly": "says deny for 'come to x 0, y 0, yaw 0, quietly' (how: quietly)",
        "come to <code>": "spot: 'some code' may not stand here, but a pose such as",
        "navigate to counter at 0.5 m/s": "You navigate to counter.",
        "navigate to nurse desk at 0.9 m/s": "says deny",
    }
    (robot / "policy.yaml").write_text(yaml.safe_dump({"rules": rules}))
    (robot / "replies.txt").write_text("".join(f"Act: {one}\n" for one in (*said, "done")))
    out = " ".join(cli(*TRY, *SCRIPT, "--policy", "policy.yaml", "--save", "run.jsonl").out.split())
    assert [one for one in said.values() if one not in out] == []
    assert "identical" in cli("record", "replay", "run.jsonl").out


def test_a_script_that_ends_early_says_so(robot: Path, cli: Cli) -> None:
    (robot / "replies.txt").write_text("# what I want\nAct: open drawer 1\n\n")
    ended = cli(*TRY, *SCRIPT)
    assert ended.code == 1
    assert "replies.txt has ended after 1 replies, and one more is asked for; add it" in ended.out.replace("\n", " ")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--llm", "script"), "replies is missing; name a file with a reply a line"),
        ((*SCRIPT, "--fail", "lod=1"), "did you mean 'load'"),
        ((*SCRIPT, "--world-option", "x=1"), "No such option"),
    ],
)
def test_what_cannot_be_tried_is_said(robot: Path, cli: Cli, given: tuple[str, ...], said: str) -> None:
    ended = cli(*TRY, *given)
    assert ended.code == 2
    assert said in ended.err


def test_a_map_over_ros_is_no_map_here(robot: Path, cli: Cli) -> None:
    file = robot / "robot.yaml"
    file.write_text(file.read_text().replace("map: map.yaml", "map_topic: house"))
    assert "save that map as a file" in cli(*TRY, *SCRIPT).err


def test_examples_of_own_skills_are_those_that_reached_their_goal(robot: Path, cli: Cli) -> None:
    replies = [f"Act: {skill}" for skill in (*ERRAND, "done")]
    common = {"condition": {"people": False}}
    tasks = [
        {"instruction": "Bring the pills to Anna", "goal": {"at": "nurse desk"}, "replies": replies, **common},
        {"instruction": "Load the pills", "goal": {"held": "pills"}, "replies": ["Act: done"], **common},
    ]
    (robot / "tasks.yaml").write_text(yaml.safe_dump({"tasks": tasks}))
    ended = cli("robot", "examples", "robot.yaml", "tasks.yaml", "mine.jsonl")
    assert ended.code == 1
    assert "1 experiences of 1 runs" in ended.out
    shown = cli(*TRY, *SCRIPT, "--memory", "examples:path=mine.jsonl", "--save", "run.jsonl")
    assert shown.code == 0
    (found,) = (line for line in (robot / "run.jsonl").read_text().splitlines() if '"e":"retrieved"' in line)
    assert "You load the pills into drawer 3." in found
    assert "fridge" not in found


# ---------------------------------------------------------------------- the check without ROS


@pytest.mark.parametrize(
    ("skill", "entry", "level", "said"),
    [
        ("load", {"effect": {}}, "wrong", "it needs what is held, and no skill has that effect"),
        ("navigate", {"requires": {"number": {"speed": {"at_least": 2}}}}, "wrong", "speed is never at least 2"),
        ("navigate", {"requires": {"at": "countre"}}, "wrong", "did you mean 'counter'?"),
        ("dock", {"effect": {"on": "lamp {floor}"}}, "wrong", "floor"),
        (
            "navigate",
            {"parameters": {"place": "room", "speed": SPEED}},
            "wrong",
            "you are at counter, and no skill leads",
        ),
        ("hand over", {"requires": {"at": "{person}"}}, "wrong", "you are at {person}, and no skill leads there"),
    ],
)
def test_a_check_of_the_files_finds_what_can_never_be(
    robot: Path, skill: str, entry: dict[str, Any], level: str, said: str
) -> None:
    policy = yaml.safe_load((robot / "policy.yaml").read_text())
    policy["rules"].insert(0, {"skill": "navigate", "when": {"condition": "people"}, "verdict": "confirm"})
    (robot / "policy.yaml").write_text(yaml.safe_dump(policy))
    assert {one.level.value for one in check_files(robot / "robot.yaml", policy=robot / "policy.yaml")} == {
        "right",
        "note",
    }
    change(robot, **{skill: entry})
    found = check_files(robot / "robot.yaml", policy=None)
    assert [one.level.value for one in found if said in one.said] == [level]


def test_a_check_says_that_types_were_not_looked_at(robot: Path) -> None:
    hidden = "import sys; sys.modules['rclpy'] = None; from reactree_ros.cli import program; program()"
    done = subprocess.run(
        [sys.executable, "-c", hidden, "robot", "check", "robot.yaml"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "not looked at: types" in done.stdout


def test_a_routine_is_tried_here_before_it_is_kept(robot: Path) -> None:
    goal = {"at": "nurse desk", "not": {"held": "pills"}}
    settings = read_settings(
        DeclaredSettings, {"robot": "robot.yaml", "goal": goal, "condition": "people=false"}, where="test"
    )
    model = (MODELS.get("script"), MODELS.get("script").settings())
    spec = RunSpec.in_place(Place.from_settings(SPEC, settings), "Bring the pills to Anna", llm=model, planner="react")
    worlds = again(spec)
    assert worlds is not None

    def learn(skills: Sequence[str]) -> Routine:
        with worlds(0) as one:
            said = ScriptModel([f"Act: {skill}" for skill in (*skills, "done")], "the script")
            episode = assemble(spec, world=one, model=said)
            episode.run()
            return learnt(episode.root, vocabulary_of(one), run="a run")

    assert tried_out(learn(ERRAND), spec.instruction, worlds) == ""
    assert "ends as if all were done where it is not" in tried_out(learn(ERRAND[:5]), spec.instruction, worlds)


def test_keep_tries_a_routine_in_the_world_of_the_run_or_of_a_named_robot(robot: Path, cli: Cli) -> None:
    cli(*TRY, *SCRIPT, "--save", "run.jsonl", "--start", "nurse desk")
    keep = ("routine", "keep", "run.jsonl", "--memory", "m.db")
    assert (cli(*keep).code, cli(*keep, "--robot", "robot.yaml").code) == (0, 0)
    change(robot, load={"requires": {"at": "charger"}})
    for more in ((), ("--robot", "robot.yaml")):
        said = cli(*keep, *more).err
        assert "no routine is kept: it does not do the same task again" in said
        assert "you are not at charger" in said


def test_a_person_decides_and_nobody_is_not_waited_for(robot: Path, cli: Cli) -> None:
    said = " ".join(cli(*TRY).out.split())
    assert "nobody can decide here: nothing can be typed; add --view, or name what decides with --llm" in said
    assert said.count("nobody can decide here") == 1
    model, desk = PersonModel(), Desk()
    model.person = desk
    reply = model.decide(DecisionRequest((Told("You are a robot."),), FreeText()))
    assert desk.next is not None
    desk.answer(desk.next.number, "Act: dock")
    assert reply.result(timeout=1).text == "Act: dock"
    known = Told("You are at the counter.", About.KNOWN)
    gone = model.decide(DecisionRequest((Said("Act: dock"), Told("Not now.", About.REFUSAL), known), FreeText()))
    assert desk.next is not None
    assert desk.next.question.text == "Not now. You are at the counter. What next?"
    desk.leave()
    with pytest.raises(RequestRejected, match="the person has left"):
        gone.result(timeout=1)
