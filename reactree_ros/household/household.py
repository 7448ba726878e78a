"""The household of VirtualHome, as the WAH-NL recordings have it (paper, listings 1 and 2)."""

from __future__ import annotations

from reactree_ros.agent.household import Household
from reactree_ros.agent.parameters import Thing
from reactree_ros.agent.skill import Skill


def _skill(name: str, which: str = "", **effect: str) -> Skill:
    return Skill(name=name, wording=f"{name} {{thing}}", parameters={"thing": Thing(which)}, effect=effect)


#: What is done in a house, and what a thing has to be for it; what comes of it, :mod:`rules` says.
SKILLS = (
    _skill("go to", at="thing"),
    _skill("pick up", "GRABBABLE", held="thing"),
    _skill("put down", "GRABBABLE", released="thing"),
    _skill("open", "CAN_OPEN", open="thing"),
    _skill("close", "CAN_OPEN", closed="thing"),
    _skill("turn on", "HAS_SWITCH", on="thing"),
    _skill("turn off", "HAS_SWITCH", off="thing"),
)

#: VirtualHome's skills, with their prompts and fixed examples.
WAH_NL = Household(
    name="wah_nl",
    skills=SKILLS[:-1],
    max_decisions=200,
    max_steps=200,
    prompts="reactree_ros.household:prompts",
    hands=2,
)

#: Extra text about the skills for a robot that holds one thing at a time.
ONE_HAND = "You have one hand: it must be empty when you pick up, open or close something."
