"""Semantic maps made of scene graphs and of maps of Nav2 whose regions are labelled."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from robot.drawings import GRAPHS, HYDRA, LABELLED, PLAIN, write_nav2

from reactree_ros.errors import UserError
from reactree_ros.robot.made_maps import map_of_scene_graph
from reactree_ros.robot.map_file import load_map, notes_of, read_yaml
from reactree_ros.robot.semantic_map import SemanticMap

if TYPE_CHECKING:
    from command_line import Cli

HAS_ROOMS = ("plain", "virtualhome", "hydra")


def written(path: Path, values: Any) -> Path:
    path.write_text(json.dumps(values), encoding="utf-8")
    return path


def made(tmp_path: Path, graph: Any, **given: Any) -> SemanticMap:
    values = map_of_scene_graph(written(tmp_path / "graph.json", graph), **given)
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    return SemanticMap(load_map(tmp_path / "map.yaml"))


@pytest.mark.parametrize("form", GRAPHS)
def test_a_thing_is_on_what_it_is_on_whatever_the_form(tmp_path: Path, form: str) -> None:
    map = made(tmp_path, GRAPHS[form])
    (stapler,) = map.items()
    table = map.place_of(stapler)
    assert stapler.name == "stapler 1"
    assert table is not None
    assert table.word.replace(" ", "") == "meetingtable"
    assert table.pose is not None
    assert (table.pose.x, table.pose.y) == (1.0, 1.0)
    assert {one.word for one in map.receptacles()} == {table.word, "shelf"}
    assert map.properties("stapler") == {"GRABBABLE"}


@pytest.mark.parametrize("form", HAS_ROOMS)
def test_each_piece_of_furniture_is_in_its_room_and_the_robot_stands_there_too(tmp_path: Path, form: str) -> None:
    map = made(tmp_path, GRAPHS[form])
    first, second = (room for room in map.rooms)
    at = {one.word.replace(" ", ""): one for one in map.receptacles()}
    assert (at["meetingtable"].room, at["shelf"].room) == (first, second)
    assert notes_of(map.document, read_yaml(tmp_path / "map.yaml")) == []


def test_the_labels_of_hydra_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    graph = {**HYDRA, "metadata": {}}
    with pytest.raises(UserError, match="there is no"):
        made(tmp_path, {**graph, "nodes": [one for one in graph["nodes"] if one["layer"] == 2]})
    labels = tmp_path / "labels.yaml"
    for text in (
        "5: stapler\n3: meeting table\n",
        "label_names:\n- {label: 5, name: stapler}\n- {label: 3, name: desk}\n",
    ):
        labels.write_text(text, encoding="utf-8")
        assert [item.name for item in made(tmp_path, graph, labels=labels).items()] == ["stapler 1"]
    labels.write_text("- chair\n", encoding="utf-8")
    with pytest.raises(UserError, match="are not names of labels"):
        made(tmp_path, graph, labels=labels)


@pytest.mark.parametrize(
    ("graph", "said"),
    [
        ({}, "it has no nodes"),
        ([], "there is nothing in it"),
        ({"nodes": []}, "there is nothing in it"),
        ({"nodes": [{"id": 1}]}, "cannot be read as scene graph of a known form"),
        ({"nodes": [{"id": 1, "class": "shelf", "pose": [0, "x"]}]}, "'x' is not a length"),
        ({"nodes": [{"id": 1, "class": "shelf", "pose": [0, 1e9]}]}, "is not a length"),
        ({"nodes": [{"id": 1, "class": "!", "pose": [0, 0]}]}, "there is nothing in it"),
        ({"nodes": [{"id": 1, "class": "cup", "pose": [0, 0], "box": [1, 2]}]}, "cannot be read as scene graph"),
        (7, "it has no nodes"),
    ],
)
def test_a_graph_that_is_none_is_an_error_of_one_line(tmp_path: Path, graph: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        made(tmp_path, graph)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "graph.json"))


# ---------------------------------------------------------------------- Nav2


@pytest.fixture
def nav2() -> Any:
    pytest.importorskip("PIL", reason="needs Pillow")
    from reactree_ros.robot.nav2_map import map_of_nav2

    return map_of_nav2


def test_labelled_regions_are_rooms_and_what_is_drawn_in_them_is_furniture(tmp_path: Path, nav2: Any) -> None:
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(nav2(write_nav2(tmp_path))), encoding="utf-8")
    map = SemanticMap(load_map(tmp_path / "map.yaml"))
    assert [room.name for room in map.rooms] == ["office 204", "print room 1"]
    at = {one.name: one for one in map.receptacles()}
    assert {name: one.room.name for name, one in at.items()} == {
        "meeting table 1": "office 204",
        "shelf 1": "print room 1",
    }
    table = at["meeting table 1"]
    assert table.pose is not None
    assert (table.pose.x, table.pose.y, table.size[:2]) == (0.5, -0.1, (1.6, 0.8))


def test_the_robot_looks_around_where_the_floor_is_free(tmp_path: Path, nav2: Any) -> None:
    office, printing = nav2(write_nav2(tmp_path))["rooms"]
    assert office["pose"]["x"] == pytest.approx(2.5, abs=0.1)  # the left half, up to x = 1.5, is occupied
    assert printing["pose"]["x"] == pytest.approx(5.5, abs=0.1)


@pytest.mark.parametrize("form", ["L", "LA", "P", "I;16"])
@pytest.mark.parametrize(
    ("said", "free"),
    [
        ("mode: trinary", {254, 255}),
        ("mode: Trinary\nfree_thresh: 0.25", {254, 255}),
        ("free_thresh: 0.9\noccupied_thresh: 0.95", {51, 128, 254, 255}),
        ("negate: 1", {0, 1}),
        ("negate: yes\nfree_thresh: 0.25", {0, 1, 51}),
        ("mode: scale\nfree_thresh: 0.25", {205, 254, 255}),
        ("mode: scale\nfree_thresh: 0.0\noccupied_thresh: 1.0", {254, 255}),
        ("mode: raw", {0}),
    ],
)
def test_a_cell_is_free_where_map_server_says_so_and_205_is_unknown(
    tmp_path: Path, nav2: Any, form: str, said: str, free: set[int]
) -> None:
    from PIL import Image

    from reactree_ros.robot.nav2_map import Nav2Map, _free

    greys = [0, 1, 51, 128, 205, 254, 255]
    image = Image.new("L", (len(greys), 2))
    image.putdata(greys * 2)
    if form == "LA":  # the second row is clear
        alpha = Image.new("L", image.size)
        alpha.putdata([255] * len(greys) + [254] * len(greys))
        image.putalpha(alpha)
    elif form == "P":
        image = image.convert("RGB").quantize(16)
    elif form == "I;16":
        image = Image.frombytes("I;16", image.size, b"".join(bytes([grey, grey]) for grey in greys * 2))
    image.save(tmp_path / "map.png")
    of = Nav2Map(image="map.png", resolution=1, origin=(0, 0, 0), **yaml.safe_load(said))
    first, second = _free(tmp_path / "map.png", of).tolist()
    assert {grey for grey, is_free in zip(greys, first, strict=True) if is_free} == free
    assert second == (first if form != "LA" or of.mode == "raw" else [False] * len(greys))


@pytest.mark.parametrize("yaw", [0.0, 0.7])
@pytest.mark.parametrize("thresh", [0.196, 0.25])
def test_no_pose_is_outside_of_free_cells_or_in_furniture(tmp_path: Path, nav2: Any, thresh: float, yaw: float) -> None:
    text = f"image: floor.pgm\nresolution: 0.05\norigin: [-1.0, -2.0, {yaw}]\nfree_thresh: {thresh}\n"
    path = write_nav2(tmp_path, text=text)
    pixels = bytearray((tmp_path / "floor.pgm").read_bytes())
    begin = len(pixels) - 20_000
    for at in range(20_000):  # only a strip of the first room is seen, and some cells of the second one
        row, column = divmod(at, 200)
        seen = (60 <= column < 75 and 20 <= row < 40) or (95 <= column < 125 and 8 <= row < 30)
        pixels[begin + at] = 254 if seen else 205
    (tmp_path / "floor.pgm").write_bytes(bytes(pixels))
    found = nav2(path)
    stands = [one["pose"] for one in found["rooms"]] + [one["approach"] for one in found["receptacles"]]
    assert len(stands) == 4
    for pose in stands:
        ahead, left = pose["x"] + 1.0, pose["y"] + 2.0
        column = (ahead * math.cos(yaw) + left * math.sin(yaw)) / 0.05
        row = 100 - (left * math.cos(yaw) - ahead * math.sin(yaw)) / 0.05
        assert pixels[begin + 200 * int(row) + int(column)] == 254
        assert not (100 <= column <= 120 and 11 <= row <= 19), "in the shelf"


def test_a_room_without_a_free_cell_is_named(tmp_path: Path, nav2: Any) -> None:
    outside = {"label": "attic", "points": [[-50, -50], [-5, -50], [-5, -5], [-50, -5]]}
    for shape in ({"label": "attic", "points": [[12, 12], [40, 12], [40, 40]]}, outside):
        with pytest.raises(UserError, match=r"floor\.json: 'attic': no cell of floor\.pgm in it is free"):
            nav2(write_nav2(tmp_path, {**LABELLED, "shapes": [shape]}))


def test_the_origin_of_a_map_may_be_turned(tmp_path: Path, nav2: Any) -> None:
    text = "image: floor.pgm\nresolution: 0.05\norigin: [0.0, 0.0, 1.5707963]\nfree_thresh: 0.196\n"
    (room, _) = nav2(write_nav2(tmp_path, text=text))["rooms"]
    assert room["outline"][0] == [-4.5, 0.5]


@pytest.mark.parametrize(
    ("text", "labelled", "said"),
    [
        ("image: none.pgm\nresolution: 0.05\norigin: [0, 0, 0]\n", LABELLED, r"none\.pgm: is not an image of a map"),
        ("image: floor.pgm\nresolution: 0\norigin: [0, 0, 0]\n", LABELLED, r"yaml:2: resolution: .*greater than 0"),
        ("image: floor.pgm\nresolution: .inf\norigin: [0, 0, 0]\n", LABELLED, r"yaml:2: resolution: .*, not 'inf'"),
        ("image: floor.pgm\nresolution: 1\norigin: [0, 0, -nan]\n", LABELLED, r"yaml:3: origin: its yaw is nan"),
        ("image: floor.pgm\nresolution: 1\norigin: [0, .inf, 0]\n", LABELLED, r"yaml:3: origin: its y is inf"),
        ("image: floor.pgm\nresolution: 1\norigin: [0, 0]\n", LABELLED, r"yaml:3: origin"),
        ("image: f.pgm\nresolution: 1\norigin: [0, 0, 0]\nfree_thresh: .nan\n", LABELLED, r"yaml:4: free_thresh"),
        ("image: f.pgm\nresolution: 1\norigin: [0, 0, 0]\nmode: triary\n", LABELLED, "mode: did you mean .trinary"),
        ("image: floor.pgm\norigin: [0, 0, 0]\n", LABELLED, r"floor\.yaml:1: .*resolution"),
        ("resolution: [", LABELLED, r"floor\.yaml"),
        ("", {**LABELLED, "imageWidth": 100}, "it is of an image of 100 x 100 pixels, the map's has 200 x 100"),
        ("", {"shapes": []}, "no polygon or rectangle is labelled"),
        ("", {}, "it has no shapes"),
        ("", {"shapes": [{"label": "7", "points": [[0, 0], [1, 0], [1, 1]]}]}, "is not a region with a name"),
        ("", {"shapes": [{"label": "office", "points": [[0], [1, 0], [1, 1]]}]}, "cannot be read as file of labelme"),
    ],
)
def test_files_that_do_not_fit_are_an_error_of_one_line(
    tmp_path: Path, nav2: Any, text: str, labelled: Any, said: str
) -> None:
    with pytest.raises(UserError, match=said) as error:
        nav2(write_nav2(tmp_path, labelled, text=text))
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------------- the command


def test_the_command_writes_a_map_that_it_finds_right(cli: Cli, tmp_path: Path) -> None:
    graph, out = written(tmp_path / "graph.json", PLAIN), tmp_path / "map.yaml"
    ended = cli("robot", "map", graph, "--from", "scene-graph", "--out", out)
    assert (ended.code, ended.out) == (0, f"{out}: 2 rooms, 2 receptacles, 1 classes of objects; all right\n")
    assert cli("robot", "map", out).out == f"{out}: 2 rooms, 2 receptacles, 1 classes of objects; all right\n"
    assert cli("robot", "map", graph, "--from", "scene-graph", "--robot", "r").code == 2
    assert cli("robot", "map", graph, "--labels", graph).code == 2
