"""The AI2-THOR world: the real client, against a peer process that plays the simulator."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
import thor_peer
from thor_trials import setup_of, trial_of, world_of

from reactree_lab.worlds.ai2thor import world as simulator
from reactree_lab.worlds.ai2thor.alfred import Trial, load_trials
from reactree_lab.worlds.ai2thor.player import Player
from reactree_lab.worlds.ai2thor.world import Ai2ThorWorld, Simulator
from reactree_ros.agent.observation import Spot
from reactree_ros.agent.picture import PICTURES
from reactree_ros.errors import UserError
from reactree_ros.world.check import check_world
from reactree_ros.world.port import GONE, Observation, Outcome, Score, WorldError

pytestmark = pytest.mark.worlds
pytest.importorskip("ai2thor", reason="needs the package ai2thor")

PEER = Path(thor_peer.__file__)
LIMIT = 20.0  # of any wait here, in seconds


@pytest.fixture
def open_world() -> Iterator[Callable[..., tuple[Ai2ThorWorld, subprocess.Popen[str]]]]:
    """Make worlds with a peer each; all of them end with the test."""
    worlds: list[Ai2ThorWorld] = []
    peers: list[subprocess.Popen[str]] = []

    def start(
        *, mode: str = "none", at: str = "", world: Ai2ThorWorld | None = None, **options: Any
    ) -> tuple[Ai2ThorWorld, subprocess.Popen[str]]:
        if world is None:
            world = world_of(**options)
            worlds.append(world)
        command = [sys.executable, str(PEER), "--port", str(world.port), "--mode", mode, "--at", at]
        peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        peers.append(peer)
        return world, peer

    yield start
    for world in worlds:
        world.close()
    for peer in peers:
        peer.kill()
        peer.communicate()


OpenWorld = Callable[..., tuple[Ai2ThorWorld, "subprocess.Popen[str]"]]


def metadata(world: Ai2ThorWorld) -> dict[str, Any]:
    """What the simulator said last."""
    assert world._simulator is not None
    return world._simulator.metadata


def objects(world: Ai2ThorWorld, kind: str) -> list[dict[str, Any]]:
    return [thing for thing in metadata(world)["objects"] if thing["objectType"] == kind]


class Robot:
    """Carries out skills one by one."""

    def __init__(self, world: Ai2ThorWorld) -> None:
        self.world = world
        world.reset().result(LIMIT)

    def try_(self, skill: str) -> Observation:
        return self.world.execute(skill).result(LIMIT)

    def do(self, *skills: str) -> Observation:
        observation = Observation("")
        for skill in skills:
            assert skill in self.skills()
            observation = self.try_(skill)
            assert observation.outcome is Outcome.DONE, observation
        return observation

    def skills(self) -> list[str]:
        return list(self.world.available_skills().result(LIMIT))

    def places(self) -> list[str]:
        self.world.observe().result(LIMIT)
        return [skill.removeprefix("go to ") for skill in self.skills() if skill.startswith("go to ")]

    def find(self, word: str, *, sliced: bool = False, but_not_at: str = "") -> str:
        """Look at one place after the other, into what is closed, too, until something is seen there."""
        for place in self.places():
            if place == but_not_at:
                continue
            observation = self.do(f"go to {place}")
            if f"{place} is closed" in observation.text:
                observation = self.do(f"open {place}")
            for seen in observation.seen:
                if seen.word == word and ("SLICED" in seen.states) == sliced:
                    return f"{word} ({seen.instance})"
            if observation.looked_into:
                self.do(f"close {place}")
        raise AssertionError(f"no {word} is to be found")

    def fetch(self, word: str, *, but_not_at: str = "") -> str:
        name = self.find(word, but_not_at=but_not_at)
        self.do(f"pick up {name}")
        return name

    def put(self, name: str, place: str) -> None:
        self.do(f"go to {place}", f"put down {name}")

    def score(self) -> Score | None:
        return self.world.score().result(LIMIT)


def place(robot: Robot) -> None:
    robot.put(robot.fetch("CellPhone"), "Bed (1)")


def place_two(robot: Robot) -> None:
    for _ in range(2):
        robot.put(robot.fetch("RemoteControl", but_not_at="CoffeeTable (1)"), "CoffeeTable (1)")


def look_in_light(robot: Robot) -> None:
    robot.fetch("Book")
    robot.do("go to Desk (1)", "turn on DeskLamp (1)")


def clean(robot: Robot) -> None:
    name = robot.fetch("Cloth")
    robot.put(name, "SinkBasin (1)")
    robot.do("turn on Faucet (1)", "turn off Faucet (1)", f"pick up {name}")
    robot.put(name, "CounterTop (1)")


def heat(robot: Robot) -> None:
    name, oven = robot.fetch("Potato"), "Microwave (1)"
    robot.do(f"go to {oven}", f"open {oven}", f"put down {name}", f"close {oven}")
    robot.do(f"turn on {oven}", f"turn off {oven}", f"open {oven}", f"pick up {name}", f"close {oven}")
    robot.put(name, "DiningTable (1)")


def cool_slice(robot: Robot) -> None:
    knife = robot.fetch("Knife")
    robot.do(f"slice {robot.find('Apple')}", f"put down {knife}")
    name = robot.find("Apple", sliced=True)
    robot.do(f"pick up {name}", "go to Fridge (1)", "open Fridge (1)", f"put down {name}", "close Fridge (1)")
    robot.do("open Fridge (1)", f"pick up {name}", "close Fridge (1)")
    robot.put(name, "SideTable (1)")


def stack(robot: Robot) -> None:
    spoon = robot.fetch("Spoon")
    mug = robot.find("Mug")
    robot.do(f"go to {mug}", f"put down {spoon}", f"pick up {mug}")
    robot.put(mug, "SideTable (1)")


SEVEN: list[tuple[Trial, Callable[[Robot], None]]] = [
    (trial_of("pick_and_place_simple", "FloorPlan301", "CellPhone", to="Bed"), place),
    (trial_of("pick_two_obj_and_place", "FloorPlan201", "RemoteControl", to="CoffeeTable"), place_two),
    (trial_of("look_at_obj_in_light", "FloorPlan301", "Book", lamp="DeskLamp"), look_in_light),
    (trial_of("pick_clean_then_place_in_recep", "FloorPlan401", "Cloth", to="CounterTop"), clean),
    (trial_of("pick_heat_then_place_in_recep", "FloorPlan1", "Potato", to="DiningTable"), heat),
    (trial_of("pick_cool_then_place_in_recep", "FloorPlan1", "Apple", to="SideTable", sliced=True), cool_slice),
    (trial_of("pick_and_place_with_movable_recep", "FloorPlan1", "Spoon", to="SideTable", carrier="Mug"), stack),
]


@pytest.mark.parametrize(("trial", "policy"), SEVEN, ids=[trial.task_type.value for trial, _ in SEVEN])
def test_each_of_the_seven_task_types_is_carried_out_to_its_goal(
    open_world: OpenWorld, trial: Trial, policy: Callable[[Robot], None]
) -> None:
    world, _ = open_world(trial=trial)
    robot = Robot(world)
    before = robot.score()
    assert before is not None
    assert before.gsr == 0.0
    policy(robot)
    after = robot.score()
    assert after == Score(gsr=1.0, ssr=1.0)
    world.reset().result(LIMIT)
    assert robot.score() == before


def test_a_scene_without_a_trial_has_no_score(open_world: OpenWorld) -> None:
    world, _ = open_world(scene="FloorPlan401")
    assert world.observe().result(LIMIT).text == (
        "You are in the house, and you arrive at the bathroom, Looking quickly around the room, you see "
        "TowelHolder (1), Toilet (1), ToiletPaperHanger (1), SinkBasin (1), Shelf (1), HandTowelHolder (1), "
        "GarbageCan (1), CounterTop (1), Cabinet (1, 2), BathtubBasin (1)."
    )
    assert world.score().result(LIMIT) is None


def test_pictures_are_taken_where_they_are_asked_for(open_world: OpenWorld) -> None:
    world, _ = open_world(scene="FloorPlan401", pictures=True)
    for observation in (world.observe(), world.execute("go to Toilet (1)")):
        (picture,) = observation.result(LIMIT).pictures
        assert (picture.media, picture.width, picture.height) == ("image/png", 32, 32)
        assert (PICTURES.data(picture) or b"").startswith(b"\x89PNG")


def test_an_observation_says_where_the_agent_is_and_what_it_sees(open_world: OpenWorld) -> None:
    world, _ = open_world(scene="FloorPlan401")
    around = world.observe().result(LIMIT)
    agent, toilet = metadata(world)["agent"], objects(world, "Toilet")[0]
    assert around.spots[0] == Spot("", agent["position"]["x"], agent["position"]["z"], math.pi / 2)
    assert Spot("Toilet (1)", toilet["position"]["x"], toilet["position"]["z"]) in around.spots
    assert len(around.spots) == 12, "the agent and what is fixed"
    there = world.execute("go to CounterTop (1)").result(LIMIT)
    agent = metadata(world)["agent"]
    yaw = math.radians(90 - agent["rotation"]["y"])
    assert there.spots[0] == Spot("", agent["position"]["x"], agent["position"]["z"], yaw)
    assert [spot.name for spot in there.spots[1:]] == [f"{seen.word} {seen.instance}" for seen in there.seen] != []
    assert there.spots[0] != around.spots[0]


def test_a_trial_whose_goal_is_not_asked_for_has_no_score(open_world: OpenWorld) -> None:
    world, _ = open_world(trial=SEVEN[0][0], scored=False)
    assert world.observe().result(LIMIT).pictures == ()
    assert world.score().result(LIMIT) is None


def test_a_reset_gives_the_first_observation(open_world: OpenWorld) -> None:
    world, _ = open_world(scene="FloorPlan401")
    first = world.reset(seed=3).result(LIMIT)
    assert first == world.observe().result(LIMIT)
    world.execute("go to Toilet (1)").result(LIMIT)
    assert world.reset(seed=3).result(LIMIT) == first


def test_the_world_keeps_to_the_port(open_world: OpenWorld) -> None:
    world, _ = open_world(trial=SEVEN[0][0])
    assert check_world(world, tries=12, at_once=LIMIT, timeout=LIMIT) == []


@pytest.mark.parametrize(
    ("at", "skill", "text"),
    [
        ("PickupObject", "pick up CellPhone (1)", "You tried to pick up CellPhone (1), but it is not in your hand."),
        ("PutObject", "put down CellPhone (1)", "You tried to put CellPhone (1) on Bed (1), but it is not there."),
    ],
)
def test_what_the_simulator_says_is_done_but_does_not_hold_is_told(
    open_world: OpenWorld, at: str, skill: str, text: str
) -> None:
    robot = Robot(open_world(scene="FloorPlan301", mode="slip", at=at)[0])
    robot.do("go to Dresser (1)")
    if at == "PutObject":
        robot.do("pick up CellPhone (1)", "go to Bed (1)")
    slipped = robot.try_(skill)
    assert slipped.outcome is Outcome.POSTCONDITION
    assert slipped.text.startswith(f"{text} You see ")
    assert "I am holding" not in slipped.text
    assert slipped.seen == ()


def test_only_what_is_visible_is_observed_and_offered(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan1")[0])
    closed = robot.do("go to Fridge (1)")
    assert closed.text.endswith("Fridge (1) is closed. ")
    assert (closed.looked_into, [seen.word for seen in closed.seen]) == (None, [])
    assert not any("Lettuce" in skill for skill in robot.skills())
    opened = robot.do("open Fridge (1)")
    assert opened.looked_into == "Fridge (1)"
    assert {(seen.word, seen.place) for seen in opened.seen} == {
        (word, "Fridge (1)") for word in ("Egg", "Lettuce", "Tomato")
    }
    assert "pick up Lettuce (1)" in robot.skills()
    assert robot.try_("pick up Knife (1)").text == "The Knife (1) is not close to you."


def test_a_pick_up_and_a_put_down_are_seen_and_said_as_recorded(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan301")[0])
    robot.do("go to Dresser (1)")
    picked = robot.do("pick up CellPhone (1)")
    assert picked.text == (
        "You pick up CellPhone (1). You see Dresser (1), Drawer (1, 2), CreditCard (1), CellPhone (1). "
        "I am holding CellPhone (1) now."
    )
    assert [(seen.word, seen.instance, seen.held) for seen in picked.seen] == [("CellPhone", 1, True)]
    put = robot.do("go to Bed (1)", "put down CellPhone (1)")
    assert put.text.startswith("You put CellPhone (1) on Bed (1). You see ")
    assert [(seen.word, seen.place) for seen in put.seen] == [("CellPhone", "Bed (1)")]


def test_where_a_target_cannot_be_seen_from_the_nearest_positions_others_are_tried(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan301")[0])  # the safe is seen from its front alone
    assert "Safe (1)" in robot.do("go to Safe (1)").text.partition("You see")[2]
    assert "Watch (1)" in robot.do("open Safe (1)").text


def test_the_simulators_own_poses_can_be_used_instead(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan1", interactable_poses=True)[0])
    assert "Microwave (1)" in robot.do("go to Microwave (1)").text.partition("You see")[2]


def test_the_agent_steps_back_from_what_opens_into_it(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan301")[0])
    assert robot.do("go to Drawer (2)", "open Drawer (2)").text.startswith("You open Drawer (2). You see ")


@pytest.mark.parametrize(("force", "outcome"), [(False, Outcome.PRECONDITION), (True, Outcome.DONE)])
def test_actions_are_forced_where_that_is_asked_for(open_world: OpenWorld, force: bool, outcome: Outcome) -> None:
    robot = Robot(open_world(scene="FloorPlan1", force=force)[0])
    robot.do("go to SideTable (1)")
    assert robot.try_("pick up Knife (1)").outcome is outcome


def test_what_is_put_down_goes_to_the_receptacle_of_what_the_agent_went_to(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan1")[0])
    knife = robot.fetch("Knife")
    robot.do("go to SinkBasin (1)", "go to Faucet (1)")
    assert robot.do(f"put down {knife}").text.startswith(f"You put {knife} on SinkBasin (1).")
    robot.do("pick up Knife (1)", "go to DiningTable (1)", "go to Tomato (2)")
    assert robot.do(f"put down {knife}").text.startswith(f"You put {knife} on DiningTable (1).")


def test_what_cannot_be_put_down_is_dropped_as_recorded(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan401")[0])
    soap = robot.fetch("SoapBar")
    robot.do("go to ToiletPaperHanger (1)")
    dropped = robot.try_(f"put down {soap}")
    assert dropped.outcome is Outcome.EXECUTION
    assert dropped.text.startswith("You put down failed, drop it. You see ")
    assert robot.try_(f"put down {soap}").text == "You do not holding any object."


def test_slices_are_named_in_the_observation(open_world: OpenWorld) -> None:
    robot = Robot(open_world(scene="FloorPlan1")[0])
    robot.fetch("Knife")
    robot.do("go to DiningTable (1)")
    sliced = robot.do("slice Tomato (2)")
    assert sliced.text.startswith("You slice Tomato (2). You see Tomato (")
    assert sliced.text.endswith(" are sliced. I am holding Knife (1) now.")
    pieces = [f"Tomato ({seen.instance})" for seen in sliced.seen if "SLICED" in seen.states]
    assert len(pieces) == 3
    assert f". Tomato ({', '.join(piece[8:-1] for piece in pieces)}) are sliced." in sliced.text
    gone, *there, knife = sliced.seen
    assert (knife.word, knife.held) == ("Knife", True)
    assert (gone.instance, gone.states) == (2, (GONE,))
    assert {seen.place for seen in there} == {"DiningTable (1)"}
    assert robot.try_("slice Apple (9)").outcome is Outcome.UNKNOWN_SKILL


@pytest.mark.parametrize(
    ("skill", "outcome", "text"),
    [
        ("go to Moon (1)", Outcome.UNKNOWN_SKILL, "Cannot find Moon (1)."),
        ("slice Moon (1)", Outcome.UNKNOWN_SKILL, "Cannot find Moon (1) to slice."),
        ("eat Apple (1)", Outcome.UNKNOWN_SKILL, "'eat Apple (1)' is not a skill."),
        ("turn on Fridge (1)", Outcome.PRECONDITION, "The Fridge (1) cannot be turn on."),
        ("close Fridge (1)", Outcome.PRECONDITION, "The Fridge (1) is already closed."),
        ("slice Fridge (1)", Outcome.PRECONDITION, "The Fridge (1) cannot be sliced."),
        ("pick up Fridge (1)", Outcome.PRECONDITION, "The Fridge (1) cannot be pick up."),
        ("put down Apple (1)", Outcome.PRECONDITION, "You do not holding any object."),
    ],
)
def test_a_refusal_is_an_observation(open_world: OpenWorld, skill: str, outcome: Outcome, text: str) -> None:
    robot = Robot(open_world(scene="FloorPlan1")[0])
    robot.do("go to Fridge (1)")
    refused = robot.try_(skill)
    assert refused.outcome is outcome
    assert refused.text.startswith(text)


def test_a_trial_is_restored_with_names_that_are_gone_copies_toggles_and_dirt(open_world: OpenWorld) -> None:
    setup = setup_of("FloorPlan1")
    poses = setup["object_poses"]
    apples = [pose for pose in poses if pose["objectName"].startswith("Apple")]
    for pose in apples:  # the names of another release of the simulator
        pose["objectName"] = "Apple_0ld"
    side_table = {"x": 4.7, "y": 0.8, "z": 2.5}
    poses.append({"objectName": "Apple_0ld", "position": side_table, "rotation": {"x": 0.0, "y": 0.0, "z": 0.0}})
    poses.append({**poses[-1], "objectName": "Statue_1"})  # the kitchen has none
    poses[:] = [pose for pose in poses if not pose["objectName"].startswith("Egg")]
    setup.update(dirty_and_empty=True, object_toggles=[{"objectType": "CoffeeMachine", "isOn": True}])
    trial = trial_of("pick_and_place_simple", "FloorPlan1", "Apple", to="SideTable")
    trial = Trial.model_validate({**trial.model_dump(by_alias=True, mode="json"), "scene": setup})
    world, _ = open_world(trial=trial)
    robot = Robot(world)
    agent, mugs = metadata(world)["agent"], objects(world, "Mug")
    assert (agent["position"]["x"], agent["position"]["z"], agent["cameraHorizon"]) == (2.0, 1.5, 30)
    assert agent["rotation"]["y"] == 180
    assert [mug["isDirty"] for mug in mugs] == [True, True]
    assert robot.score() == Score(gsr=1.0, ssr=1.0)
    assert "Apple (1)" in robot.do("go to SideTable (1)").text
    assert "is already turned on" in robot.do("go to CoffeeMachine (1)").text
    assert "Chair (1)" in robot.do("go to DiningTable (1)").text  # furniture stays
    assert not any(skill.startswith("go to Egg") for skill in robot.skills())
    mug = robot.fetch("Mug")
    robot.put(mug, "SinkBasin (1)")
    robot.do("turn on Faucet (1)")
    assert [mug["isDirty"] for mug in objects(world, "Mug")].count(False) == 1


def test_everything_that_a_trial_does_not_move_is_where_it_was(open_world: OpenWorld) -> None:
    for trial, _ in SEVEN[:2]:
        world, _ = open_world(trial=trial)
        world.reset().result(LIMIT)
        house = thor_peer.House()
        house.load(trial.scene.floor_plan)
        before = {thing["objectId"]: thing["parentReceptacles"] for thing in house.metadata("")["objects"]}
        assert {thing["objectId"]: thing["parentReceptacles"] for thing in metadata(world)["objects"]} == before


def test_where_the_agent_cannot_stand_at_the_start_it_stands_nearby(open_world: OpenWorld) -> None:
    setup = setup_of("FloorPlan301")
    setup["init_action"].update(x=3.0, z=0.75)  # there is the chair, or whatever keeps the agent away
    trial = Trial.model_validate({**SEVEN[0][0].model_dump(by_alias=True, mode="json"), "scene": setup})
    world, _ = open_world(trial=trial)
    world.reset().result(LIMIT)
    position = metadata(world)["agent"]["position"]
    assert 0 < abs(position["x"] - 3.0) + abs(position["z"] - 0.75) < 0.6


def test_a_skill_that_is_cancelled_ends_after_the_simulator_action_that_runs(open_world: OpenWorld) -> None:
    world, peer = open_world(scene="FloorPlan1", mode="wait", at="GetReachablePositions")
    world.reset().result(LIMIT)
    going, waiting = world.execute("go to Fridge (1)"), world.execute("open Fridge (1)")
    assert peer.stdout is not None
    assert peer.stdout.readline() == "waiting\n"
    going.cancel()
    waiting.cancel()
    resting = world.at_rest()
    assert not resting.done()
    assert peer.stdin is not None
    peer.stdin.write("\n")
    peer.stdin.flush()
    resting.result(LIMIT)
    with pytest.raises(CancelledError):
        going.result()
    assert world.execute("close Fridge (1)").result(LIMIT).text == "The Fridge (1) is already closed."
    assert world.execute("go to Toaster (1)").result(LIMIT).outcome is Outcome.DONE


def test_nothing_moves_in_a_world_that_was_never_used() -> None:
    world = world_of(scene="FloorPlan1")
    world.at_rest().result(LIMIT)
    world.close()
    with pytest.raises(WorldError, match="was closed"):
        world.observe().result(0)


WRONG = {
    **dict.fromkeys(("hang", "garbage", "half"), "it does not answer within 1 s"),
    "no-objects": "it sent metadata that cannot be used: 'objectId'",
}


@pytest.mark.parametrize("mode", WRONG)
def test_a_peer_that_goes_wrong_is_one_clear_line_in_time_and_a_reset_starts_anew(
    open_world: OpenWorld, mode: str
) -> None:
    world, _ = open_world(scene="FloorPlan1", mode=mode, at="OpenObject", time_limit=1.0)
    robot = Robot(world)
    robot.do("go to Fridge (1)")
    begin = time.monotonic()
    opening, next_one = world.execute("open Fridge (1)"), world.observe()
    with pytest.raises(WorldError) as error:
        opening.result(LIMIT)
    assert time.monotonic() - begin < 5
    message = str(error.value)
    assert message.startswith(f"AI2-THOR at 127.0.0.1:{world.port} is gone: {WRONG[mode]}")
    assert "\n" not in message
    for pending in (next_one, world.observe(), world.execute("go to Fridge (1)")):
        with pytest.raises(WorldError, match="a reset starts anew"):
            pending.result(LIMIT)
    resetting = world.reset()
    open_world(world=world)
    resetting.result(LIMIT)
    assert robot.do("go to Fridge (1)", "open Fridge (1)").outcome is Outcome.DONE


def test_a_start_that_nobody_answers_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulator, "START_LIMIT", 1.0)
    world = world_of(scene="FloorPlan1", time_limit=0.25)
    with pytest.raises(WorldError, match=rf"127\.0\.0\.1:{world.port} is gone: it does not answer within 2 s"):
        world.observe().result(LIMIT)
    world.close()


def test_a_scene_that_the_build_lacks_is_one_clear_line(open_world: OpenWorld) -> None:
    world, _ = open_world(scene="FloorPlan2")
    with pytest.raises(WorldError, match=r"is gone: Scene 'FloorPlan2_physics' not contained") as error:
        world.reset().result(LIMIT)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scene": "FloorPlan99"}, "unknown scene 'FloorPlan99'"),
        ({"scene": "FloorPlan1", "host": "192.0.2.1", "headless": True}, "cannot listen on 192.0.2.1:0"),
        ({"scene": "FloorPlan1", "executable": "/no/thor"}, "executable '/no/thor' of AI2-THOR is not a file that can"),
        ({"scene": "FloorPlan1"}, "AI2-THOR has no display: give display, e.g. ':0', or headless"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], message: str
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(UserError, match=message):
        world_of(start_simulator=True, **options)


def test_a_port_that_is_taken_is_one_clear_line(open_world: OpenWorld) -> None:
    world, _ = open_world(scene="FloorPlan1")
    world.reset().result(LIMIT)
    with pytest.raises(UserError, match=rf"cannot listen on 127\.0\.0\.1:{world.port} for AI2-THOR"):
        world_of(scene="FloorPlan1", port=world.port)


def test_the_simulator_is_started_as_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    import ai2thor.controller
    from ai2thor.platform import CloudRendering

    asked: dict[str, Any] = {}

    class Controller:
        def __init__(self, **arguments: Any) -> None:
            asked.update(arguments)
            raise ValueError("there is no simulator in this test\nat all")

    monkeypatch.setattr(ai2thor.controller, "Controller", Controller)
    world = world_of(scene="FloorPlan301", start_simulator=True, headless=True, executable=sys.executable, display=":1")
    simulator = Simulator(world._settings, world.port)
    monkeypatch.setattr(simulator, "_do", lambda limit, *request: request)
    _, *arguments = simulator.load(world.scene)
    with pytest.raises(RuntimeError, match=r"^there is no simulator in this test$"):
        Player().start(*arguments)
    world.close()
    assert asked["platform"] is CloudRendering
    assert asked["start_unity"] is True
    assert (asked["local_executable_path"], asked["x_display"]) == (sys.executable, ":1")
    assert (asked["gridSize"], asked["visibilityDistance"]) == (0.25, 1.5)


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 3", r"AI2-THOR ended with code 3, see ~/\.ai2thor/log/unity\.log"),
        ("exec sleep 60", "does not answer within 4 s"),
    ],
)
def test_a_simulator_that_ends_or_hangs_at_its_start_is_one_clear_line_in_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, message: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(simulator, "START_LIMIT", 3.0)
    executable = tmp_path / "thor"
    executable.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\n{script}\n", encoding="utf-8")
    executable.chmod(0o755)
    world = world_of(
        scene="FloorPlan1", start_simulator=True, executable=str(executable), display=":99", time_limit=0.25
    )
    with pytest.raises(WorldError, match=message) as error:
        world.reset().result(LIMIT)
    assert "\n" not in str(error.value)
    world.close()
    started = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    end = time.monotonic() + LIMIT
    while started.exists() and started.read_bytes() and time.monotonic() < end:
        threading.Event().wait(0.02)
    assert not (started.exists() and started.read_bytes()), "it ends with its client"


def test_worlds_are_made_of_the_trials_of_valid_seen() -> None:
    path = Path(__file__).resolve().parents[6] / "shared" / "data" / "alfred" / "valid_seen.jsonl"
    if not path.exists():
        pytest.skip("the test material ../shared/data/alfred is not here")
    worlds = [world_of(trial=trial) for trial in load_trials(path)]
    assert len({world.scene for world in worlds}) > 50
