"""Conditions and triggers of `robot.yaml`: what is read, what is refused, and when a trigger is due."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from reactree_ros.errors import UserError
from reactree_ros.robot.config import RobotConfig, load_robot
from reactree_ros.robot.triggers import Occasions, TriggerEntry

OFFICE = Path(__file__).parents[2] / "config/robots/office.yaml"
PAPER = {"wording": "the printer is out of paper", "topic": "/paper", "holds": False}


def office(folder: Path, **more: Any) -> RobotConfig:
    values = yaml.safe_load(OFFICE.read_text())
    for section in ("conditions", "triggers", "battery"):
        values.pop(section, None)
    (folder / "robot.yaml").write_text(yaml.safe_dump({**values, **more}))
    return load_robot(folder / "robot.yaml")


def trigger(**values: Any) -> TriggerEntry:
    return TriggerEntry(instruction="Refill the printer", **values)


def test_with_conditions_it_waits_for_any_of_them(tmp_path: Path) -> None:
    (wait,) = office(tmp_path, conditions={"no paper": PAPER}).waits
    assert wait.read("wait until the printer is out of paper for up to 20 s").values == {
        "condition": "the printer is out of paper",
        "seconds": 20,
    }
    with pytest.raises(ValueError, match="condition: 'it rains' may not stand here"):
        wait.read("wait until it rains for up to 20 s")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"conditions": {"a": PAPER, "b": PAPER}}, "name options that differ in their words"),
        ({"conditions": {"a": {**PAPER, "wording": "a\nb"}}}, "say it in one line"),
        ({"conditions": {"a": {**PAPER, "wording": "{x}"}}}, "say it in one line"),
        ({"conditions": {"a": PAPER}, "triggers": {"t": {"instruction": "x", "when": "aa"}}}, "did you mean 'a'"),
        ({"triggers": {"t": {"instruction": "x", "when": "a"}}}, "'a' is none of the conditions; there are none"),
        ({"triggers": {"t": {"instruction": "x"}}}, "say one of when, at and every"),
        ({"triggers": {"t": {"instruction": "x", "at": "8:00", "every": 5}}}, "say one of when, at and every"),
        ({"triggers": {"t": {"instruction": "x", "at": "25:00"}}}, "'25:00' is no time"),
        ({"triggers": {"t": {"instruction": "x", "at": "noon"}}}, "'noon' is no time"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "days": ["mon"]}}}, "days are for a trigger with at"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "again": 5}}}, "again is for a trigger with when"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "limits": {"max_step": 5}}}}, "did you mean 'max_steps'"),
        ({"triggers": {"t": {"instruction": "x", "every": 5, "limits": {"max_steps": 1.5}}}}, "a whole number"),
        ({"triggers": {"t": {"instruction": "x", "every": 0}}}, "greater than 0"),
        (
            {"battery": {"topic": "/b", "least": 0.1, "charge": {"below": 0.1, "skill": "say x", "until": 0.8}}},
            "charge.below is 0.1; it must be more than least, 0.1",
        ),
        (
            {"battery": {"topic": "/b", "least": 0.1, "charge": {"below": 0.2, "skill": "say x", "until": 0.2}}},
            "until is 0.2; it must be more than below, 0.2",
        ),
        (
            {"battery": {"topic": "/b", "least": 0.1, "charge": {"below": 0.2, "skill": "dok", "until": 0.8}}},
            "battery.charge.skill: 'dok' is no skill",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_way_out(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as refused:
        office(tmp_path, **more)
    assert said in str(refused.value)
    assert "robot.yaml:" in str(refused.value)
    assert "\n" not in str(refused.value)


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def due_at(entry: TriggerEntry, begin: str, end: str) -> list[str]:
    occasions, found = Occasions(entry, at(begin)), []
    for now in range(int(at(begin)), int(at(end)), 60):
        if occasions.due(now):
            found.append(datetime.fromtimestamp(now).isoformat(" ", "minutes"))
    return found


@pytest.mark.parametrize("written", ["at: 18:30", 'at: "18:30"', "at: '18:30'"])
def test_a_time_of_day_is_due_once_a_day_however_yaml_reads_it(written: str) -> None:
    entry = trigger(**yaml.safe_load(written))
    assert due_at(entry, "2026-11-26 18:00", "2026-11-28 18:00") == ["2026-11-26 18:30", "2026-11-27 18:30"]


def test_days_and_single_moments() -> None:
    entry = trigger(at="08:00", days=["mon", "fri"])
    assert due_at(entry, "2026-11-26 00:00", "2026-12-02 00:00") == ["2026-11-27 08:00", "2026-11-30 08:00"]
    once = trigger(**yaml.safe_load("at: 2026-11-27 09:00:00"))
    assert due_at(once, "2026-11-26 00:00", "2026-12-02 00:00") == ["2026-11-27 09:00"]
    assert due_at(once, "2026-11-28 00:00", "2026-12-02 00:00") == []


def test_a_schedule_counts_anew_where_the_clock_is_set_back() -> None:
    occasions = Occasions(trigger(every=600), 1000.0)
    assert [now for now in range(1000, 3000, 100) if occasions.due(now)] == [1600, 2200, 2800]
    assert [now for now in range(0, 1000, 100) if occasions.due(now)] == [600]


@pytest.mark.parametrize(
    ("again", "holds", "due"),
    [
        (0, [None, True, True, None, True, False, True], [1, 6]),
        (0, [False, None, True], [2]),
        (2, [True, True, True, True, False, False], [0, 3]),
    ],
)
def test_a_condition_is_an_occasion_when_it_begins_to_hold(
    again: float, holds: list[bool | None], due: list[int]
) -> None:
    occasions, found = Occasions(trigger(when="no paper", again=again), 0.0), []
    for now, one in enumerate(holds):
        if occasions.due(now, one):
            found.append(now)
            occasions.ended(now + 1, stopped=False)
    assert found == due


def test_what_a_person_has_stopped_waits_for_a_new_occasion_and_what_was_refused_does_not() -> None:
    occasions = Occasions(trigger(when="no paper", again=1), 0.0)
    assert occasions.due(0, True)
    occasions.ended(1, stopped=True)
    assert not any(occasions.due(now, True) for now in range(2, 9))
    occasions.due(9, False)
    assert occasions.due(10, True)
    occasions.refused(10, 5)
    assert [now for now in range(11, 20) if occasions.due(now, True)] == [15]
