"""The household's skills on a robot's semantic map, by the household's rules and in their wording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from reactree_ros.agent.household import split_skill
from reactree_ros.agent.parameters import Value
from reactree_ros.agent.picture import Picture
from reactree_ros.agent.skill import Offered, SkillCall
from reactree_ros.household import looking, rules
from reactree_ros.household.household import SKILLS
from reactree_ros.robot.house import Item, MapThing
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills
from reactree_ros.world.port import Observation, Outcome


class HouseholdSkills(MapSkills):
    """Those of the household's skills that a robot has."""

    def offered(self, map: SemanticMap) -> list[Offered]:
        """List what may be tried now."""
        goes = next((skill.verb for skill in self.skills if "at" in skill.effect), "")
        met = [person for person in map.persons if goes and map.approach(person) is not None]
        return [*rules.available_skills(map, self.skills), *(f"{goes} {person.name}" for person in met)]

    def read(self, map: SemanticMap, said: str) -> SkillCall | str:
        verb, name = split_skill(said, [skill.verb for skill in SKILLS])
        skill = next((skill for skill in self.skills if skill.verb == verb), None)
        if skill is None:
            verbs = ", ".join(one.verb for one in self.skills)
            return f"'{said}' is no skill of this robot. A skill starts with one of: {verbs}."
        wrong = rules.unfit(verb, name, map)
        return wrong or skill.call({next(iter(skill.parameters)): name})

    def check(self, map: SemanticMap, call: SkillCall, now: float, *, unseen: bool = False) -> tuple[Outcome, str]:
        skill, receptacle = _skill(map, call), map.target(call)
        thing = skill.thing
        if far := map.in_the_way(call):
            return Outcome.PRECONDITION, f"You cannot {call} now: {far}."
        if skill.verb not in ("go to", "put down") and len(map.held) >= map.hands:
            return Outcome.PRECONDITION, rules.FULL
        if skill.verb == "put down" and thing.id in map.held and receptacle is None:
            return Outcome.PRECONDITION, f"You are at nothing that the {thing.word} could be put down on."
        outcome, text = rules.check(skill, scene=map, receptacle=receptacle)
        if outcome is Outcome.DONE and isinstance(thing, Item) and skill.verb == "pick up" and not unseen:
            limit = map.document.objects.fresh_for
            if thing.seen is None:
                return Outcome.PRECONDITION, f"The {thing.word} has not been detected where it should be."
            if now - thing.seen > limit:
                age = f"{now - thing.seen:.0f} s ago, more than {limit:g} s"
                return Outcome.PRECONDITION, f"The {thing.word} was last detected {age}."
        return outcome, text

    def failed(self, map: SemanticMap, call: SkillCall, reason: str) -> str:
        name = call.value(next(iter(call.skill.effect)))
        thing = map.by_name.get(name)
        return f"You could not {call.skill.verb} {name if thing is None else thing.told()}: {reason}."

    def after(
        self,
        map: SemanticMap,
        call: SkillCall,
        outcome: Outcome,
        text: str,
        data: Mapping[str, Value],
        pictures: tuple[Picture, ...] = (),
    ) -> Observation:
        if outcome is not Outcome.DONE or map.thing_of(call) is None:
            seen = tuple(looking.sightings(map, (), None))
            return map.located(Observation(text + looking.holding_text(map), outcome, seen, pictures=pictures))
        near, receptacle = map.look(), map.target(call)
        told = rules.after_skill(_skill(map, call), outcome, text, scene=map, next_to_agent=near, receptacle=receptacle)
        return map.located(replace(told, pictures=pictures))


def _skill(map: SemanticMap, call: SkillCall) -> rules.Skill:
    thing = map.thing_of(call)
    assert isinstance(thing, MapThing)  # it was read with this map
    return rules.Skill(call.skill.verb, thing)
