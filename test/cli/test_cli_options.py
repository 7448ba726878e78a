"""Options that are made from settings."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from reactree_ros.cli.options import FromSettings, Named, takes
from reactree_ros.errors import UserError
from reactree_ros.plugins import Registry, Spec
from reactree_ros.plugins.settings import Settings


class Colour(enum.Enum):
    """A few values."""

    RED = "red"
    DARK_GREEN = "dark_green"


class Paint(Settings):
    """One setting of each type."""

    coats: int = Field(default=2, ge=1, le=9, description="how many coats")
    litres: float = Field(default=1.5, gt=0, description="how much")
    glossy: bool = Field(default=False, description="whether it shines")
    colour: Colour = Field(default=Colour.RED, description="which colour")
    brush: Literal["flat", "round"] | None = Field(default=None, description="which brush")
    wall: Path | None = Field(default=None, description="where")
    layers: tuple[str, ...] = Field(default=(), description="what lies below")


def painted(*arguments: str, without: tuple[str, ...] = ()) -> tuple[int, Any, str]:
    """Run a command with these options; returns its exit code, what it got, and what it printed."""
    app, got = typer.Typer(), []

    @app.command()
    @takes(paint=FromSettings(Paint, without=without))
    def paint_it(who: Annotated[str, typer.Option(help="Who paints.")] = "me", *, paint: Paint) -> None:
        """Paint."""
        got.append((who, paint))

    ended = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})
    if isinstance(ended.exception, UserError):
        raise ended.exception
    return ended.exit_code, got[0] if got else None, ended.output


def test_what_is_always_there_comes_before_what_something_that_is_named_brings_along() -> None:
    class Mural(Settings):
        coats: int = Field(default=7, description="of the mural")

    spec = Spec(name="mural", summary="a wall with a picture", settings=Mural)

    class Murals(Registry[Any]):
        names = ("mural",)
        default = "mural"

        def get(self, name: str) -> Any:
            return SimpleNamespace(**vars(spec), flags=("coats",))

        def __iter__(self) -> Iterator[Any]:
            return iter([self.get("mural")])

    app, got = typer.Typer(), []

    @app.command()
    @takes(mural=Named(Murals("mural", "no.group", Spec, first=("mural",)), "mural"), paint=FromSettings(Paint))
    def paint_it(*, mural: Any, paint: Paint) -> None:
        """Paint."""
        got.append((mural.settings.coats, paint.coats))

    assert CliRunner().invoke(app, ["--coats", "3"]).exit_code == 0
    assert CliRunner().invoke(app, ["--mural-option", "coats=5"]).exit_code == 0
    assert got == [(7, 3), (5, 2)]


def test_every_type_of_setting_can_be_given() -> None:
    arguments = ["--coats", "3", "--litres", "0.5", "--glossy", "--colour", "dark_green", "--brush", "round"]
    assert painted(*arguments, "--wall", "north", "--who", "you")[:2] == (
        0,
        ("you", Paint(coats=3, litres=0.5, glossy=True, colour=Colour.DARK_GREEN, brush="round", wall=Path("north"))),
    )
    assert painted("--no-glossy")[1] == ("me", Paint())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--coats", "0"], "Invalid value for '--coats': "),
        (["--coats", "many"], "Invalid value for '--coats': "),
        (["--colour", "blue"], "'blue' is not one of 'red', 'dark_green'"),
        (["--brush", "thick"], "'thick' is not one of 'flat', 'round'"),
    ],
)
def test_what_the_command_line_can_see_to_be_wrong_is_bad_usage(arguments: list[str], message: str) -> None:
    code, got, out = painted(*arguments)
    assert (code, got) == (2, None)
    assert message in " ".join(out.split())


def test_what_only_the_settings_can_see_to_be_wrong_is_told_by_them() -> None:
    with pytest.raises(UserError, match=r"options: litres is '0\.0': input should be greater than 0"):
        painted("--litres", "0")


def test_the_help_has_meaning_bounds_choices_and_defaults() -> None:
    out = " ".join(painted("--help")[2].split())
    for text in (
        "how many coats",
        "1<=x<=9",
        "[default: (2)]",
        "--no-glossy",
        "dark_green",
        "which brush",
        "[default: (red)]",
    ):
        assert text in out


def test_an_option_of_the_command_goes_before_one_that_is_made() -> None:
    app, got = typer.Typer(), []

    @app.command()
    @takes(paint=FromSettings(Paint))
    def paint_it(coats: Annotated[str, typer.Option(help="Of arms.")] = "none", *, paint: Paint) -> None:
        """Paint."""
        got.append((coats, paint.coats))

    assert CliRunner().invoke(app, ["--coats", "two lions"]).exit_code == 0
    assert got == [("two lions", 2)]
