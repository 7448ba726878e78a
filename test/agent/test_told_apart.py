"""Two skills that one text could mean: found when they are declared, and never guessed when the text is read."""

from __future__ import annotations

from typing import Any

import pytest

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import Skill, check_told_apart, read_skill, skill_of


def numbers(least: float, most: float, by: float = 1) -> Any:
    return {"number": {"from": least, "to": most, "by": by}}


def skill(wording: str, **parameters: Any) -> Skill:
    return skill_of({"name": wording[:20], "wording": wording, "parameters": parameters})


#: Two skills, and a text that may be both; empty: there is none, or the one with more words of its own is meant.
PAIRS = [
    (skill("dock"), skill("Dock"), "dock"),
    (skill("go to {place}", place="place"), skill("go to {person}", person="person"), "go to Anna"),
    (skill("open drawer {n}", n=numbers(1, 3)), skill("open drawer {m}", m=numbers(3, 6)), "open drawer 3"),
    (skill("open drawer {n}", n=numbers(1, 3)), skill("open drawer {m}", m=numbers(4, 6)), ""),
    (skill("open drawer {n}", n=numbers(1, 3)), skill("open drawer {m}", m=["3", "left"]), "open drawer 3"),
    (skill("grip {how}", how=["softly"]), skill("grip {how}", how=["hard"]), ""),
    (skill("go at {v}", v=numbers(0, 1, 0.1)), skill("go at 0.5"), "go at 0.5"),
    (skill("drive {how}", how=["slow", "fast"]), skill("drive slow"), "drive slow"),
    (skill("say {text}", text={"text": 20}), skill("say hello"), ""),
    (skill("say {text}", text={"text": 20}), skill("say {words}", words={"text": 9}), "say hello"),
    (skill("go to {place}", place="place"), skill("go to {place} at {v} m/s", place="place", v=numbers(0, 1)), ""),
]


@pytest.mark.parametrize(("one", "other", "text"), PAIRS)
def test_skills_that_a_text_may_mean_both_are_not_told_apart(one: Skill, other: Skill, text: str) -> None:
    for first, second in ((one, other), (other, one)):
        if not text:
            check_told_apart(first, [second])
            continue
        with pytest.raises(ValueError, match=f"may be skill '{second.name}', too"):
            check_told_apart(first, [second])
        assert {first.read(text).skill, second.read(text).skill} == {one, other}


@pytest.mark.parametrize(
    ("text", "meant"),
    [("say hello", "say hello"), ("say hello Anna", "say {text}"), ("open drawer 3", "open drawer {n}")],
)
def test_a_text_is_the_skill_with_the_most_words_of_its_own(text: str, meant: str) -> None:
    skills = [
        *(skill("say {text}", text={"text": 20}), skill("say hello")),
        *(skill("open {thing}", thing="thing"), skill("open drawer {n}", n=numbers(1, 6))),
    ]
    for order in (skills, skills[::-1]):
        assert read_skill(text, order).skill.wording == meant
        with pytest.raises(ParameterError, match="9 may not stand here, but a number from 1 to 6"):
            read_skill("open drawer 9", order)  # no thing that is called so


def test_a_text_that_may_be_two_skills_is_none() -> None:
    skills = [skill_of({"name": name, "wording": "dock"}) for name in ("dock", "undock")]
    with pytest.raises(ParameterError, match="'dock' may be 'dock' or 'undock'"):
        read_skill("dock", skills)
