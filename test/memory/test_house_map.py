"""The kept map of a house: what it believes, what it learns of how things move, and that nothing of it is lost."""

from __future__ import annotations

import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactree_ros.agent.observation import GONE, PERHAPS, REMEMBERED, Observation, Seen
from reactree_ros.errors import UserError
from reactree_ros.memory import house_map
from reactree_ros.memory.house_map import AFTER_MISS, DAY, HouseMap, MapError, Place

HOUR = 3600.0


BOUND = 120.0


class Clock:
    """A clock that stands until it is set."""

    def __init__(self) -> None:
        self.now = 1.8e9

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(tmp_path: Path, clock: Clock) -> Iterator[HouseMap]:
    with HouseMap(tmp_path / "house.map", clock=clock) as opened:
        yield opened


def look(place: str, *names: str, room: str = "kitchen 1", closed: bool = False, held: str = "") -> Observation:
    """A look at a place with things."""

    def seen(name: str, at: str | None, *, held: bool = False, states: tuple[str, ...] = ()) -> Seen:
        word, _, number = name.rpartition(" ")
        return Seen(word, int(number), room, at, held, states)

    here = [seen(place, place, states=("CLOSED",) if closed else ()), *(seen(name, place) for name in names)]
    return Observation("", seen=(*here, *([seen(held, None, held=True)] if held else [])))


def where(kept: HouseMap, word: str) -> dict[str, str]:
    return {one.thing.name: one.spot.place.name for one in kept.beliefs(word)}


def test_what_was_seen_is_known_after_a_restart_and_believed_less_with_time(tmp_path: Path, clock: Clock) -> None:
    with HouseMap(tmp_path / "house.map", clock=clock) as kept:
        kept.take(look("table 1", "cup 1"), robot="anna")
    clock.now += HOUR
    with HouseMap(tmp_path / "house.map", clock=clock) as kept:
        (belief,) = kept.beliefs("cup")
        assert (belief.spot.place, belief.age, belief.spot.robot) == (Place("table 1", "kitchen 1"), HOUR, "anna")
        assert belief.sure == pytest.approx(math.exp(-HOUR / DAY))  # nothing is learnt yet: one move a day


def test_a_thing_is_missed_only_where_its_place_was_looked_at(kept: HouseMap, clock: Clock) -> None:
    kept.take(look("fridge 1", "cup 1"))
    clock.now += HOUR
    kept.take(look("fridge 1", closed=True))
    kept.take(look("table 1"))
    (belief,) = kept.beliefs("cup")
    assert belief.spot.missed == 0
    kept.take(look("fridge 1"))
    (missed,) = kept.beliefs("cup")
    assert (missed.spot.missed, missed.spot.in_vain) == (1, 1)
    assert missed.sure == pytest.approx(AFTER_MISS * math.exp(-kept_rate(kept, "cup") * HOUR))


def kept_rate(kept: HouseMap, word: str) -> float:
    return 1 / kept.stays()[word]


def test_how_long_things_stay_is_learnt_by_kind_of_thing(kept: HouseMap, clock: Clock) -> None:
    for day in range(60):
        clock.now += DAY
        kept.take(look("table 1" if day % 2 else "sink 1", "cup 1"))
        kept.take(Observation("", seen=(Seen("sofa", 1, "living room 1"),)))
    stays = kept.stays()
    assert stays["cup"] < 1.5 * DAY < 30 * DAY < stays["sofa"]
    clock.now += 7 * DAY
    sure = {one.thing.word: one.sure for one in kept.beliefs()}
    assert sure["cup"] < 0.05
    assert sure["sofa"] > 0.8


def test_what_a_robot_or_a_detector_does_is_no_move_of_the_thing(kept: HouseMap, clock: Clock) -> None:
    kept.take(look("table 1", "cup 1"))
    for _ in range(20):
        clock.now += HOUR
        kept.take(look("table 1", held="cup 1"))  # the robot takes it
        kept.take(look("shelf 1", "cup 1"))  # and puts it down
        clock.now += HOUR
        kept.take(look("shelf 1"))  # a detector overlooks it
        clock.now += HOUR
        kept.take(look("shelf 1", "cup 1"))
        kept.take(look("shelf 1", held="cup 1"))
        kept.take(look("table 1", "cup 1"))
    assert kept.stays()["cup"] > DAY
    assert where(kept, "cup") == {"cup 1": "table 1"}


def test_what_is_seen_better_or_from_another_place_has_not_moved(kept: HouseMap, clock: Clock) -> None:
    kept.take(Observation("", seen=(Seen("bench", 1, "kitchen 1", None),)))  # from the middle of the room
    before = kept_rate(kept, "bench")
    for place in ("table 1", "table 2"):  # it stands between both
        clock.now += 5.0
        kept.take(look(place, "bench 1"))
    assert kept_rate(kept, "bench") <= before
    clock.now += HOUR
    kept.take(look("table 3", "bench 1"))
    assert kept_rate(kept, "bench") > before
    clock.now += 5.0
    kept.take(look("bed 1", "bench 1", room="bedroom 1"))
    assert kept_rate(kept, "bench") > 2 * before


def test_where_to_look_next_is_where_such_things_were_found(kept: HouseMap, clock: Clock) -> None:
    for place in ("table 1", "sink 1", "table 1", "shelf 1", "table 1", "sink 1"):
        clock.now += DAY
        kept.take(look(place, "cup 1"))
    clock.now += DAY
    assert [place.name for place, _ in kept.likely("cup")] == ["sink 1", "table 1", "shelf 1"]
    kept.take(look("sink 1"))
    assert kept.likely("cup")[0][0].name == "table 1"
    kept.take(look("table 1"))
    assert kept.likely("cup")[0][0].name == "shelf 1"
    shares = [sure for _, sure in kept.likely("cup")]
    assert all(0 < share <= 1 for share in shares)


def test_what_is_told_is_what_the_goal_names_first_and_then_what_was_seen_lately(kept: HouseMap, clock: Clock) -> None:
    for number in range(60):
        kept.take(look(f"shelf {number}", f"book {number}", room="study 1"))
        clock.now += 60
    kept.take(look("sink 1", "cup 1"))
    clock.now += 2 * HOUR
    told = kept.remembered("Bring the cups to Anna")
    assert 30 < len(told) <= 40
    assert told[0] == Seen("cup", 1, "kitchen 1", "sink 1", states=(REMEMBERED, "2 hours ago"))
    assert {seen.states[0] for seen in told} == {REMEMBERED}
    kept.take(look("sink 1"))
    assert [seen.states[1] for seen in kept.remembered("the cup") if seen.word == "cup"] == [PERHAPS]


def test_held_gone_and_forgotten_things_are_nowhere(kept: HouseMap) -> None:
    kept.take(look("table 1", "cup 1", "apple 1", "knife 1"))
    kept.take(
        Observation("", seen=(Seen("cup", 1, "kitchen 1", None, held=True), Seen("apple", 1, None, states=(GONE,))))
    )
    assert where(kept, "cup") == where(kept, "apple") == {}
    assert kept.forget("knife") == 1
    assert where(kept, "knife") == {}
    kept.take(look("sink 1", "cup 1"))
    assert where(kept, "cup") == {"cup 1": "sink 1"}


def test_an_export_brings_all_of_it_back(tmp_path: Path, kept: HouseMap, clock: Clock) -> None:
    for place in ("table 1", "sink 1"):
        kept.take(look(place, "cup 1"), robot="anna")
        clock.now += HOUR
    kept.found("stapler 1", "stapler", 1, Place("desk 1", "office 1", (1.0, 2.0, 0.7)), sure=0.6, own="s-17")
    kept.take(look("sink 1", held="apple 1"))
    lines = [json.dumps(thing) for thing in kept.export()]
    with HouseMap(tmp_path / "other.map", clock=clock) as other:
        assert other.put(map(json.loads, lines)) == 5
        assert [json.dumps(thing) for thing in other.export()] == lines
        assert where(other, "stapler") == {"stapler 1": "desk 1"}


@pytest.mark.parametrize(
    "broken",
    [
        {},
        [],
        {"name": "cup 1", "word": "cup", "number": "one", "spots": []},
        {"name": "", "word": "cup", "number": 1, "spots": []},
        {"name": "cup 1", "word": "cup", "number": 1, "spots": [{"place": "a"}]},
        {"name": "cup 1", "word": "cup", "number": 1, "spots": 7},
    ],
)
def test_what_is_no_thing_is_refused_in_one_line_and_nothing_is_put_in(kept: HouseMap, broken: object) -> None:
    good = {"name": "cup 1", "word": "cup", "number": 1, "spots": []}
    with pytest.raises(MapError, match=r"cups\.jsonl:2: .* is not a thing of a map") as error:
        kept.put([good, broken], where="cups.jsonl")
    assert "\n" not in str(error.value)
    assert list(kept.export()) == []


def test_the_oldest_things_and_places_make_room(monkeypatch: pytest.MonkeyPatch, kept: HouseMap, clock: Clock) -> None:
    monkeypatch.setattr(house_map, "MOST_THINGS", 20)
    monkeypatch.setattr(house_map, "MOST_SPOTS", 4)
    for number in range(1, 31):
        clock.now += HOUR
        kept.take(look(f"table {number}", f"cup {number}", "bowl 1"))
    names = {thing["name"] for thing in kept.export()}
    assert len(names) == 20
    assert {"cup 30", "bowl 1"} < names
    assert "cup 5" not in names
    (bowl,) = kept.beliefs("bowl")
    assert {key[0] for key in bowl.thing.spots} <= {"table 30"} | {f"table {n}" for n in range(27, 31)}
    (exported,) = (thing for thing in kept.export() if thing["name"] == "bowl 1")
    assert len(exported["spots"]) == 4


KILLED = """
import os, signal, sys
sys.path.insert(0, {here!r})
from test_house_map import look
from reactree_ros.memory.house_map import HouseMap
kept = HouseMap(sys.argv[1])
for number in range(200):
    kept.do(lambda number=number: kept.take(look("table 1", f"cup {{number + 1}}")))
    if number == 120:
        kept.do(lambda: None).result(timeout=60)
        print("120 are taken in", flush=True)
        kept.do(lambda: sys.stdin.readline())
print("not killed", flush=True)
"""


def test_a_killed_process_loses_nothing_that_was_taken_in(tmp_path: Path) -> None:
    path = tmp_path / "house.map"
    program = textwrap.dedent(KILLED.format(here=str(Path(__file__).parent)))
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "120 are taken in\n"
            os.kill(process.pid, signal.SIGKILL)
        finally:
            process.kill()
    with HouseMap(path) as kept:
        assert set(where(kept, "cup")) >= {f"cup {number + 1}" for number in range(121)}
        assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchone() == ("ok",)


WRITER = """
import sys
sys.path.insert(0, {here!r})
from test_house_map import look
from reactree_ros.memory.house_map import HouseMap
with HouseMap(sys.argv[1]) as kept:
    for number in range(40):
        here = f"cup {{number % 5 + 1}}", f"{{sys.argv[2]}} {{number + 1}}"
        kept.take(look(f"table {{number % 3}}", *here), robot=sys.argv[2])
"""


@pytest.mark.slow
def test_several_robots_in_processes_of_their_own_share_a_map(tmp_path: Path) -> None:
    path = tmp_path / "house.map"
    program = textwrap.dedent(WRITER.format(here=str(Path(__file__).parent)))
    robots = ("anna", "bob", "carl")
    started = [
        subprocess.Popen([sys.executable, "-c", program, str(path), robot], stderr=subprocess.PIPE, text=True)
        for robot in robots
    ]
    try:
        said = [one.communicate(timeout=BOUND)[1] for one in started]
    finally:
        for one in started:
            one.kill()
    assert [one.returncode for one in started] == [0, 0, 0], said
    with HouseMap(path) as kept:
        assert set(where(kept, "cup")) == {f"cup {number + 1}" for number in range(5)}
        assert [len(where(kept, robot)) for robot in robots] == [40, 40, 40]


# ---------------------------------------------------------------------- the file


def test_a_file_that_is_no_map_is_refused_in_one_line_and_left_as_it_is(tmp_path: Path) -> None:
    text, other = tmp_path / "text.map", tmp_path / "other.db"
    text.write_text("no database at all, but more than a header's length of text " * 20, encoding="utf-8")
    with sqlite3.connect(other) as database:
        database.execute("CREATE TABLE mine (one TEXT)")
    for path, said in (
        (text, "not an SQLite database"),
        (other, "of another program, not a kept map"),
        (tmp_path, "is a folder"),
        (tmp_path / "none" / "house.map", "does not exist"),
    ):
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(UserError, match=said) as error:
            HouseMap(path)
        assert "\n" not in str(error.value)
        assert not path.is_file() or path.read_bytes() == before


def test_a_damaged_row_is_an_error_of_one_line(tmp_path: Path) -> None:
    path = tmp_path / "house.map"
    with HouseMap(path) as kept:
        kept.take(look("table 1", "cup 1"))
        with sqlite3.connect(path) as database:
            database.execute("UPDATE spot SET sure = 'much', missed = 'x'")
        with pytest.raises(MapError, match="a row is not what was written") as error:
            kept.remembered("cup")
        assert "\n" not in str(error.value)


# ---------------------------------------------------------------------- whatever is seen


THINGS = st.sampled_from(["cup 1", "cup 2", "book 1"])
PLACES = st.sampled_from(["table 1", "sink 1", "shelf 1"])
LOOKS = st.tuples(PLACES, st.sets(THINGS), st.booleans(), st.one_of(st.just(""), THINGS), st.floats(0, 1e6))


@pytest.mark.slow
@given(looks=st.lists(LOOKS, max_size=25))
def test_whatever_is_seen_beliefs_are_likelihoods_and_what_was_just_seen_is_believed(
    looks: list[tuple[str, set[str], bool, str, float]],
) -> None:
    clock = Clock()
    with TemporaryDirectory() as folder, HouseMap(Path(folder) / "house.map", clock=clock) as kept:
        for place, names, closed, held, seconds in looks:
            clock.now += seconds
            kept.take(look(place, *(names - {held}), closed=closed, held=held))
            believed = {one.thing.name: one for one in kept.beliefs()}
            assert held not in believed
            for name in names - {held}:
                assert believed[name].spot.place.name == place
                assert believed[name].sure > 0.99
            for word in ("cup", "book"):
                assert all(0 < sure <= 1 for _, sure in kept.likely(word))
        assert all(0 <= one.sure <= 1 for one in kept.beliefs())
        assert all(stay > 0 for stay in kept.stays().values())
        lines = list(kept.export())
        kept.put(lines)
        assert list(kept.export()) == lines
