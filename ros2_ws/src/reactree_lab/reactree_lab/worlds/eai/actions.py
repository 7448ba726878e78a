"""The benchmark's actions as skills, as ``actions.yaml`` declares them, and both ways to write one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reactree_ros.agent.needs import needs_of
from reactree_ros.agent.parameters import Place, Thing
from reactree_ros.agent.skill import EFFECTS, Skill, SkillCall
from reactree_ros.errors import UserError
from reactree_ros.household.scene import STATES

_DECLARED: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("actions.yaml").read_text(encoding="utf-8"))
#: Of which properties or classes a thing of a kind is one.
KINDS: Mapping[str, frozenset[str]] = {kind: frozenset(some) for kind, some in _DECLARED["kinds"].items()}
#: How many may be on what one sits or lies on, by skill and class.
RESTS: Mapping[str, Mapping[str, int]] = _DECLARED["rests"]


@dataclass(frozen=True)
class Action:
    name: str  # in the benchmark's programs, e.g. ``PUTBACK``
    skill: Skill
    state: tuple[str, str] | None  # the state that its thing comes to be in, and the one that ends


def _actions() -> Iterator[Action]:
    states = {**STATES, **_DECLARED["states"]}
    for name, of in _DECLARED["actions"].items():
        kinds = {"thing": Thing(of.get("kind", "")), "place": Place(of.get("into", ""))}
        parameters = {one: kind for one, kind in kinds.items() if f"{{{one}}}" in of["wording"]}
        brings = of.get("brings", "")
        skill = Skill(
            name=" ".join(re.sub(r"{\w+}", "", of["wording"]).split()),
            wording=of["wording"],
            description=of["does"],
            parameters=parameters,
            requires=needs_of(of["needs"], parameters) if "needs" in of else (),
            effect=({brings: "thing"} if brings in EFFECTS else {})
            | ({"place": "place"} if "place" in parameters else {}),
        )
        yield Action(name, skill, tuple(states[brings]) if brings in states else None)


ACTIONS: Mapping[str, Action] = {one.name: one for one in _actions()}
SKILLS = tuple(one.skill for one in ACTIONS.values())
_BY_SKILL = {one.skill.name: one for one in ACTIONS.values()}


def action_of(call: SkillCall) -> Action:
    return _BY_SKILL[call.skill.name]


def to_line(call: SkillCall, ids: Mapping[str, tuple[str, int]]) -> str:
    """Write a skill as a line of a program, such as ``[GRAB] <cup> (12)``; ``ids`` has class and id by name."""
    said = "".join(" <{}> ({})".format(*ids[str(name)]) for name in call.values.values())
    return f"[{action_of(call).name}]{said}"


def from_line(line: str, names: Mapping[int, str]) -> SkillCall:
    """Read a line of a program as a skill; ``names`` has the name of each thing by id. Raises UserError."""
    name = line.partition("]")[0].lstrip("[").upper()
    if (action := ACTIONS.get(_DECLARED["same"].get(name, name))) is None:
        no_rules = name in _DECLARED["without_rules"]
        raise UserError(f"{line}: {'its simulator has no rules for' if no_rules else 'there is no action'} {name}")
    said = [names.get(int(id), "") for id in re.findall(r"\((\d+)\)", line)]
    if len(said) != len(action.skill.parameters) or not all(said):
        raise UserError(f"{line}: is not '{action.skill.wording}'; name things of the house by their ids")
    return action.skill.call(dict(zip(action.skill.parameters, said, strict=True)))
