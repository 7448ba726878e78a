"""Ways by doors and elevators, and people who are gone to and handed to: in the office, from its other floor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from doubles import ScriptedModel
from office import CONFIG, OfficeWorld
from persons import Says, replays
from recorded_runs import Kept

from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.planners.spec import planner
from reactree_ros.record.writer import Recorder
from reactree_ros.robot.config import load_robot
from reactree_ros.robot.map_file import MapDocument, Source, Ways, load_map, map_of, read_yaml
from reactree_ros.world.port import Outcome

MAP = CONFIG.parent / "office_map.yaml"
BRING = "Bring the stapler from office 204 to Anna"


def changed(tmp_path: Path, **values: Any) -> Path:
    (tmp_path / "office_map.yaml").write_text(yaml.safe_dump({**read_yaml(MAP).values, **values}), encoding="utf-8")
    (tmp_path / "office.yaml").write_text(CONFIG.read_text(encoding="utf-8"), encoding="utf-8")
    return tmp_path / "office.yaml"


def run(world: OfficeWorld, instruction: str, *says: str, person: Says | None = None) -> tuple[Episode, Kept]:
    kept = Kept()
    episode = Episode(
        instruction,
        world=world,
        model=ScriptedModel({instruction: [f"Act: {one}" for one in says]}),
        planner=planner("reactree"),
        person=person,
        record=Recorder(kept.write),
    )
    episode.run()
    return episode, kept


# ---------------------------------------------------------------------- ways


def test_the_stapler_comes_to_anna_from_the_other_floor_by_the_elevator(tmp_path: Path) -> None:
    world = OfficeWorld(changed(tmp_path, start="lobby"))
    refused = world.execute("navigate to desk 1").take()
    way = "navigate to lobby elevator, then press the button of floor 2"
    assert (refused.outcome, refused.text) == (
        Outcome.PRECONDITION,
        "You cannot navigate to desk 1 now: the way to office 204 leads to corridor 1 by lobby elevator; "
        f"first {way}, then go on.",
    )
    _, kept = run(
        world,
        BRING,
        "navigate to desk 1",
        *way.split(", then "),
        *("navigate to desk 1", "grip stapler 1 with low force", "navigate to meeting table 1"),
        *("hand over stapler 1 to Anna", "done"),
    )
    outcomes = [event["outcome"] for event in kept.events_of("observation") if event["of"] == "execute"]
    assert outcomes == ["precondition", *["done"] * 6]
    assert world.map.borne == {world.map.by_name["stapler 1"].id: "Anna"}
    assert replays(kept.record.events)


def test_a_skill_that_passes_the_elevator_is_not_in_its_own_way() -> None:
    world = OfficeWorld()
    assert world.execute("navigate to corridor elevator").take().outcome is Outcome.DONE
    assert world.execute("press the button of floor 0").take().outcome is Outcome.DONE
    assert world.map.agent_room.name == "lobby"
    assert world.execute("navigate to lobby table").take().outcome is Outcome.DONE


def test_a_pose_that_was_heard_before_the_elevator_was_passed_is_out_of_date() -> None:
    world = OfficeWorld()  # in which all is done at 0 s

    def is_seen_at(name: str, heard: float) -> str:
        pose = world.map.approach(world.map.by_name[name])
        assert pose is not None
        world.map.robot_is_at(pose, heard)
        return str(world.map.agent_room.name)

    assert world.execute("navigate to corridor elevator").take().outcome is Outcome.DONE
    assert is_seen_at("corridor elevator", -1.0) == "corridor 1"
    assert world.execute("press the button of floor 0").take().outcome is Outcome.DONE
    assert [is_seen_at("corridor elevator", heard) for heard in (-1.0, 0.0)] == ["lobby", "lobby"]
    assert is_seen_at("lobby elevator", 0.1) == "lobby"
    assert is_seen_at("corridor elevator", 0.2) == "corridor 1", "what is heard later knows better"


DOOR = {"between": ["corridor 1", "office 204"], "by": "office door 204", "cost": 5, "pass": ["open {by}"]}


def test_a_door_that_is_closed_is_told_and_one_that_is_open_is_passed() -> None:
    document = load_map(MAP)
    values = {**read_yaml(MAP).values, "connections": [DOOR]}
    world = OfficeWorld()
    world.map = type(world.map)(map_of(Source(values, "map.yaml")))
    assert "first open office door 204." in world.execute("navigate to desk 1").take().text
    world.map.by_name["office door 204"].states = {"OPEN"}
    assert world.execute("navigate to desk 1").take().outcome is Outcome.DONE
    assert document.connections  # the shipped one has some, too


def ways(*connections: dict[str, Any]) -> Ways:
    names = {name for one in connections for name in one["between"]}
    rooms = [{"name": name, "pose": {"x": 0, "y": 0}, "outline": [[0, 0], [1, 0], [1, 1]]} for name in sorted(names)]
    values = {"start": min(names), "rooms": rooms, "objects": {"others": {}}, "connections": list(connections)}
    return Ways(MapDocument.model_validate(values))


def test_the_cheapest_of_several_ways_is_taken() -> None:
    found = ways(
        {"between": ["a", "d"], "cost": 60, "pass": ["ride"]},
        {"between": ["a", "b"], "cost": 10, "pass": ["climb"]},
        {"between": ["b", "d"], "cost": 10},
        {"between": ["e", "f"]},
    )
    assert [one.to for one in found.shortest("a", "d") or ()] == ["b", "d"]
    assert found.shortest("a", "a") == ()
    assert found.shortest("a", "e") is None
    assert found.shortest("a", "nobody says how that is reached") == ()


@pytest.mark.parametrize(
    ("connection", "said"),
    [
        ({"between": ["corridor 1", "kitchen"]}, r"connections\.0\.between: there is no room 'kitchen'"),
        ({"between": ["corridor 1", "lobby"], "by": "lift"}, r"connections\.0\.by: there is no receptacle 'lift'"),
        ({"between": ["corridor 1"]}, r"connections\.0\.between"),
        ({"between": ["corridor 1", "lobby"], "cost": -1}, r"connections\.0\.cost"),
        ({"between": ["corridor 1", "lobby"], "pass": ["go {up}"]}, r"connections\.0\.pass\.0"),
    ],
)
def test_a_connection_that_makes_no_sense_is_refused_with_its_place(connection: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        map_of(Source({**read_yaml(MAP).values, "connections": [connection]}, "map.yaml"))
    assert "\n" not in str(error.value)


def test_a_connection_that_no_skill_of_the_robot_passes_is_refused(tmp_path: Path) -> None:
    path = changed(tmp_path, connections=[{"between": ["corridor 1", "lobby"], "pass": ["fly to {to}"]}])
    robot = load_robot(path)
    with pytest.raises(UserError, match="none of them passes the map's connection to lobby: 'fly to lobby'"):
        robot.check_fits(load_map(robot.map), str(path))


# ---------------------------------------------------------------------- people

ANNAS = [{"name": "Anna Berg", "at": "meeting table 1"}, {"name": "Anna Lund", "at": "desk 1"}, {"name": "Bob"}]
HAND = "hand over stapler 1 to Anna {}"
TAKE = ("navigate to desk 1", "grip stapler 1 with low force")


def test_who_is_meant_is_asked_once_where_two_fit(tmp_path: Path) -> None:
    world, person = OfficeWorld(changed(tmp_path, persons=ANNAS)), Says("Berg")
    says = (*TAKE, HAND.format("Lund"), HAND.format("Lund"), HAND.format("Berg"), "done")
    _, kept = run(world, BRING, *says, person=person)
    assert [one.text for one in person.asked] == ["Which do you mean: Anna Berg, or Anna Lund?"]
    assert [event["reason"] for event in kept.events_of("refused")] == [
        "'hand over stapler 1 to Anna Lund' is not done: the person means Anna Berg."
    ] * 2
    assert list(world.map.borne.values()) == ["Anna Berg"]
    assert replays(kept.record.events)


def test_nothing_is_handed_to_one_of_two_if_nobody_says_to_whom(tmp_path: Path) -> None:
    world = OfficeWorld(changed(tmp_path, persons=ANNAS))
    _, kept = run(world, BRING, *TAKE, HAND.format("Lund"), "failure")
    assert "nobody says who is meant" in kept.events_of("refused")[0]["reason"]
    assert world.map.borne == {}


@pytest.mark.parametrize(
    "goal", ["Bring the stapler to Anna Lund", "Bring it to her", "Bring Anna Berg's to Anna Lund"]
)
def test_nobody_is_asked_if_one_is_named_in_full_or_none_is(tmp_path: Path, goal: str) -> None:
    world, person = OfficeWorld(changed(tmp_path, persons=ANNAS)), Says()
    run(world, goal, *TAKE, HAND.format("Lund"), "done", person=person)
    assert person.asked == []
    assert list(world.map.borne.values()) == ["Anna Lund"]
