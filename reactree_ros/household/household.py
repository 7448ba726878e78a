"""The household of VirtualHome, as the WAH-NL recordings have it (paper, listings 1 and 2)."""

from __future__ import annotations

from typing import Any

from reactree_ros.agent.household import Household
from reactree_ros.agent.needs import HERE, needs_of
from reactree_ros.agent.parameters import Thing
from reactree_ros.agent.skill import Skill

_THING = "{thing}"
_WITHIN_REACH = {"free": "hand", "near": _THING}
_WHERE_IT_FITS = {"at": ["SURFACES", "CONTAINERS"], "near": HERE, "not": {"at": _THING, "closed": HERE}}


def _skill(name: str, description: str, effect: str, which: str = "", **requires: Any) -> Skill:
    parameters = {"thing": Thing(which)}
    return Skill(
        name=name,
        wording=f"{name} {{thing}}",
        description=description,
        parameters=parameters,
        requires=needs_of(requires, parameters) if requires else (),
        effect={effect: "thing"},
    )


#: What is done in a house: what comes of it, what a thing has to be, and what has to hold, in the recorded order.
SKILLS = (
    _skill("go to", "goes to a room or a thing", "at"),
    _skill("pick up", "takes a thing into an empty hand", "held", "GRABBABLE", **_WITHIN_REACH),
    _skill(
        "put down",
        "puts it where the robot stands, in or on it",
        "released",
        "GRABBABLE",
        held=_THING,
        **_WHERE_IT_FITS,
    ),
    _skill("open", "opens something that is closed", "open", "CAN_OPEN", **_WITHIN_REACH, closed=_THING),
    _skill("close", "closes something that is open", "closed", "CAN_OPEN", **_WITHIN_REACH, open=_THING),
    _skill("turn on", "switches something on", "on", "HAS_SWITCH", **_WITHIN_REACH, off=_THING),
    _skill("turn off", "switches something off", "off", "HAS_SWITCH", **_WITHIN_REACH, on=_THING),
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
