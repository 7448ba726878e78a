"""What may be said of declared skills, and what may not, derived from their declarations; and what is seen of both."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reactree_ros.agent.parameters import Choice, Named, Number, Parameter, Text, Value
from reactree_ros.agent.skill import Offer, Skill, SkillCall

#: What no map and no choice has.
STRANGE = "unicorn 7"


def call_of(offer: Offer, chance: random.Random, *, but: str = "") -> SkillCall | None:
    """Return a skill with values that may stand there, no name twice and none of ``but``; None: there is none."""
    values: dict[str, Value] = {}
    for name, one in offer.skill.parameters.items():
        options = list(one.options(offer.now.get(name)) or ())
        if isinstance(one, Named):
            options = [option for option in options if option != but and option not in values.values()]
        if isinstance(one, Number):
            options = list(one.values())
        elif isinstance(one, Text):
            options = [f"Hello Anna. This is {chance.randrange(10**6)}, from Bob."]
        if not options:
            return None
        values[name] = chance.choice(options)
    return offer.skill.call(values)


def outside(call: SkillCall, name: str) -> str:
    """Return a skill with a value that may not stand in one of its places, in words."""
    one = call.skill.parameters[name]
    return call.skill.words.write({**call.values, name: _outside(one)})


def _outside(one: Parameter) -> Value:
    if isinstance(one, Number):
        return one.greatest + one.step
    return "x" * (one.longest + 1) if isinstance(one, Text) else STRANGE


def rules_of(skills: Iterable[Skill]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return a policy that allows all skills, and denies some values of each that has a choice, a number or some names.

    Returns:
        The rules that deny, and all rules.
    """
    skills = list(skills)
    denied: list[dict[str, Any]] = []
    for skill in skills:
        for name, one in skill.parameters.items():
            wanted: Any = None
            if isinstance(one, Number) and one.greatest > one.least:
                wanted = {"above": one.least + 0.75 * (one.greatest - one.least)}
            elif isinstance(one, Choice) or (isinstance(one, Named) and one.names):
                wanted = (one.options() or [""])[-1]
            if wanted is not None:
                denied.append({"skill": skill.name, "when": {name: wanted}, "verdict": "deny"})
                break
    return denied, [*denied, *({"skill": skill.name, "verdict": "allow"} for skill in skills)]


def is_denied(call: SkillCall, denied: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of the rules that deny is about a skill, by its values alone."""
    for rule in denied:
        for name, wanted in rule["when"].items() if rule["skill"] == call.skill.name else ():
            value = call.values[name]
            if value == wanted or (isinstance(wanted, dict) and float(value) > wanted["above"]):
                return True
    return False


def at_once(journal: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say where a robot was asked for something while something else was under way; a process ends with all its own."""
    found, under_way = [], dict[tuple[int, str], Mapping[str, Any]]()
    for line in journal:
        who = (line.get("process", 0), line["server"])
        if "gone" in line:
            under_way = {one: begun for one, begun in under_way.items() if one[0] != line["gone"]}
        elif "ends" in line:
            under_way.pop(who, None)
        elif "begins" in line:
            found += [f"{line['server']} began while {server} was under way" for _, server in under_way]
            under_way[who] = line
    return found
