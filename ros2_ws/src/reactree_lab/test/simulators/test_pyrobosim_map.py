"""The semantic map of a world of pyrobosim, made by the real package, and worlds that are wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from reactree_ros.errors import UserError
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.semantic_map import SemanticMap

if TYPE_CHECKING:
    from command_line import Cli

pytest.importorskip("pyrobosim", reason="needs pyrobosim")
pytestmark = pytest.mark.worlds

from pyrobosim.utils.general import get_data_folder  # noqa: E402

from reactree_lab.worlds.pyrobosim.map import in_words, map_of_pyrobosim  # noqa: E402

DATA = Path(get_data_folder())
SHIPPED = Path(__file__).parents[5] / "config/robots/pyrobosim_map.yaml"


def test_the_shipped_map_is_that_of_the_world_which_the_shipped_robot_starts(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "map.yaml"
    ended = cli("robot", "map", DATA / "test_world.yaml", "--from", "pyrobosim", "--out", out)
    assert (ended.code, out.read_text()) == (0, SHIPPED.read_text())
    assert ended.out.startswith(f"{out}: 3 rooms, 5 receptacles, 4 classes")


@pytest.mark.parametrize("name", ["test_world", "roscon_2024_workshop_world"])
def test_what_pyrobosim_puts_somewhere_is_there_on_the_map(name: str, tmp_path: Path) -> None:
    from pyrobosim.core import WorldYamlLoader

    path = DATA / f"{name}.yaml"
    file = tmp_path / "map.yaml"
    file.write_text(yaml.safe_dump(map_of_pyrobosim(path)))
    map, world = SemanticMap(load_map(file)), WorldYamlLoader().from_file(str(path))
    own = {thing.own: thing for thing in (*map.rooms, *map.receptacles())}
    assert {room.name for room in world.rooms} <= set(own)
    for thing in world.objects:
        at = own[thing.parent.name]
        assert at.pose is not None
        assert at.carries(type(at.pose)("map", thing.pose.x, thing.pose.y, thing.pose.z), at.pose)
    for robot in world.robots:
        robot.stop_sensor_threads()


def test_the_start_is_where_the_named_robot_is() -> None:
    path = DATA / "test_world_multirobot.yaml"
    assert map_of_pyrobosim(path, robot="robot1")["start"] == "bathroom 1"
    with pytest.raises(UserError, match="there is no robot 'robot9'; there are robot0"):
        map_of_pyrobosim(path, robot="robot9")


def changed(tmp_path: Path, this: str, is_that: str) -> Path:
    text = (DATA / "test_world.yaml").read_text().replace("$DATA", str(DATA))
    assert this in text
    file = tmp_path / "world.yaml"
    file.write_text(text.replace(this, is_that, 1))
    return file


DESK = """    pose:
      position:
        x: 0.525
        y: 0.4
      relative_to: bedroom
"""


@pytest.mark.parametrize(
    ("this", "is_that", "wrong"),
    [
        (DESK, "", "locations.1: it has no pose and is put somewhere else at every start; write a pose"),
        ("rooms:\n", "rums:\n", "rooms: there are none; is this a world file of pyrobosim?"),
        ("category: desk", "category: throne", "pyrobosim cannot make this world: "),
        ("rooms:\n", "rooms: [\n", "is not YAML: "),
    ],
)
def test_a_world_that_gives_no_map_is_refused_in_one_line(
    cli: Cli, tmp_path: Path, this: str, is_that: str, wrong: str
) -> None:
    file = changed(tmp_path, this, is_that)
    ended = cli("robot", "map", file, "--from", "pyrobosim", "--out", tmp_path / "map.yaml")
    assert (ended.code, wrong in ended.err, ended.err.count("\n")) == (2, True, 1), ended.err
    assert str(file) in ended.err
    assert not (tmp_path / "map.yaml").exists()


def test_a_name_is_said_in_words_without_its_number() -> None:
    assert [in_words(name) for name in ("trash_can0", "my_desk", "counter0_left", "Room 2")] == [
        "trash can",
        "my desk",
        "counter left",
        "Room",
    ]
