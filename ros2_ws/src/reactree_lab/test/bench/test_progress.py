"""How far a bench is, and what is left, by a made clock."""

from __future__ import annotations

import dataclasses
import io

import pytest
from bench_runs import SETTINGS, InlineWorkers, line
from doubles import Clock
from rich.console import Console

from reactree_lab.bench import commands, progress
from reactree_lab.bench.progress import EVERY, Tally, duration, shown, tell


def test_the_estimate_begins_with_the_first_run_that_ends_and_counts_down() -> None:
    clock = Clock()
    tally = Tally(4, clock=clock)
    clock.now = 25.0  # the model took 15 s to load
    assert tally.seconds_left is None
    assert str(tally) == "0 of 4 runs, GSR –"
    tally.add(line(busy_seconds=10.0))
    assert tally.seconds_left == 30.0
    assert str(tally) == "1 of 4 runs, GSR 1.00, about 30 s left"
    clock.now += 6.0
    assert tally.seconds_left == 24.0
    clock.now += 8.0
    tally.add(line(gsr=0.0, busy_seconds=14.0))
    assert tally.seconds_left == 24.0  # two of 12 s
    assert str(tally) == "2 of 4 runs, GSR 0.50, about 30 s left"


def test_runs_of_an_earlier_session_say_nothing_of_the_speed() -> None:
    tally = Tally(100, [line(busy_seconds=1.0)] * 90, clock=Clock())
    assert (tally.seconds_left, tally.ended) == (None, 90)
    tally.add(line(busy_seconds=60.0))
    assert tally.seconds_left == 9 * 60.0


def test_workers_share_what_is_left() -> None:
    tally = Tally(9, clock=Clock())
    tally.add(line(busy_seconds=60.0), 4)
    assert tally.seconds_left == 120.0
    for _ in range(6):
        tally.add(line(busy_seconds=60.0), 4)
    tally.add(line(busy_seconds=60.0), 1)
    assert tally.seconds_left == 60.0
    tally.add(line(busy_seconds=60.0), 0)
    assert tally.seconds_left is None
    assert str(tally) == "9 of 9 runs, GSR 1.00"


def test_a_run_that_is_late_is_taken_to_last_as_long_again() -> None:
    clock = Clock()
    tally = Tally(2, clock=clock)
    tally.add(line(busy_seconds=60.0))
    left = []
    for clock.now in (0.0, 50.0, 60.0, 100.0, 600.0):
        left.append(tally.seconds_left)
    assert left == [60.0, 10.0, 0.0, 40.0, 540.0]


def test_runs_that_broke_off_are_not_left_to_do_and_are_told() -> None:
    tally = Tally(4, clock=Clock())
    tally.add(line(busy_seconds=20.0))
    tally.add(line(end="model_gone", busy_seconds=10.0))
    assert str(tally) == "2 of 4 runs, GSR 1.00, 1 broke off (1 model_gone), about 30 s left"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.0, "10 s"),
        (31.0, "40 s"),
        (110.0, "110 s"),
        (111.0, "2 min"),
        (3540.0, "59 min"),
        (3541.0, "1 h 0 min"),
        (9000.0, "2 h 30 min"),
    ],
)
def test_a_duration_is_rounded_up(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_without_a_terminal_a_line_comes_at_every_interval_until_the_end() -> None:
    clock, out = Clock(), io.StringIO()
    tally = Tally(4, clock=clock)

    def wait(seconds: float) -> bool:
        clock.now += seconds
        if clock.now == 2 * EVERY:
            tally.add(line(busy_seconds=60.0))
        return clock.now > 4 * EVERY

    tell(tally, Console(file=out), wait)
    assert out.getvalue().splitlines() == [
        "0 of 4 runs, GSR –",
        "1 of 4 runs, GSR 1.00, about 3 min left",
        "1 of 4 runs, GSR 1.00, about 3 min left",
        "1 of 4 runs, GSR 1.00, about 2 min left",
    ]


def test_in_a_terminal_one_line_is_rewritten_with_the_estimate_of_the_moment() -> None:
    out, clock = io.StringIO(), Clock()
    tally = Tally(4, clock=clock)
    console = Console(file=out, force_terminal=True, force_interactive=True, color_system=None, width=120)
    with shown(tally, console) as changed:
        tally.add(line(busy_seconds=10.0))
        changed()
        clock.now = 12.0
    assert "1/4 GSR 1.00" in out.getvalue()
    assert "about 20 s left" in out.getvalue()


def test_a_bench_tells_its_runs_to_the_tally_and_stops_telling_at_its_end(
    tmp_path,
    monkeypatch: pytest.MonkeyPatch,  # type: ignore[no-untyped-def]
) -> None:
    told: list[str] = []

    def telling(tally: Tally, console: Console, wait) -> None:  # type: ignore[no-untyped-def]
        assert wait(60.0)  # until the bench is over
        told.append(str(tally))

    monkeypatch.setattr(progress, "tell", telling)
    monkeypatch.setattr(commands, "_workers", lambda settings, count, at_once, ray: InlineWorkers(settings))
    settings = dataclasses.replace(SETTINGS, planners=("react",), limit=1)
    assert commands.bench(settings, tmp_path / "out", workers=1, ray=None)
    assert told == ["1 of 1 runs, GSR 1.00"]
