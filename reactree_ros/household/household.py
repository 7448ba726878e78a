"""The household of VirtualHome, as the WAH-NL recordings have it (paper, listings 1 and 2)."""

from __future__ import annotations

from typing import Any

from reactree_ros.agent.household import Household
from reactree_ros.agent.needs import HERE, needs_of
from reactree_ros.agent.parameters import Thing
from reactree_ros.agent.skill import Skill
from reactree_ros.household.vocabulary import CLASSES

_THING = "{thing}"
_WITHIN_REACH = {"free": "hand", "near": _THING}
_WHERE_IT_FITS = {"at": ["SURFACES", "CONTAINERS"], "near": HERE, "not": {"at": _THING, "closed": HERE}}


def handling(name: str, description: str, effect: str, which: str = "", **requires: Any) -> Skill:
    """Declare what is done to a thing of a kind, or to any: with what comes of it, and what has to hold."""
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
    handling("go to", "goes to a room or a thing", "at"),
    handling("pick up", "takes a thing", "held", "GRABBABLE", **_WITHIN_REACH),
    handling("put down", "puts it in or on where you stand", "released", "GRABBABLE", held=_THING, **_WHERE_IT_FITS),
    handling("open", "opens something, to see what is in it", "open", "CAN_OPEN", **_WITHIN_REACH, closed=_THING),
    handling("close", "closes something", "closed", "CAN_OPEN", **_WITHIN_REACH, open=_THING),
    handling("turn on", "switches something on", "on", "HAS_SWITCH", **_WITHIN_REACH, off=_THING),
    handling("turn off", "switches something off", "off", "HAS_SWITCH", **_WITHIN_REACH, on=_THING),
)

#: VirtualHome's skills, with their prompts and fixed examples.
WAH_NL = Household(
    name="wah_nl",
    skills=SKILLS[:-1],
    max_decisions=200,
    max_steps=200,
    prompts="reactree_ros.household:prompts",
    hands=2,
    solid=tuple(one.word for one in CLASSES.values() if one.properties & {"CAN_OPEN", "CONTAINERS"} == {"CAN_OPEN"}),
)

#: Extra text about the skills for a robot that holds one thing at a time.
ONE_HAND = "You have one hand: it must be empty when you pick up, open or close something."
