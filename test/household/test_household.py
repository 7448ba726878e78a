"""Households: what skills and things are called, and how observations start in the recordings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_ros.agent.household import Household, split_skill
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.transcript import parse_transcript
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.lexicon import named

HOUSEHOLDS = {"wah_nl": WAH_NL, "alfred": ALFRED}


@pytest.mark.parametrize(
    ("skill", "parts"),
    [
        ("pick up kitchen cabinet 3", ("pick up", "kitchen cabinet 3")),
        ("turn on tv 1", ("turn on", "tv 1")),
        ("turn off tv 1", ("", "turn off tv 1")),
        ("recall location of juice", ("", "recall location of juice")),
        ("open", ("", "open")),
        ("opener 1", ("", "opener 1")),
        ("done", ("", "done")),
    ],
)
def test_a_skill_is_split_into_verb_and_thing(skill: str, parts: tuple[str, str]) -> None:
    assert WAH_NL.split_skill(skill) == parts


def test_the_longest_verb_that_fits_is_taken() -> None:
    assert split_skill("turn on slowly tv 1", ("turn on", "turn on slowly")) == ("turn on slowly", "tv 1")


def test_things_are_called_as_in_the_recordings() -> None:
    assert WAH_NL.name_of("juice", 1) == "juice 1"
    assert ALFRED.name_of("Juice", 1) == "Juice (1)"


@pytest.mark.parametrize("name", HOUSEHOLDS)
def test_every_recorded_agent_node_starts_with_the_start_line(name: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(name)
    start_line = HOUSEHOLDS[name].start_line
    lines = next(folder.rglob("reactree_wm.jsonl")).read_text(encoding="utf-8").splitlines()
    assert lines
    for line in lines:
        transcript = parse_transcript(json.loads(line)["text"], start_line=start_line)
        assert transcript.subgoal
        assert transcript.start.text.startswith(start_line)


@pytest.mark.parametrize("household", HOUSEHOLDS.values(), ids=HOUSEHOLDS)
def test_a_household_has_a_fixed_example_of_its_own(household: Household) -> None:
    assert household.start_line in prompt(household.prompts, "reactree_wm.txt")


def test_what_a_text_names_is_found_in_everyday_words() -> None:
    assert list(named("Put two Apples and a drnik on the coffee table")) == [
        ("apple",),
        ("juice", "wine"),
        ("coffee table",),
    ]
