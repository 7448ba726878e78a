"""What a robot sees is kept from start to start over a real ROS, and what nobody listed has a name."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel
from ros_graph import Graph

if importlib.util.find_spec("nav2_msgs"):
    from rcl_interfaces.srv import ListParameters
    from reactree_interfaces.srv import Observe
    from robot_house import House, Result
    from robot_servers import LATCHED
    from std_msgs.msg import String

    from reactree_ros.agent.observation import REMEMBERED
    from reactree_ros.memory.house_map import HouseMap, Place
else:
    pytest.skip("needs nav2_msgs", allow_module_level=True)


KNOWN = {"apple": "apple"}
OTHERS = {"min_score": 0.5, "times": 3, "never": ["pudding"]}


def as_reported(config: dict[str, Any]) -> None:
    """Tf may be behind while two bridges share a busy machine: a drive that is reported to be done is."""
    config["arrived_within"] = 0.0


@pytest.fixture
def house(house: House) -> House:
    house.change_map(lambda values: values["objects"].update(classes=KNOWN, others=OTHERS) or values.pop("expected"))
    house.add_robot().house._classes["cup"] = "cup"
    return house


def kept(path: Path) -> dict[str, Place]:
    """Where what the file knows is, once a bridge has written it."""
    with HouseMap(path, "robot") as one:
        return {belief.thing.name: belief.spot.place for belief in one.beliefs()}


def observe(house: House, goal: str = "") -> Any:
    return house.graph.call(Observe, "robot_bridge/observe", goal=goal).observation


def restart(house: House, **parameters: Any) -> None:
    house.graph.kill(house.bridge)
    house.start(as_reported, alone=True, **parameters)


def test_a_restarted_bridge_knows_what_was_seen_and_tells_it_without_a_word(house: House, tmp_path: Path) -> None:
    path = tmp_path / "house.map"
    house.start(as_reported, alone=True, house_map=str(path))
    house.does("go to kitchen table 1")
    house.until(lambda: "cup 1" in kept(path), "the cup is kept")
    assert kept(path)["cup 1"].name == "kitchen table 1"
    assert "pudding 1" not in kept(path)  # the map forbids it
    house.robot.blind = True
    restart(house, house_map=str(path))
    cup = house.map.by_name["cup 1"]
    assert (cup.seen, house.map.place_of(cup).name) == (None, "kitchen table 1")
    told = [one for one in observe(house, "Bring the cup").objects if REMEMBERED in one.states]
    assert [(one.word, one.place, one.room) for one in told if one.word == "cup"] == [
        ("cup", "kitchen table 1", "kitchen 1")
    ]
    assert house.fails("pick up cup 1")[0] == Result.PRECONDITION  # it was not seen since
    restart(house)  # without a file nothing is kept
    assert list(house.map.items()) == []


def test_without_a_file_nothing_is_kept(house: House, tmp_path: Path) -> None:
    house.start(as_reported, alone=True)
    house.does("go to kitchen table 1")
    house.graph.until(lambda: "cup 1" in house.map.by_name, "the cup is seen")
    house.robot.blind = True
    restart(house)
    assert list(house.map.items()) == []
    assert not list(tmp_path.glob("*.map"))


def test_what_is_not_where_it_was_is_missed(house: House, tmp_path: Path) -> None:
    path = tmp_path / "house.map"
    house.start(house_map=str(path))
    house.does("go to kitchen table 1")
    house.until(lambda: "cup 1" in kept(path), "the cup is kept")
    house.does("go to bed 1")
    house.robot.house.objects["cup"] = (1.0, 7.0, 0.6)  # on the bed, out of sight of the table
    house.does("go to kitchen table 1")

    def missed() -> bool:
        with HouseMap(path, "robot") as one:
            (belief,) = one.beliefs("cup")
            return belief.spot.in_vain == 1

    house.until(missed, "it is missed")


def test_a_file_that_is_no_map_keeps_the_bridge_from_starting(house: House, tmp_path: Path) -> None:
    path = tmp_path / "text.map"
    path.write_text("no map, and long enough to look like a file of something else " * 40, encoding="utf-8")
    bridge = house.graph.add(house.make_bridge(house_map=str(path)))
    assert bridge.trigger_configure().name == "FAILURE"
    path.unlink()
    assert bridge.trigger_configure().name == "SUCCESS"


def test_a_household_bridge_keeps_its_house_by_name(graph: Graph, tmp_path: Path) -> None:
    path = tmp_path / "house.map"
    bridge = graph.bridge(house_map=str(path))
    (place,) = [name for name in bridge.host.bare.scene.by_name if name == "coffee table 1"]
    graph.skill(f"go to {place}", to="household_bridge").result  # noqa: B018
    goal = f"Put it on the {place.rpartition(' ')[0]}"
    seen = graph.call(Observe, "household_bridge/observe", goal=goal).observation
    told = [one for one in seen.objects if REMEMBERED in one.states]
    assert ("coffee table", 1) in {(one.word, one.instance) for one in told}
    with HouseMap(path) as one:
        assert one.houses() == [bridge.house()]
        assert bridge.house()


# ---------------------------------------------------------------------- prompts


def prompted(config: dict[str, Any], **prompts: Any) -> None:
    entry = config["detections"]
    config["detections"] = {**({"topic": entry} if isinstance(entry, str) else entry), "prompts": prompts}


def test_a_detector_on_a_topic_is_told_what_the_goal_names_once(house: House) -> None:
    house.start(lambda config: prompted(config, topic="/detector/names", between=" . "))
    heard: list[str] = []
    house.graph.probe.create_subscription(String, "/detector/names", lambda msg: heard.append(msg.data), LATCHED)
    for goal in (*["Bring the red stapler to the kitchen table"] * 2, "Find a pen"):
        observe(house, goal)
    house.until(lambda: len(heard) >= 2, "it is told twice")
    assert heard[0] in ("red stapler . kitchen table . apple", "pen . apple")
    assert heard[-1] == "pen . apple"


def test_a_detector_with_a_service_is_told_the_list(house: House) -> None:
    asked: list[list[str]] = []

    def serve(request: Any, response: Any) -> Any:
        asked.append(list(request.prefixes))
        return response

    house.graph.probe.create_service(ListParameters, "/classes", serve)
    kind = "rcl_interfaces/srv/ListParameters"
    house.start(lambda config: prompted(config, service="/classes", type=kind, goal={"prefixes": "{names}"}))
    observe(house, "Bring the stapler")
    house.until(lambda: bool(asked), "it is asked")
    assert asked == [["stapler", "apple"]]


def test_a_task_is_done_about_what_nobody_listed(house: House) -> None:
    task = "Put 1 stapler on the coffee table"
    fake = house.robot.house
    fake._classes["stapler"], fake.objects["stapler"] = "stapler", (7.4, 2.9, 0.8)  # on the kitchen table
    house.start()
    house.does("go to kitchen table 1")
    house.until(lambda: "stapler 1" in house.map.by_name, "the stapler is a thing")
    assert {"stapler"} <= {*house.world.recallable} & {*house.world.words}
    skills = ["pick up stapler 1", "go to living room 1", "go to coffee table 1", "put down stapler 1"]
    house.graph.inference(ScriptedModel({task: [f"Act: {one}" for one in [*skills, "done"]]}))
    house.graph.planner(bridge="robot_bridge")
    goal = house.graph.task(task)
    assert goal.result.success, [one.last_observation for one in goal.feedback]
    assert "arm: put down stapler 1 on coffee table 1" in house.robot.log
    assert house.map.place_of(house.map.by_name["stapler 1"]).name == "coffee table 1"


def test_a_person_is_gone_to_where_they_were_seen_last_also_after_a_restart(house: House, tmp_path: Path) -> None:
    path = tmp_path / "house.map"
    house.change_map(
        lambda values: (
            values["objects"].update(classes=KNOWN, others=OTHERS),
            values.update(expected=[], persons=[{"name": "Anna", "at": "kitchen table 1"}]),
        )
    )
    house.start(as_reported, alone=True, house_map=str(path))
    assert "go to Anna" in house.does("go to Anna").skills
    assert house.robot.log[-1] == "has arrived at 7.5 2.3"
    house.robot.house.objects["Anna"] = (2.0, 6.6, 1.0)
    house.does("go to bedroom 1")
    house.until(lambda: "Anna" in kept(path), "Anna is kept")
    del house.robot.house.objects["Anna"]
    house.does("go to fridge 1")
    restart(house, house_map=str(path))
    house.does("go to Anna")
    assert abs(house.robot.y - 6.6) <= 0.6
    assert kept(path)["Anna"].room == "bedroom 1"
