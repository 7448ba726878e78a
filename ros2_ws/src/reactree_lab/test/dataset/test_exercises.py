"""Exercises: what they ask, and that what they answer is so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from command_line import Cli

from reactree_lab.dataset.exercises import exercise
from reactree_lab.dataset.lines import Line
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.llm.port import prompt_text

PLANNER = "reactree_wm:system_text=false:fixed_example=false"


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    return [line for seed in range(300) for line in exercise(seed, PLANNER)]


def listed(text: str) -> dict[str, list[str]]:
    """Return the numbers of what the last observation lists, by word."""
    return {
        word: numbers.split(", ")
        for word, numbers in re.findall(r"(\w[\w ]*?) \(([\d, ]+)\)", text.rpartition("You see ")[2])
    }


def test_the_thing_is_picked_up_where_it_is_seen_and_only_there(lines: list[Line]) -> None:
    found = 0
    for line in lines:
        text = prompt_text(line.turns, line.begun)
        wanted = re.findall(
            r"Your task is to: find and pick up (?:the|another) (.+?)(?: in \w[a-z ]* \d+| by a closer look)?\n", text
        )
        seen = listed(text)
        held = re.findall(r" You hold .+? \((\d+)\)\.\n", text)
        assert (" another " in text) == bool(held)
        if there := [number for number in seen.get(wanted[0], ()) if number not in held]:
            found += 1
            assert [line.completion] == [f"Act: pick up {wanted[0]} {number}" for number in there]
        else:
            assert line.completion.startswith("Act: go to ")
    assert 0.3 < found / len(lines) < 0.45


@pytest.mark.slow
def test_short_ones_list_few_things_and_the_wanted_one_only_to_be_picked_up() -> None:
    lines = [line for seed in range(100) for line in exercise(seed, PLANNER, short=True)]
    found = 0
    for line in lines:
        text = prompt_text(line.turns, line.begun)
        (wanted,) = re.findall(r"Your task is to: find and pick up the (.+?)\n", text)
        seen = listed(text)
        assert 1 <= len(seen) <= 3
        assert "You hold" not in text
        assert line.completion.startswith("Act: pick up " if wanted in seen else "Act: go to ")
        found += wanted in seen
    assert 0.4 < found / len(lines) < 0.6


@pytest.mark.slow
def test_what_is_said_may_be_said_and_only_one_place_may_be_gone_to(lines: list[Line]) -> None:
    for line in lines:
        skills = line.may_say["skills"]
        assert re.fullmatch(DecisionGrammar(tuple(skills), ()).regex(), f"{line.completion}\n")
        assert sum(skill.startswith("go to ") for skill in skills) == 1
        assert any(skill.startswith("pick up ") for skill in skills)


def test_lists_are_of_all_lengths_and_tasks_told_in_all_ways(lines: list[Line]) -> None:
    lengths = {len(listed(prompt_text(line.turns, ""))) for line in lines}
    assert {1, 2, 5, 10} <= lengths
    texts = [prompt_text(line.turns, "") for line in lines]
    for words in ("by a closer look\nAct", "using a fallback strategy", "in sequence", "Target_domain:\nYour task is"):
        assert any(words in text for text in texts), words


@pytest.mark.slow
def test_they_stand_beside_houses_in_a_dataset_and_come_out_the_same(cli: Cli, tmp_path: Path) -> None:
    made = []
    for workers in (1, 2):
        out = tmp_path / str(workers)
        options = ("--first-seed", 5, "--held-out", 0.2, "--workers", workers)
        ended = cli("lab", "dataset", "--houses", 2, "--exercises", 40, *options, "--out", out)
        assert ended.code == 0, ended.err
        made.append({name: (out / name).read_text() for name in ("train.jsonl", "held_out.jsonl")})
    assert made[0] == made[1]
    houses = [json.loads(line)["house"] for text in made[0].values() for line in text.splitlines()]
    assert len({house for house in houses if house.startswith("exercise ")}) == 40
    assert any("rooms" in house for house in houses)


def test_short_ones_alone_come_of_the_command_which_refuses_them_without_exercises(cli: Cli, tmp_path: Path) -> None:
    ended = cli("lab", "dataset", "--exercises", 10, "--short", "--out", tmp_path)
    assert ended.code == 0, ended.err
    lines = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert all(line["prompt"].startswith("Target_domain:\nYour task is to: find and pick up the ") for line in lines)
    assert json.loads((tmp_path / "dataset.json").read_text())["short"] is True
    refused = cli("lab", "dataset", "--houses", 2, "--short", "--out", tmp_path / "none")
    assert refused.code == 2
    assert refused.err.startswith("error: options: short is 'True': there are no exercises")
