"""The actions of the Embodied Agent Interface as skills: what each needs and brings about, and both ways to write it.

The needs are those of its simulator. A state that no fact of a skill names, such as ``plugged in``, is a condition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reactree_ros.agent.needs import needs_of
from reactree_ros.agent.parameters import Place, Thing
from reactree_ros.agent.skill import Skill, SkillCall
from reactree_ros.errors import UserError
from reactree_ros.household.scene import STATES


@dataclass(frozen=True)
class Action:
    name: str  # in its programs, e.g. ``PUTBACK``
    skill: Skill
    brings: tuple[str, str] | None = None  # the state that a thing, or else the robot, comes to be in, and its opposite


#: What can be done to a thing by its class or a property, under one word.
KINDS: Mapping[str, frozenset[str]] = {
    "grabbable": frozenset({"GRABBABLE", "water", "child"}),
    "openable": frozenset({"CAN_OPEN", "desk", "window"}),
    "drinkable": frozenset({"DRINKABLE", "RECIPIENT"}),
    "pourable": frozenset({"POURABLE", "DRINKABLE"}),
    "fillable": frozenset({"RECIPIENT", "hands_both", "sponge", "face"}),
    "typeable": frozenset({"HAS_SWITCH", "keyboard"}),
    "movable": frozenset({"MOVABLE", "button", "chair", "curtain"}),
    "squeezable": frozenset(
        "CLOTHES cleaning_solution tooth_paste shampoo food_peanut_butter dish_soap soap towel rag paper sponge "
        "food_lemon check".split()
    ),
    **{word: frozenset({word.upper()}) for word in ("readable", "lookable", "sittable", "lieable", "clothes", "person")},
    "switchable": frozenset({"HAS_SWITCH"}),
    "pluggable": frozenset({"HAS_PLUG"}),
}
_STATES = {"clean": ("CLEAN", "DIRTY"), "plugged in": ("PLUGGED_IN", "PLUGGED_OUT")}
_STATES |= {"plugged out": _STATES["plugged in"][::-1], **STATES}
_NEAR, _HELD, _HAND = {"near": "{thing}"}, {"held": "{thing}"}, {"free": "hand"}
_SHUT = {"not": {"condition": "{thing} is shut in"}}
_RESTS = {"condition": ["you are sitting", "you are lying"]}
_FACED, _ROOMY = {"condition": "you face {thing}"}, {"condition": "{thing} is roomy"}
_AT_PLACE = {"held": "{thing}", "near": "{place}"}


def _is(what: str) -> dict[str, str]:
    return {"condition": f"{{thing}} is {what}"}


def _action(  # noqa: PLR0913 (a row of the table)
    name: str, wording: str, what: str, *needs: dict[str, Any], which: str = "", into: str = "", effect: str = ""
) -> Action:
    parameters = {"thing": Thing(which), "place": Place(into)}
    parameters = {one: kind for one, kind in parameters.items() if f"{{{one}}}" in wording}
    state = _STATES.get(effect)
    known = {effect: "thing"} if effect in STATES or effect in ("at", "held", "released") else {}
    skill = Skill(
        name=" ".join(re.sub(r"{\w+}", "", wording).split()),
        wording=wording,
        description=what,
        parameters=parameters,
        requires=needs_of(list(needs), parameters) if needs else (),
        effect={**known, "place": "place"} if known and "place" in parameters else known,
    )
    return Action(name, skill, state)


ACTIONS: Mapping[str, Action] = {
    one.name: one
    for one in (
        _action("WALK", "go to {thing}", "walks to a room or a thing", {"not": _RESTS}, effect="at"),
        _action("FIND", "find {thing}", "goes to what is not near yet", {"condition": "you can get to {thing}"}, effect="at"),
        _action("GRAB", "pick up {thing}", "takes it", {"not": _HELD}, _NEAR, _SHUT, _HAND, which="grabbable", effect="held"),
        _action("PUTBACK", "put {thing} on {place}", "puts it there", _AT_PLACE, effect="released"),
        _action(
            "PUTIN",
            "put {thing} in {place}",
            "puts it in what is open",
            _AT_PLACE,
            {"not": {"condition": "{place} is shut"}},
            effect="released",
        ),
        _action("PUTOBJBACK", "put {thing} back", "puts it where it was", _HELD, {"condition": "you can return {thing}"}, effect="released"),
        _action("DROP", "drop {thing}", "lets it fall", _HELD, effect="released"),
        _action("OPEN", "open {thing}", "opens it", _NEAR, _HAND, {"closed": "{thing}", "not": {"on": "{thing}"}}, which="openable", effect="open"),
        _action("CLOSE", "close {thing}", "closes it", _NEAR, {"open": "{thing}"}, which="openable", effect="closed"),
        _action("SWITCHON", "turn on {thing}", "switches it on", _NEAR, {"off": "{thing}", "not": _is("plugged out")}, which="switchable", effect="on"),
        _action("SWITCHOFF", "turn off {thing}", "switches it off", _NEAR, {"on": "{thing}"}, which="switchable", effect="off"),
        _action("PLUGIN", "plug in {thing}", "plugs it in", _NEAR, _HAND, _is("plugged out"), which="pluggable", effect="plugged in"),
        _action("PLUGOUT", "unplug {thing}", "pulls its plug", _NEAR, _HAND, _is("plugged in"), which="pluggable", effect="plugged out"),
        _action("WASH", "wash {thing}", "washes it", _NEAR, effect="clean"),
        _action("RINSE", "rinse {thing}", "rinses it", _NEAR, effect="clean"),
        _action("SCRUB", "scrub {thing}", "scrubs it", _NEAR, effect="clean"),
        _action("WIPE", "wipe {thing}", "wipes it with what you hold", _NEAR, {"condition": "you hold something"}, effect="clean"),
        _action("SIT", "sit on {thing}", "sits down", _NEAR, {"not": {"condition": "you are sitting"}}, _ROOMY, which="sittable"),
        _action("LIE", "lie on {thing}", "lies down", _NEAR, {"not": {"condition": "you are lying"}}, _ROOMY, which="lieable"),
        _action("STANDUP", "stand up", "stands up", _RESTS),
        _action("SLEEP", "sleep", "sleeps", _RESTS),
        _action("WAKEUP", "wake up", "wakes up", _RESTS),
        _action("TURNTO", "turn to {thing}", "turns to face it"),
        _action("LOOKAT", "look at {thing}", "looks at it", _FACED),
        _action("POINTAT", "point at {thing}", "points at it", _FACED),
        _action("WATCH", "watch {thing}", "watches it", {"condition": "{thing} is in your room"}, _FACED, _SHUT, which="lookable"),
        _action("READ", "read {thing}", "reads what is held", _HELD, which="readable"),
        _action("DRINK", "drink {thing}", "drinks it, or from it", _HELD, which="drinkable"),
        _action("EAT", "eat {thing}", "eats it, or what is on it", _NEAR, {"condition": "{thing} is food"}),
        _action("CUT", "cut {thing}", "cuts food", _HAND, _NEAR, _is("eatable"), _is("cuttable"), {"condition": "you hold a knife"}),
        _action("POUR", "pour {thing} into {place}", "pours it", _AT_PLACE, which="pourable", into="fillable"),
        _action("TYPE", "type on {thing}", "types", _NEAR, which="typeable"),
        _action("TOUCH", "touch {thing}", "touches it", _NEAR, _SHUT),
        _action("PUSH", "push {thing}", "pushes it", _NEAR, _SHUT, _HAND),
        _action("PULL", "pull {thing}", "pulls it", _NEAR, _SHUT, _HAND, which="movable"),
        _action("MOVE", "move {thing}", "moves it a little", _NEAR, _SHUT, _HAND, which="movable"),
        _action("SQUEEZE", "squeeze {thing}", "squeezes it", _HAND, _NEAR, which="squeezable"),
        _action("PUTON", "wear {thing}", "puts on what is held", _HELD, which="clothes"),
        _action("PUTOFF", "take off {thing}", "takes off what is worn", {"condition": "you wear {thing}"}, which="clothes"),
        _action("GREET", "greet {thing}", "greets a person", which="person"),
    )
}
#: The same action under another name.
SAME = {"RUN": "WALK", "RELEASE": "DROP", "LOOKAT_MEDIUM": "LOOKAT"}
#: The actions of which its simulator knows the name only.
WITHOUT_RULES = ("LOOKAT_SHORT", "LOOKAT_LONG")
SKILLS = tuple(one.skill for one in ACTIONS.values())
_BY_SKILL = {one.skill.name: one for one in ACTIONS.values()}


def action_of(call: SkillCall) -> Action:
    return _BY_SKILL[call.skill.name]


def to_line(call: SkillCall, ids: Mapping[str, tuple[str, int]]) -> str:
    """Write a skill as a line of its programs, with the class and the id of each thing by name."""
    said = "".join(" <{}> ({})".format(*ids[str(name)]) for name in call.values.values())
    return f"[{action_of(call).name}]{said}"


def from_line(line: str, names: Mapping[int, str]) -> SkillCall:
    """Read a line of its programs as a skill, with the name of each thing by id. Raises UserError."""
    name = line.partition("]")[0].lstrip("[").upper()
    if (action := ACTIONS.get(SAME.get(name, name))) is None:
        known = "its simulator has no rules for it" if name in WITHOUT_RULES else "it is none of its actions"
        raise UserError(f"{line}: {name} is refused: {known}")
    said = [names.get(int(id), "") for id in re.findall(r"\((\d+)\)", line)]
    if len(said) != len(action.skill.parameters) or not all(said):
        raise UserError(f"{line}: '{action.skill.wording}' cannot be read from it; name things of the house by their ids")
    return action.skill.call(dict(zip(action.skill.parameters, said, strict=True)))
