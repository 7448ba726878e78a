"""Pictures are read in forms that Pillow decodes by itself; for others it may start a program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources import sources

from reactree_ros.agent.picture import KEPT_FORMS, READ_FORMS, opened, place_in_words, read_box

pytest.importorskip("PIL", reason="needs Pillow")

#: Reading it would have Pillow start Ghostscript, if that is there.
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"


@pytest.mark.parametrize("forms", [KEPT_FORMS, READ_FORMS])
def test_what_starts_a_program_is_not_opened(forms: tuple[str, ...], tmp_path: Path) -> None:
    from PIL import Image, UnidentifiedImageError

    with Image.open(write(tmp_path)) as known:
        assert known.format == "EPS", "Pillow would read it"
    for source in (POSTSCRIPT, write(tmp_path)):
        with pytest.raises(UnidentifiedImageError):
            opened(source, forms)


def write(folder: Path) -> Path:
    path = folder / "picture.png"
    path.write_bytes(POSTSCRIPT)
    return path


@pytest.mark.slow
def test_only_one_place_opens_pictures() -> None:
    places = [
        name
        for name, path in sources().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr == "open"
        and isinstance(node.value, ast.Name)
        and node.value.id in ("Image", "Pictures", "PIL")
    ]
    assert places == ["agent/picture.py"]


WIDTH, HEIGHT = 1600, 800


@pytest.mark.parametrize(
    ("said", "box"),
    [
        ('{"box": [100, 200, 300, 400]}', (0.1, 0.2, 0.3, 0.4)),
        ('```json\n[{"bbox_2d": [100, 200, 300, 400], "label": "stapler"}]\n```', (0.1, 0.2, 0.3, 0.4)),
        ("It is at [100, 200, 300, 400].", (0.1, 0.2, 0.3, 0.4)),
        ("[[100, 200, 300, 400]]", (0.1, 0.2, 0.3, 0.4)),
        ('[{"box_2d": [200, 100, 400, 300], "label": "stapler"}]', (0.1, 0.2, 0.3, 0.4)),
        ('{"point": [200, 100]}', (0.1, 0.2, 0.1, 0.2)),
        ("<|box_start|>(100,200),(300,400)<|box_end|>", (0.1, 0.2, 0.3, 0.4)),
        ("<ref>stapler</ref><box>[[100, 200, 300, 400]]</box>", (0.1, 0.2, 0.3, 0.4)),
        ("<loc0256><loc0512><loc0768><loc1023> stapler", (0.5, 0.25, 1023 / 1024, 0.75)),
        ("stapler<loc_100><loc_200><loc_300><loc_400>", (0.1, 0.2, 0.3, 0.4)),
        ('<point x="50.0" y="25.5" alt="stapler">stapler</point>', (0.5, 0.255, 0.5, 0.255)),
        ('<points x1="50.0" y1="25.5" x2="60.0" y2="70.0" alt="staplers">', (0.5, 0.255, 0.5, 0.255)),
        ("(0.5, 0.25)", (0.5, 0.25, 0.5, 0.25)),
        ("0.1 0.2 0.3 0.4", (0.1, 0.2, 0.3, 0.4)),
        ('{"x": 500, "y": 250}', (0.5, 0.25, 0.5, 0.25)),
        ("[1200, 100, 1300, 200]", (0.75, 0.125, 0.8125, 0.25)),
    ],
)
def test_a_box_or_a_point_is_read_in_its_own_scale(said: str, box: tuple[float, ...]) -> None:
    assert read_box(said, WIDTH, HEIGHT) == pytest.approx(box)


@pytest.mark.parametrize(
    "said",
    ["not there", "Not there.", "It is not visible.", "There is no stapler", "none", "null", "[]", '{"box": null}'],
)
def test_what_is_not_there_is_nowhere(said: str) -> None:
    assert read_box(said, WIDTH, HEIGHT) == ()


@pytest.mark.parametrize(
    "said",
    [
        *("", "It is on the table.", "Nobody knows.", "[300, 400, 100, 200]", "[-5, 0, 10, 10]", "[1, 2"),
        *("[1700, 100, 1800, 200]", "<loc0900><loc0100><loc0100><loc0200>"),
    ],
)
def test_what_says_no_place_in_the_picture_is_read_as_none(said: str) -> None:
    assert read_box(said, WIDTH, HEIGHT) is None


@pytest.mark.slow
@given(st.text() | st.from_regex(r"[\[(<{]?[a-z_\"|: ]*([0-9.,\-<>\[\] ]{0,9}){0,9}"))
def test_whatever_is_said_gives_a_place_in_the_picture_or_none(said: str) -> None:
    box = read_box(said, WIDTH, HEIGHT)
    if box:
        left, top, right, bottom = box
        assert 0 <= left <= right <= 1
        assert 0 <= top <= bottom <= 1
        assert place_in_words(box)


@pytest.mark.parametrize(
    ("box", "words"),
    [
        ((0.0, 0.0, 0.2, 0.2), "at the top left"),
        ((0.8, 0.4, 1.0, 0.6), "at the right"),
        ((0.4, 0.9, 0.6, 1.0), "at the bottom"),
        ((0.1, 0.1, 0.9, 0.9), "in the middle"),
    ],
)
def test_a_place_is_said_in_words(box: tuple[float, ...], words: str) -> None:
    assert place_in_words(box) == words
