"""What becomes of a robot's skills on its semantic map: by their declarations, and the household's by its rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from reactree_ros.agent.household import split_skill
from reactree_ros.agent.needs import HERE
from reactree_ros.agent.parameters import Named, ParameterError, Person, Room, Thing, Value
from reactree_ros.agent.picture import Picture
from reactree_ros.agent.skill import Offer, Offered, Skill, SkillCall, helping, read_skill
from reactree_ros.household import rules
from reactree_ros.household.household import SKILLS
from reactree_ros.robot.house import Item, MapThing
from reactree_ros.robot.map_file import HELD
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.world.port import Observation, Outcome

#: After a skill with one of these effects, the robot looks what is before it.
_LOOKING = frozenset({"at", "open", "held", "released"})


class MapSkills:
    """Skills that are declared: what is offered, what keeps one from being done, and what is told of it.

    ``others`` are skills of the robot that may bring about what one of these needs.
    """

    def __init__(self, skills: Sequence[Skill], others: Sequence[Skill] = ()) -> None:
        self.skills, self._helping = skills, (*skills, *others)

    def offered(self, map: SemanticMap) -> list[Offered]:
        offers = (self._offer(map, skill) for skill in self.skills)
        return [offer for offer in offers if offer.skill.words.possible(offer.now)]

    def read(self, map: SemanticMap, said: str) -> SkillCall | str:
        try:
            is_read = isinstance(said, SkillCall) and said.skill in self.skills
            call = said if is_read else read_skill(said, self.skills)
        except ParameterError as error:
            if any(skill.words.begins(said) for skill in self.skills):
                return f"The skill was not carried out: {error}."
            reason = str(error)
            return f"'{said}' is not a skill of this robot: {reason}{'' if reason.endswith('?') else '.'}"
        return call if call == said else f"The skill was not carried out: write it as '{call}'."

    def check(self, map: SemanticMap, call: SkillCall, now: float, *, unseen: bool = False) -> tuple[Outcome, str]:
        """Return ``DONE`` or ``PRECONDITION``, and what is said; in a dry run, things may be ``unseen``."""
        if far := map.in_the_way(call):
            return Outcome.PRECONDITION, f"You cannot {call} now: {far}."
        outcome, text = self._check(map, call, now, unseen=unseen)
        if outcome is Outcome.DONE and (why := self.violated(map, call)):
            return Outcome.PRECONDITION, f"You cannot {call}: {why}."
        return outcome, text

    def violated(self, map: SemanticMap, call: SkillCall, *, lasting: bool = False) -> str:
        """Say which need of a skill does not hold, of those that last only if asked so; empty if all do.

        What nobody knows holds, but for a condition: a robot does not guess whether people are near.
        """
        for need in call.skill.requires:
            holds = need.holds(call.values, map) if need.lasts or not lasting else True
            if holds is False or (holds is None and need.conditions):
                help = helping(need, call.values, map, self._helping)
                return f"{need.reason(call.values, map)}{help and f'; first {help}'}"
        return ""

    def _check(self, map: SemanticMap, call: SkillCall, now: float, *, unseen: bool) -> tuple[Outcome, str]:
        held = map.by_name.get(call.value("held"))
        if held is not None and (borne := rules.borne_by(map, held)) and map.borne[held.id] not in call.persons:
            return Outcome.PRECONDITION, borne
        try:
            meant = self._offer(map, call.skill).read(call.values)
            if meant != call:
                raise ParameterError(f"write it as '{meant}'")
        except ParameterError as error:
            return Outcome.PRECONDITION, f"You cannot {call}: {error}."
        things = [name for _, kind, name in call.named if isinstance(kind, Thing)]
        if len(set(things)) < len(things):
            return Outcome.PRECONDITION, f"You cannot {call}: it is done with two things."
        return Outcome.DONE, f"You {call}".rstrip(".") + "."

    def failed(self, map: SemanticMap, call: SkillCall, reason: str) -> str:
        return f"You could not {call}: {reason}."

    def after(
        self,
        map: SemanticMap,
        call: SkillCall,
        outcome: Outcome,
        text: str,
        data: Mapping[str, Value],
        pictures: tuple[Picture, ...] = (),
    ) -> Observation:
        """Word what is observed after a skill, with its first sentence given."""
        near = map.before() if outcome is Outcome.DONE and (pictures or looks(call.skill)) else []
        told = [
            text,
            f"It returned {call.skill.describe(data)}."
            if data or (outcome is Outcome.DONE and call.skill.returns)
            else "",
            rules.see_text(near) + "." if near else "",
        ]
        seen = tuple(rules.sightings(map, near, map.here or map.anchor))
        words = " ".join(filter(None, told)) + rules.holding_text(map)
        return map.located(Observation(words, outcome, seen, data=data, pictures=pictures))

    def _offer(self, map: SemanticMap, skill: Skill) -> Offer:
        kinds = {name: one.named for name, one in skill.parameters.items()}
        takes = any(isinstance(one, Person) for one in kinds.values())
        return Offer(skill, {name: tuple(may_stand(map, one, takes=takes)) for name, one in kinds.items() if one})


def looks(skill: Skill) -> bool:
    return not _LOOKING.isdisjoint(skill.effect)


def may_stand(map: SemanticMap, parameter: Named, *, takes: bool) -> Iterator[str]:
    """Yield the names that may stand for a parameter now; one that ``takes`` may name what a person has."""
    if parameter.names or isinstance(parameter, Person):
        yield from parameter.names or (person.name for person in map.persons)
        return
    rooms, receptacles = list(map.rooms), list(map.receptacles())
    things: Sequence[object] = [*receptacles, *rooms]
    if isinstance(parameter, Room):
        things = rooms
    elif isinstance(parameter, Thing):
        borne = [map.things[id] for id in map.borne] if takes else []
        things = [*map.visible(), *rules.held(map), *borne]
    for thing in dict.fromkeys(things):
        if isinstance(thing, MapThing) and _is(map, thing, parameter.which):
            yield thing.name


def _is(map: SemanticMap, thing: MapThing, which: str) -> bool:
    if which == HELD:
        return thing.id in map.held
    return not which or f" {thing.word}".endswith(f" {which}") or which in thing.properties


class HouseholdSkills(MapSkills):
    """Those of the household's skills that a robot has."""

    def offered(self, map: SemanticMap) -> list[Offered]:
        goes = next((skill.verb for skill in self.skills if "at" in skill.effect), "")
        met = [person for person in map.persons if goes and map.approach(person) is not None]
        return [*rules.available_skills(map, self.skills), *(f"{goes} {person.name}" for person in met)]

    def read(self, map: SemanticMap, said: str) -> SkillCall | str:
        verb, name = split_skill(said, [skill.verb for skill in SKILLS])
        skill = next((skill for skill in self.skills if skill.verb == verb), None)
        if skill is None:
            verbs = ", ".join(one.verb for one in self.skills)
            return f"'{said}' is not a skill of this robot. A skill starts with one of: {verbs}."
        wrong = rules.unfit(verb, name, map)
        return wrong or skill.call({next(iter(skill.parameters)): name})

    def _check(self, map: SemanticMap, call: SkillCall, now: float, *, unseen: bool) -> tuple[Outcome, str]:
        skill = _skill(map, call)
        thing = skill.thing
        if skill.verb == "put down" and thing.id in map.held and not map.holds("at", HERE):
            return Outcome.PRECONDITION, f"You are at nothing that the {thing.word} could be put down on."
        outcome, text = rules.check(skill, map)
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
        return f"You could not {call.skill.verb} {name if thing is None else thing.worded()}: {reason}."

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
            seen = tuple(rules.sightings(map, (), None))
            return map.located(Observation(text + rules.holding_text(map), outcome, seen, pictures=pictures))
        told = rules.after_skill(_skill(map, call), outcome, text, scene=map, next_to_agent=map.look())
        return map.located(replace(told, pictures=pictures))


def _skill(map: SemanticMap, call: SkillCall) -> rules.Skill:
    thing = map.thing_of(call)
    assert isinstance(thing, MapThing)  # it was read with this map
    return rules.Skill(call.skill.verb, thing)
