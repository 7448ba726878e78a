"""Pictures are read in forms that Pillow decodes by itself; for others it may start a program."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from sources import sources

from reactree_ros.agent.picture import KEPT_FORMS, READ_FORMS, opened

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
