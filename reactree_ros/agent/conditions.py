"""Conditions that a world can be asked for: the skill by which one is waited for, or looked at."""

from __future__ import annotations

from collections.abc import Sequence

from reactree_ros.agent.parameters import Choice, Number
from reactree_ros.agent.skill import Skill, SkillCall, read_skill

#: The skill by which every condition is waited for.
WAIT = "wait until"
#: Longest wait for a condition that may be asked for, in seconds.
LONGEST = 600


def wait_skill(conditions: Sequence[str]) -> Skill:
    parameters = {"condition": Choice(tuple(conditions)), "seconds": Number(0, LONGEST, unit="s")}
    return Skill(name=WAIT, wording=f"{WAIT} {{condition}} for up to {{seconds}} s", parameters=parameters)


def look_at(condition: str, skills: Sequence[Skill]) -> SkillCall:
    """Return the skill that looks whether a condition holds now: a wait of no time. Raises ParameterError."""
    return read_skill(f"{WAIT} {condition} for up to 0 s", skills)
