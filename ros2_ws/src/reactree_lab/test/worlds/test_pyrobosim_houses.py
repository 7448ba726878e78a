"""Houses of ours as worlds of pyrobosim, and the tasks in world files; nothing here needs pyrobosim."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import Cli

from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim, write_house
from reactree_lab.worlds.pyrobosim.scene import Description, HouseScene
from reactree_lab.worlds.pyrobosim.tasks import PyrobosimTask, Source, in_words, load_tasks
from reactree_ros.errors import UserError
from reactree_ros.household import rules

HOUSES = [(0, 5, False), (1, 3, False), (2, 8, True), (3, 4, True), (12, 6, True)]
WORLD = "rooms: [{name: hall, footprint: {type: box, dims: [3, 3]}}]\nrobots: [{name: rover}]\n"
TASK = "task: {task_id: 1, nl_instructions: [Tidy up], goal: [{relation: 'on', item: cup, target: work_bench}]}\n"


def made(seed: int, rooms: int, varied: bool) -> list[PyrobosimTask]:
    return list(tasks_as_pyrobosim(seed=seed, rooms=rooms, tasks=3, varied=varied).values())


def box(location: dict[str, Any], metadata: dict[str, Any]) -> tuple[float, float, float, float]:
    """West, east, south and north of a piece of furniture; its wall is at the north or the south."""
    x, y, _, _ = location["pose"]
    width, depth = metadata["locations"][location["category"]]["footprint"]["dims"]
    return x - width / 2, x + width / 2, y - depth / 2, y + depth / 2


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "rooms", "varied"), HOUSES)
def test_the_same_arguments_make_the_same_worlds_and_more_tasks_leave_their_tasks(
    seed: int, rooms: int, varied: bool
) -> None:
    tasks = made(seed, rooms, varied)
    assert tasks == made(seed, rooms, varied)
    more = tasks_as_pyrobosim(seed=seed, rooms=rooms, tasks=4, varied=varied)
    assert [task.entry for task in tasks] == [more[number].entry for number in (1, 2, 3)]


@pytest.mark.parametrize(("seed", "rooms", "varied"), HOUSES)
def test_everything_stands_in_its_room_and_lies_on_its_furniture_apart_from_the_rest(
    seed: int, rooms: int, varied: bool
) -> None:
    for task in made(seed, rooms, varied):
        document, metadata = task.source.document, dict(task.source.metadata)
        outlines = {room["name"]: room["footprint"]["coords"] for room in document["rooms"]}
        boxes = {one["name"]: box(one, metadata) for one in document["locations"]}
        for one in document["locations"]:
            (west, south), _, (east, north), _ = outlines[one["parent"]]
            left, right, low, high = boxes[one["name"]]
            assert west < left < right < east and south < low < high < north, one["name"]  # noqa: PT018
        for one, other in combinations(boxes.values(), 2):
            assert one[1] < other[0] or other[1] < one[0] or one[3] < other[2] or other[3] < one[2]
        for thing in document["objects"]:
            left, right, low, high = boxes[thing["parent"]]
            x, y, _, _ = thing["pose"]
            assert left + 0.025 < x < right - 0.025 and low + 0.025 < y < high - 0.025, thing["name"]  # noqa: PT018
        places = [tuple(thing["pose"][:2]) for thing in document["objects"]]
        assert len(set(places)) == len(places)
        hallways = [(one["room_start"], one["room_end"]) for one in document["hallways"]]
        assert hallways == list(pairwise(outlines))


@pytest.mark.parametrize(("seed", "rooms", "varied"), HOUSES)
def test_every_goal_can_be_reached_and_is_not_reached_at_the_start(seed: int, rooms: int, varied: bool) -> None:
    for task in made(seed, rooms, varied):
        document = task.source.document
        furniture = {one["name"]: one for one in document["locations"]}
        reachable = [
            thing
            for thing in document["objects"]
            if furniture[thing["parent"]]["is_open"] or not furniture[thing["parent"]]["is_locked"]
        ]
        for one in task.goal:
            there = [thing for thing in reachable if in_words(thing["category"]) == one.item]
            away = [thing for thing in there if in_words(furniture[thing["parent"]]["category"]) != one.target]
            assert len(away) >= one.count, one
            targets = [place for place in furniture.values() if in_words(place["category"]) == one.target]
            assert targets, one
            assert all(place["is_open"] is (one.relation == "on") for place in targets), one
        assert "turnOn" not in str(task.entry)


@pytest.mark.slow
def test_things_are_numbered_in_the_order_of_the_file() -> None:
    for task in made(2, 8, True):
        for kind in ("locations", "objects"):
            counted: Counter[str] = Counter()
            for one in task.source.document[kind]:
                counted[one["category"]] += 1
                assert one["name"] == f"{one['category']}_{counted[one['category']]}"


def test_several_robots_start_beside_each_other() -> None:
    source = tasks_as_pyrobosim(seed=1, tasks=1, robots=3)[1].source
    assert source.robots() == ("robot_1", "robot_2", "robot_3")
    xs = [robot["pose"]["position"]["x"] for robot in source.document["robots"]]
    assert all(after - before > 0.3 for before, after in pairwise(xs))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    tasks = tasks_as_pyrobosim(seed=4, tasks=2)
    files = write_house(tasks, tmp_path / "house")
    read = load_tasks(tmp_path / "house")
    assert [task.entry for task in read.values()] == [task.entry for task in tasks.values()]
    assert read[1].source.robots() == ("robot",)
    assert load_tasks(files[1]).keys() == {2}
    for number, file in enumerate(files, 1):
        written = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert written.pop("metadata") == {"locations": ["$PWD/locations.yaml"], "objects": ["$PWD/objects.yaml"]}
        assert written == tasks[number].source.document
    for key in ("locations", "objects"):
        assert yaml.safe_load((tmp_path / f"house/{key}.yaml").read_text()) == tasks[1].source.metadata[key]


def test_a_house_is_written_by_the_command(cli: Cli, tmp_path: Path) -> None:
    ended = cli("lab", "house", "--seed", 3, "--tasks", 2, "--as", "pyrobosim", "--out", tmp_path / "house")
    assert (ended.code, len(ended.out.splitlines())) == (0, 2)
    assert load_tasks(tmp_path / "house").keys() == {1, 2}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "does not exist; name a world file of pyrobosim"),
        ("params: {}", "is not a world of pyrobosim: it has no rooms"),
        (WORLD + TASK.replace("cup", "''"), "task.goal.0.item: string should have at least 1 character"),
        (WORLD + TASK.replace("'on'", "under"), "task.goal.0.relation: use one of on, inside"),
        (WORLD + TASK.replace("goal", "gaol"), "task.gaol: there is no setting 'gaol'; did you mean 'goal'?"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "world.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(UserError) as raised:
        load_tasks(file)
    assert str(raised.value).startswith(f"{file}: {message}")


def test_a_file_that_is_no_yaml_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "world.yaml"
    file.write_text("rooms: [", encoding="utf-8")
    with pytest.raises(UserError) as raised:
        load_tasks(file)
    assert str(raised.value).startswith(f"{file}:")
    assert ": is not YAML: " in str(raised.value)


def test_files_of_a_folder_have_tasks_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"has no file task_\*.yaml"):
        load_tasks(tmp_path)
    for name in ("task_1.yaml", "task_2.yaml"):
        (tmp_path / name).write_text(WORLD + TASK)
    with pytest.raises(UserError, match=r"task_2.yaml: task.task_id: 1 is the task of another file, too"):
        load_tasks(tmp_path)
    (tmp_path / "bare.yaml").write_text(WORLD)
    assert load_tasks(tmp_path / "bare.yaml") == {}
    with pytest.raises(UserError, match="has no robot"):
        Source(document={"rooms": [1]}).robots()


# ---- what a robot knows -------------------------------------------------------------------------------------------


def place(name: str, category: str, *, is_open: bool, locked: bool, room: str = "hall") -> dict[str, Any]:
    entry = {"name": f"{name}_top", "furniture": name, "category": category, "part": "", "room": room}
    return {**entry, "open": is_open, "locked": locked, "pose": [1.0, 2.0], "outline": [[0, 0], [1, 0], [1, 1]]}


DESCRIPTION = Description(
    rooms=tuple({"name": name, "pose": [0.0, 0.0], "outline": [[0, 0], [3, 0], [3, 3]]} for name in ("hall", "room 7")),
    places=(
        place("a", "work_bench", is_open=True, locked=True),
        place("b", "wheelie_bin", is_open=False, locked=False),
        place("c", "desk", is_open=True, locked=False, room="room 7"),
    ),
    hallways=({"name": "h", "rooms": ["hall", "room 7"], "open": False, "locked": False},),
    things=tuple({"name": f"cup{number}", "category": "cup"} for number in range(3)),
)


def scene_at(at: str, held: str = "") -> HouseScene:
    scene = HouseScene(DESCRIPTION)
    scene.feel(pose=(0.0, 1.0, 0.0), room="hall", at=at, held=held, doors={})
    return scene


def test_what_opens_holds_things_in_it_and_what_does_not_on_it() -> None:
    scene = HouseScene(DESCRIPTION)
    bench, bin, desk = (scene.by_name[name] for name in ("work bench 1", "wheelie bin 1", "desk 1"))
    assert (bench.properties, bench.states) == ({"SURFACES"}, set())
    assert (bin.properties, bin.states) == ({"CONTAINERS", "CAN_OPEN"}, {"CLOSED"})
    assert (desk.properties, desk.states) == ({"SURFACES", "CAN_OPEN"}, {"OPEN"})
    assert [room.name for room in scene.rooms] == ["hall 1", "room 1"]
    assert "cup 1" not in scene.by_name


def test_a_thing_is_known_once_it_was_seen_and_lost_where_it_is_seen_no_more() -> None:
    scene = scene_at("a_top")
    scene.see("a_top", ["cup2", "cup0"])
    assert rules.merged(scene.near()) == "cup (1, 3), work bench (1)"
    scene.see("a_top", ["cup0"])
    assert scene.place_of(scene.by_name["cup 3"]) is None
    assert "pick up cup 3" not in rules.available_skills(scene)
    assert "pick up cup 1" in rules.available_skills(scene)
    scene.see("c_top", ["cup2"])
    assert scene.room_of(scene.by_name["cup 3"]) is scene.by_name["room 1"]


def test_what_is_held_is_felt_and_what_slipped_is_nowhere() -> None:
    scene = scene_at("a_top")
    scene.see("a_top", ["cup0"])
    scene.feel(pose=(0.0, 1.0, 0.0), room="hall", at="a_top", held="cup0", doors={})
    assert rules.holding_text(scene) == " You hold cup (1)."
    assert [thing.name for thing in scene.near()] == ["work bench 1"]
    scene.feel(pose=(0.0, 1.0, 0.0), room="hall", at="a_top", held="", doors={})
    assert (scene.held, scene.place_of(scene.by_name["cup 1"])) == ([], None)


def test_a_passage_is_in_both_of_its_rooms() -> None:
    scene = scene_at("")
    assert "open hallway 1" in rules.available_skills(scene)
    scene.feel(pose=(0.0, 0.0, 0.0), room="room 7", at="h", held="", doors={"h": True})
    assert "open hallway 1" in rules.available_skills(scene)
    assert (scene.by_name["hallway 1"].states, scene.at) == ({"OPEN"}, scene.by_name["hallway 1"])


def test_people_who_watch_see_where_everything_is() -> None:
    scene = scene_at("a_top")
    scene.see("a_top", ["cup0"])
    robot, bench, cup, hall = scene.spots(["work bench 1", "cup 1", "hall 1", "cup 2"])
    assert (robot.name, robot.y) == ("", 1.0)
    assert (bench.x, bench.y, len(bench.outline)) == (1.0, 2.0, 3)
    assert (cup.x, cup.y, cup.outline) == (1.0, 2.0, ())
    assert len(hall.outline) == 3
