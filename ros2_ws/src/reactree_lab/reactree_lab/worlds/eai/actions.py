"""The benchmark's actions as skills, as ``actions.yaml`` declares them, and both ways to write one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from reactree_ros.agent.needs import needs_of
from reactree_ros.agent.parameters import Place, Thing
from reactree_ros.agent.skill import Skill, SkillCall
from reactree_ros.errors import UserError

_DECLARED: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_name("actions.yaml").read_text(encoding="utf-8"))
#: Of which properties or classes a thing of a kind is one.
KINDS: Mapping[str, Sequence[str]] = _DECLARED["kinds"]
#: How many may be on what one sits or lies on, by skill and class.
RESTS: Mapping[str, Mapping[str, int]] = _DECLARED["rests"]
#: The states that each state ends.
ENDS = {one: {*those} - {one} for those in _DECLARED["states"] for one in those}


@dataclass(frozen=True)
class Action:
    name: str  # in the benchmark's programs, e.g. ``PUTBACK``
    skill: Skill
    kinds: Mapping[str, str]  # of which kind what stands in each place has to be; empty: of any
    then: Sequence[str]  # states and relations that it brings, e.g. ``thing CLEAN``, ``you ON thing``


def _actions() -> Iterator[Action]:
    for name, of in _DECLARED["actions"].items():
        wording, brings = of["wording"], of.get("brings")
        both = {"thing": of.get("kind", ""), "place": of.get("into", "")}
        kinds = {one: kind for one, kind in both.items() if f"{{{one}}}" in wording}
        parameters = {one: (Thing if one == "thing" else Place)(kind) for one, kind in kinds.items()}
        skill = Skill(
            name=" ".join(re.sub(r"{\w+}", "", wording).split()),
            wording=wording,
            description=of["does"],
            parameters=parameters,
            requires=needs_of(of["needs"], parameters) if "needs" in of else (),
            effect={brings: "thing", **({"place": "place"} if "place" in kinds else {})} if brings else {},
        )
        yield Action(name, skill, kinds, of.get("then", ()))


ACTIONS: Mapping[str, Action] = {one.name: one for one in _actions()}
BY_SKILL: Mapping[str, Action] = {one.skill.name: one for one in ACTIONS.values()}


def to_line(call: SkillCall, ids: Mapping[str, tuple[str, int]]) -> str:
    """Write a skill as a line of a program, such as ``[GRAB] <cup> (12)``; ``ids`` has class and id by name."""
    said = "".join(" <{}> ({})".format(*ids[str(name)]) for name in call.values.values())
    return f"[{BY_SKILL[call.skill.name].name}]{said}"


def from_line(line: str, names: Mapping[int, str]) -> SkillCall:
    """Read a line of a program as a skill; ``names`` has the name of each thing by id. Raises UserError."""
    name = line.partition("]")[0].lstrip("[").upper()
    if (action := ACTIONS.get(_DECLARED["same"].get(name, name))) is None:
        no_rules = name in _DECLARED["without_rules"]
        raise UserError(f"{line}: {'its simulator has no rules for' if no_rules else 'there is no action'} {name}")
    said = [names.get(int(id), "") for id in re.findall(r"\((\d+)\)", line)]
    if len(said) != len(action.kinds) or not all(said):
        raise UserError(f"{line}: is not '{action.skill.wording}'; name things of the house by their ids")
    return action.skill.call(dict(zip(action.kinds, said, strict=True)))
