"""``reactree memory map``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from reactree_ros.cli.opening import open_map
from reactree_ros.errors import UserError

if TYPE_CHECKING:
    from reactree_ros.memory.house_map import HouseMap

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Manage what is kept of houses from run to run.")
File = Annotated[Path, typer.Argument(help="The file, as `reactree run --map` and the bridges' house_map name it.")]
House = Annotated[str, typer.Option(help="Which of the file's houses; by default the only one.")]
Name = Annotated[str, typer.Argument(help="A thing by its name, or all of a word.")]


def _say(text: str) -> None:
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def _opened(file: Path, house: str) -> HouseMap:
    """Open the map of a house that is there."""
    if not file.exists():
        raise UserError(f"{file}: there is no such file; `reactree run --map {file}` makes it")
    with open_map(file, "") as found:
        houses = found.houses()
    if house and house not in houses:
        raise UserError(f"{file}: there is no house '{house}'; there are {', '.join(map(repr, houses)) or 'none'}")
    if not house and len(houses) > 1:
        raise UserError(f"{file}: there are several houses; name one by --house: {', '.join(map(repr, houses))}")
    return open_map(file, house or next(iter(houses), ""))


@app.command("list")
def map_list(file: File, house: House = "") -> None:
    """List the things: where each is taken to be, how sure that is, and how long such things stay where they are."""
    from reactree_ros.memory.house_map import ago

    with _opened(file, house) as kept:
        beliefs, stays = kept.beliefs(), kept.stays()
    table = Table("name", "place", "room", "sure", "seen", "such things stay")
    for one in beliefs:
        at = one.spot.place
        stay = ago(stays[one.thing.word]).removesuffix(" ago").replace("just now", "under a minute")
        table.add_row(one.thing.name, at.name, at.room, f"{one.sure:.0%}", ago(one.age), stay)
    Console().print(table)


@app.command("show")
def map_show(name: Name, file: File, house: House = "") -> None:
    """Show where a thing, or things of a word, may be, and every place where each was found or looked for in vain."""
    from reactree_ros.memory.house_map import ago

    with _opened(file, house) as kept:
        word = next((one.thing.word for one in kept.beliefs() if name in (one.thing.name, one.thing.word)), None)
        if word is None:
            raise UserError(f"{file}: nothing is known of '{name}'; see `reactree memory map list {file}`")
        beliefs = [one for one in kept.beliefs(word) if name in (one.thing.name, word)]
        likely, now = kept.likely(word), kept.clock()
    for belief in beliefs:
        _say(f"{belief.thing.name}: {belief.sure:.0%} {_at(belief.spot.place.name, belief.spot.place.room)}")
        for spot in sorted(belief.thing.spots.values(), key=lambda spot: -spot.last):
            vain = f", looked for {_often(spot.in_vain)} in vain" if spot.in_vain else ""
            by = f" by {spot.robot}" if spot.robot else ""
            where = _at(spot.place.name, spot.place.room)
            _say(f"  {where}: found {_often(spot.found)}, last {ago(now - spot.last)}{by}{vain}")
    _say(f"where to look for {word}:")
    for place, sure in likely:
        _say(f"  {_at(place.name, place.room)}: {sure:.0%}")


def _often(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


@app.command("forget")
def map_forget(name: Name, file: File, house: House = "") -> None:
    """Forget a thing, or all things of a word."""
    with _opened(file, house) as kept:
        count = kept.forget(name)
    if not count:
        raise UserError(f"{file}: nothing is known of '{name}'; see `reactree memory map list {file}`")
    _say(f"{count} forgotten")


@app.command("export")
def map_export(
    out: Annotated[Path, typer.Argument(help="A file of JSON lines, one a thing.")], file: File, house: House = ""
) -> None:
    """Write all that is known of a house as JSON lines, which `reactree memory map import` reads."""
    from reactree_ros.files.whole_file import write_whole

    with _opened(file, house) as kept:
        lines = [json.dumps(thing, ensure_ascii=False) + "\n" for thing in kept.export()]
    write_whole(out, "".join(lines))
    _say(f"{len(lines)} things written to {out}")


@app.command("import")
def map_import(
    source: Annotated[Path, typer.Argument(help="JSON lines, as `reactree memory map export` writes them.")],
    file: File,
    house: House = "",
) -> None:
    """Put things into a map, each in place of what is known of it; none if one of them is wrong."""
    things = things_in(source)
    with _opened(file, house) if file.exists() else open_map(file, house) as kept:
        count = kept.put(things, where=str(source))
    _say(f"{count} things put into {file}")


def things_in(source: Path) -> list[Any]:
    """Read JSON lines.

    Raises:
        UserError: A line is no JSON; the message says which.
    """
    from reactree_ros.files.read_back import check_values, parse_json, text_of

    things = []
    for number, line in enumerate(text_of(source).splitlines(), 1):
        try:
            things.append(parse_json(line))
            check_values(things[-1])
        except ValueError as error:
            raise UserError(f"{source}:{number}: no JSON: {error}") from None
    return things


def _at(place: str, room: str) -> str:
    return " in ".join(filter(None, (f"at {place}" if place else "", room))) or "nobody knows where"
