"""``reactree memory``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reactree_ros.cli.opening import open_map, open_memory, progress, say
from reactree_ros.cli.options import memory_option
from reactree_ros.cli.output import print_table
from reactree_ros.errors import UserError
from reactree_ros.memory.spec import NamedMemory

if TYPE_CHECKING:
    from reactree_ros.memory.house_map import HouseMap, Place

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Manage an episodic memory, or a map.")
maps = typer.Typer(add_completion=False, no_args_is_help=True, help="Manage what is kept of houses from run to run.")
app.add_typer(maps, name="map")
Memory = Annotated[NamedMemory, memory_option("The episodic memory.", "--memory")]
File = Annotated[Path, typer.Argument(help="The file, as `reactree run --map` and the bridges' house_map name it.")]
House = Annotated[str, typer.Option(help="Which of the file's houses; by default the only one.")]
Name = Annotated[str, typer.Argument(help="A thing by its name, or all of a word.")]


@app.command("import", epilog="reactree memory import experiences.jsonl --memory household.db")
def memory_import(
    source: Annotated[Path, typer.Argument(help="JSON lines in the recordings' format.")],
    memory: Memory,
    outcomes: Annotated[
        Path | None, typer.Option(help="A file that says which runs reached their goal; without it, every run counts.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="The variant whose outcomes count; by default the source's file name.")
    ] = None,
) -> None:
    """Add recorded runs that reached their goal."""
    from reactree_ros.memory.recorded import import_experiences, recorded_success

    succeeded = None if outcomes is None else recorded_success(outcomes, variant=variant or source.stem)
    imported = import_experiences(source, succeeded=succeeded)
    with open_memory(memory) as episodic, progress("Adding") as advance:
        added = 0
        for number, run_ in enumerate(imported.runs, 1):
            added += episodic.keep(run_) > 0
            advance(number / len(imported.runs))
        total = len(episodic)
    say(
        f"{added} runs added, {len(imported.runs) - added} were there already, {imported.runs_left_out} did not reach "
        f"their goal; {memory} holds {total} experiences"
    )


@app.command("export", epilog="reactree memory export experiences.jsonl --memory household.db")
def memory_export(out: Annotated[Path, typer.Argument(help="A file that ends in .jsonl.")], memory: Memory) -> None:
    """Export a whole memory in the recordings' format."""
    from reactree_ros.memory.recorded import export_experiences

    memory.check_exists()
    with memory.open() as episodic:
        count = export_experiences(episodic, out)
    say(f"{count} experiences written to {out}")


@app.command("show", epilog="reactree memory show --memory household.db")
def memory_show(memory: Memory) -> None:
    """Show the contents of a memory."""
    memory.check_exists()
    with memory.open() as episodic:
        counts = episodic.counts()
    rows = {
        "runs": counts.runs,
        **{f"runs that {what}": number for what, number in counts.only_here.items()},
        "experiences": counts.experiences,
        "different subgoals": counts.subgoals,
        **{f"ended in {end.value}": number for end, number in counts.by_end.items()},
        **{f"of {name}": number for name, number in counts.by_task_name.items()},
    }
    print_table(("what", "number"), ((what, str(number)) for what, number in rows.items()))


@app.command("search", epilog='reactree memory search "find and pick up the apple" --memory household.db')
def memory_search(
    text: Annotated[str, typer.Argument(help="A subgoal.")],
    memory: Memory,
    k: Annotated[int, typer.Option("-k", min=1, help="How many experiences to show.")] = 5,
) -> None:
    """Find the experiences whose subgoals are most similar."""
    memory.check_exists()
    with open_memory(memory) as episodic:
        found = episodic.search(text, k)
    rows = ((f"{alike:.3f}", one.end.value, f"{one.task_id} {one.task_name}", one.subgoal) for alike, one in found)
    print_table(("similarity", "end", "task", "subgoal"), rows)


# ---------------------------------------------------------------------- the map of a house


def _opened(file: Path, house: str) -> HouseMap:
    # the map of a house that is there
    if not file.exists():
        raise UserError(f"{file}: there is no such file; `reactree run --map {file}` makes it")
    with open_map(file, "") as found:
        houses = found.houses()
    if house and house not in houses:
        raise UserError(f"{file}: there is no house '{house}'; there are {', '.join(map(repr, houses)) or 'none'}")
    if not house and len(houses) > 1:
        raise UserError(f"{file}: there are several houses; name one by --house: {', '.join(map(repr, houses))}")
    return open_map(file, house or next(iter(houses), ""))


@maps.command("list", epilog="reactree memory map list home.map")
def map_list(file: File, house: House = "") -> None:
    """List the things: where each is taken to be, how sure that is, and how long such things stay where they are."""
    from reactree_ros.memory.house_map import ago

    with _opened(file, house) as kept:
        beliefs, stays = kept.beliefs(), kept.stays()
    rows = []
    for one in beliefs:
        at = one.spot.place
        stay = ago(stays[one.thing.word]).removesuffix(" ago").replace("just now", "under a minute")
        rows.append((one.thing.name, at.name, at.room, f"{one.sure:.0%}", ago(one.age), stay))
    print_table(("name", "place", "room", "sure", "seen", "such things stay"), rows)


@maps.command("show", epilog="reactree memory map show apple home.map")
def map_show(name: Name, file: File, house: House = "") -> None:
    """Show where a thing, or things of a word, may be, and every place where each was found or looked for in vain."""
    from reactree_ros.memory.house_map import ago

    with _opened(file, house) as kept:
        word = next((one.thing.word for one in kept.beliefs() if name in (one.thing.name, one.thing.word)), None)
        if word is None:
            raise _unknown(name, file)
        beliefs = [one for one in kept.beliefs(word) if name in (one.thing.name, word)]
        likely, now = kept.likely(word), kept.clock()
    for belief in beliefs:
        say(f"{belief.thing.name}: {belief.sure:.0%} {_at(belief.spot.place)}")
        for spot in sorted(belief.thing.spots.values(), key=lambda spot: -spot.last):
            vain = f", looked for {_often(spot.in_vain)} in vain" if spot.in_vain else ""
            by = f" by {spot.robot}" if spot.robot else ""
            say(f"  {_at(spot.place)}: found {_often(spot.found)}, last {ago(now - spot.last)}{by}{vain}")
    say(f"where to look for {word}:")
    for place, sure in likely:
        say(f"  {_at(place)}: {sure:.0%}")


@maps.command("forget", epilog="reactree memory map forget apple home.map")
def map_forget(name: Name, file: File, house: House = "") -> None:
    """Forget a thing, or all things of a word."""
    with _opened(file, house) as kept:
        count = kept.forget(name)
    if not count:
        raise _unknown(name, file)
    say(f"{count} forgotten")


@maps.command("export", epilog="reactree memory map export things.jsonl home.map")
def map_export(
    out: Annotated[Path, typer.Argument(help="A file of JSON lines, one a thing.")], file: File, house: House = ""
) -> None:
    """Write all that is known of a house as JSON lines, which `reactree memory map import` reads."""
    from reactree_ros.files.whole_file import write_whole

    with _opened(file, house) as kept:
        lines = [json.dumps(thing, ensure_ascii=False) + "\n" for thing in kept.export()]
    write_whole(out, "".join(lines))
    say(f"{len(lines)} things written to {out}")


@maps.command("import", epilog="reactree memory map import things.jsonl home.map")
def map_import(
    source: Annotated[Path, typer.Argument(help="JSON lines, as `reactree memory map export` writes them.")],
    file: File,
    house: House = "",
) -> None:
    """Put things into a map, each in place of what is known of it; none if one of them is wrong."""
    things = things_in(source)
    with _opened(file, house) if file.exists() else open_map(file, house) as kept:
        count = kept.put(things, where=str(source))
    say(f"{count} things put into {file}")


def things_in(source: Path) -> list[Any]:
    from reactree_ros.files.read_back import check_values, parse_json, text_of

    things = []
    for number, line in enumerate(text_of(source).splitlines(), 1):
        try:
            things.append(parse_json(line))
            check_values(things[-1])
        except ValueError as error:
            raise UserError(f"{source}:{number}: is not JSON: {error}") from None
    return things


def _unknown(name: str, file: Path) -> UserError:
    return UserError(f"{file}: nothing is known of '{name}'; see `reactree memory map list {file}`")


def _often(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _at(place: Place) -> str:
    return " in ".join(filter(None, (place.name and f"at {place.name}", place.room))) or "nobody knows where"
