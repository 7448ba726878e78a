"""The household rules: skills, their preconditions, and the wording of every observation and refusal.

One implementation for every source of a scene (paper, appendix B.2; wording as in the recordings).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from reactree_ros.agent.needs import HERE, OPPOSITES, Need
from reactree_ros.agent.parameters import Named, Person, Place
from reactree_ros.agent.parameters import Thing as AnyThing
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.skill import Skill as Declared
from reactree_ros.household.household import SKILLS, WAH_NL
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.tasks import GoalCondition, parts_of
from reactree_ros.household.vocabulary import CLASSES
from reactree_ros.world.port import GONE, Observation, Outcome, Score, Seen


def look_around(scene: Scene) -> Observation:
    items = room_items(scene)
    rooms = tuple(room.name for room in scene.rooms)
    return Observation(starting_text(scene, items), seen=tuple(sightings(scene, items, None)), rooms=rooms)


def room_items(scene: Scene) -> list[Thing]:
    return [thing for thing in scene.visible() if thing.room_item]


def held(scene: Scene) -> Iterator[Thing]:
    return (scene.things[id] for id in scene.held)


def sightings(scene: Scene, things: Iterable[Thing], place: Thing | None) -> Iterator[Seen]:
    """Yield what working memory stores of things seen at a place, and of held things."""
    room, where = scene.agent_room.name, place.name if place is not None else None
    for thing in things:
        yield seen_as(thing, room, where)
    for thing in held(scene):
        yield seen_as(thing, room, held=True)
    for name in scene.held_besides:
        yield Seen(*parts_of(name), room, held=True)
    for id, person in scene.borne.items():
        yield Seen(scene.things[id].word, scene.things[id].number, None, person)


def seen_as(thing: Thing, room: str, place: str | None = None, *, held: bool = False) -> Seen:
    return Seen(thing.word, thing.number, room, place, held, tuple(sorted(thing.states)))


def starting_text(scene: Scene, room_items: Iterable[Thing]) -> str:
    room = scene.agent_room
    return (
        f"You are in the house, and there are {len(scene.rooms)} rooms: {merged(scene.rooms)}. "
        f"You are in the middle of {room.worded('a')}. {look_text(room_items)}"
        f"{holding_text(scene)}{bearing_text(scene)}"
    )


def look_text(room_items: Iterable[Thing]) -> str:
    return f"Looking quickly around the room, you see {merged(room_items) or 'nothing'}."


def see_text(things: Iterable[Thing]) -> str:
    return f"You see {listed}" if (listed := merged(things)) else ""


def holding_text(scene: Scene) -> str:
    listed = ", ".join(filter(None, (merged(held(scene)), *scene.held_besides)))
    return f" You hold {listed}." if listed else ""


def bearing_text(scene: Scene) -> str:
    """Word what persons have, with a space before; empty if they have nothing."""
    by_person = defaultdict[str, list[Thing]](list)
    for id, person in scene.borne.items():
        by_person[person].append(scene.things[id])
    return "".join(f" {_bears(person, merged(things))}" for person, things in by_person.items())


def borne_by(scene: Scene, thing: Thing) -> str:
    """Say that a person has a thing, so that it is not there to be taken; empty if nobody has it."""
    person = scene.borne.get(thing.id, "")
    return _bears(person, f"the {thing.word}") if person else ""


def _bears(person: str, what: str) -> str:
    return f"{person[:1].upper()}{person[1:]} has {what}."


def merged(things: Iterable[Thing]) -> str:
    numbers: dict[str, list[int]] = defaultdict(list)
    for thing in things:
        numbers[thing.word].append(thing.number)
    return ", ".join(_numbered(word, sorted(set(numbers[word]))) for word in sorted(numbers))


def _numbered(word: str, numbers: list[int]) -> str:
    return f"{word} ({', '.join(map(str, numbers))})" if any(numbers) else word


#: What is said if all hands are full.
FULL = "You do not have an empty hand."
# A desk can be opened, but an arrival does not report whether it is.
_OPENNESS_UNSAID = frozenset({"desk"})
_DECLARED = {skill.verb: skill for skill in SKILLS}


@dataclass(frozen=True)
class Skill:
    verb: str
    thing: Thing

    @property
    def declared(self) -> Declared:
        return _DECLARED[self.verb]


def parse_skill(text: str, scene: Scene) -> Skill | str:
    verb, name = WAH_NL.split_skill(text)
    if not verb:
        *first, last = WAH_NL.actions
        return f"'{text}' is not a skill. A skill starts with {', '.join(first)} or {last}."
    return unfit(verb, name, scene) or Skill(verb, scene.by_name[name])


def unfit(verb: str, name: str, scene: Scene) -> str:
    thing = scene.by_name.get(name)
    if thing is None:
        return f"There is no {name} in the house."
    return f"You cannot {verb} a {thing.word}." if thing.is_room and verb != "go to" else ""


def available_skills(scene: Scene, declared: Sequence[Declared] = WAH_NL.skills) -> list[str]:
    """List what the agent may try of some skills: with every room, and with what it sees as its properties allow."""
    asked = [(skill.verb, which_of(skill)) for skill in declared]
    told = [f"{verb} {room.name}" for verb, which in asked if not which for room in scene.rooms]
    for thing in scene.visible():
        told += [f"{verb} {thing.name}" for verb, which in asked if not which or which in thing.properties]
    return told


def which_of(skill: Declared) -> str:
    """Return the property that a thing has to have for a skill; empty if any thing will do."""
    (thing,) = skill.parameters.values()
    return thing.which if isinstance(thing, Named) else ""


def check(skill: Skill, scene: Scene) -> tuple[Outcome, str]:
    """Check a skill's needs in the recorded order; return the outcome and the observation's first sentence."""
    thing = skill.thing
    if refusal := next(filter(None, _refusals(skill, scene)), ""):
        return Outcome.PRECONDITION, refusal
    if skill.verb == "go to":
        return Outcome.DONE, arrival_text(thing)
    if skill.verb == "put down" and scene.here is not None:
        into = "CONTAINERS" in scene.here.properties
        return Outcome.DONE, f"You put down {thing.word} {'in' if into else 'on'} {scene.here.word}"
    return Outcome.DONE, f"You {skill.verb} {thing.word}."


#: What is said of a thing that is not as a skill asks.
_UNFIT = {"GRABBABLE": "cannot be grabbed.", "CAN_OPEN": "cannot be opened", "HAS_SWITCH": "does not have a switch"}


def _refusals(skill: Skill, scene: Scene) -> Iterator[str]:
    thing, kind = skill.thing, which_of(skill.declared)
    unfit = f"The {thing.word} {_UNFIT[kind]}" if kind and kind not in thing.properties else ""
    for need in skill.declared.requires:
        if need.fact in OPPOSITES and need.is_so:
            yield unfit
        if need.holds({"thing": thing.name}, scene) is False:
            yield _refusal(need, skill, scene)
    yield unfit


def _refusal(need: Need, skill: Skill, scene: Scene) -> str:
    thing, where = skill.thing, scene.here or skill.thing
    if need.fact == "near":
        return _out_of_reach(where if HERE in need.about else thing, skill, scene)
    if need.fact in OPPOSITES and need.is_so:
        turned = "turned " if need.fact in ("on", "off") else ""
        return f"The {thing.word} is already {turned}{OPPOSITES[need.fact]}."
    return {
        "free": FULL,
        "held": f"You do not grab the {thing.word}.",
        "at": f"The {thing.word} cannot be put down on {where.word}.",
        "closed": f"The {where.word} is closed.",
    }[need.fact]


def _out_of_reach(thing: Thing, skill: Skill, scene: Scene) -> str:
    if borne := borne_by(scene, thing):
        return borne
    if thing.id not in {*scene.close, *scene.held}:
        return f"The {thing.word} is not close to you."
    around = scene.closed_around(thing)  # as recorded, it hinders nothing but picking up
    return f"The {thing.word} is inside closed {around.word}." if around and skill.verb == "pick up" else ""


def unmet(skill: Skill, scene: Scene) -> str:
    """Return which effect of an executed skill is missing; empty if it had its effect."""
    thing, (effect,) = skill.thing, skill.declared.effect
    if effect == "released":
        there = scene.here is not None and scene.here in (scene.container_of(thing), scene.surface_of(thing))
        return "" if there else f"the {thing.word} is not there"
    if scene.holds(effect, thing.name) or (effect == "at" and not thing.is_room):
        return ""
    missing = {"at": "you are not there", "held": f"you do not hold the {thing.word}"}
    return missing.get(effect, f"the {thing.word} is not {effect}")


def can_take_things(thing: Thing) -> bool:
    return bool(thing.properties & {"CONTAINERS", "SURFACES"})


def arrival_text(thing: Thing) -> str:
    if thing.is_room:
        return f"You move to {thing.worded()}."
    text = f"You arrive at {thing.worded()}."
    if "CAN_OPEN" in thing.properties and thing.class_name not in _OPENNESS_UNSAID:
        for state in ("CLOSED", "OPEN"):
            if state in thing.states:
                return f"{text} {thing.worded('The')} is {state.lower()}."
    return text


def survey(scene: Scene) -> Observation:
    """Return the description of the whole house for planners without observations (paper, listing 3)."""
    listed = [f"You are in the house, and there are {len(scene.rooms)} rooms: {merged(scene.rooms)}."]
    seen: list[Seen] = []
    for room in scene.rooms:
        things = [thing for thing in _of_house(scene) if scene.room_of(thing) is room]
        seen += (seen_as(thing, room.name) for thing in things)
        if items := [thing for thing in things if thing.room_item]:
            listed.append(f"In the {room.name}, there are {merged(items)}.")
    carried = [thing for thing in _of_house(scene) if "GRABBABLE" in thing.properties]
    if carried:
        listed.append(f"The objects in the house are {merged(carried)}.")
    here = scene.agent_room
    listed.append(f"You are in the middle of {here.worded('a')}. {look_text(room_items(scene))}")
    return Observation(" ".join(listed), seen=tuple(seen), rooms=tuple(room.name for room in scene.rooms))


def _of_house(scene: Scene) -> Iterator[Thing]:
    return (thing for thing in scene.things.values() if thing.observed and not thing.is_room)


def after_skill(
    skill: Skill, outcome: Outcome, text: str, *, scene: Scene, next_to_agent: Sequence[Thing]
) -> Observation:
    """Return the observation after a skill; its text begins with the first sentence, from :func:`check`."""
    thing = skill.thing
    seen: Sequence[Thing] = ()
    place, looked_into = None if thing.is_room else thing, None
    if skill.verb == "go to" and thing.is_room:
        seen = room_items(scene)
        text = f"{text} {look_text(seen)}"
    elif skill.verb in ("go to", "open"):
        seen = next_to_agent
        text = " ".join(filter(None, (text, see_text([*seen, *held(scene)]))))
        if "OPEN" in thing.states and "CONTAINERS" in thing.properties:
            looked_into = thing.name
    elif skill.verb == "put down" and outcome is Outcome.DONE:
        seen, place = [thing], scene.here
    return Observation(text + holding_text(scene), outcome, tuple(sightings(scene, seen, place)), looked_into)


def score(goal: Sequence[GoalCondition], scene: Scene) -> Score:
    """Score a goal as the benchmark does.

    All conditions of one target class must hold at one instance; the instance that fulfils most counts.
    """
    by_target: dict[str, list[GoalCondition]] = defaultdict(list)
    for condition in goal:
        by_target[condition.target].append(condition)
    best = [pair for target, conditions in by_target.items() for pair in _best(target, conditions, scene)]
    holds, wanted = sum(count for _, count in best), sum(condition.count for condition in goal)
    unmet = [_unmet(condition, count, scene) for condition, count in best if count < condition.count]
    return Score(gsr=float(holds == wanted), ssr=holds / wanted, unmet=unmet)


def _best(target: str, conditions: Sequence[GoalCondition], scene: Scene) -> Sequence[tuple[GoalCondition, int]]:
    """Return how often each condition holds at the instance that fulfils most."""
    instances = [thing for thing in scene.things.values() if thing.class_name == target]
    counts = [[min(_fulfilled(one, thing, scene), one.count) for one in conditions] for thing in instances]
    return list(zip(conditions, max(counts, key=sum, default=[0] * len(conditions)), strict=True))


def _unmet(condition: GoalCondition, count: int, scene: Scene) -> str:
    named = {thing.class_name: thing.word for thing in scene.things.values()}
    item, target = (named.get(one) or (CLASSES[one].word if one else "") for one in (condition.item, condition.target))
    if condition.relation == "turnOn":
        return f"{target} turned on"
    said = f"{item} {'on' if condition.relation == 'on' else 'in'} {target}"
    return f"{said} ({count} of {condition.count})" if condition.count > 1 else said


def _fulfilled(condition: GoalCondition, target: Thing, scene: Scene) -> int:
    if condition.relation == "turnOn":
        return int("ON" in target.states)
    return scene.related(condition.relation, condition.item, target)


#: Who has what the speaker has: the map does not know who that is.
SPEAKER = "the person"
#: The states that can be stated, each with the property of the things that can be in it.
_STATES = {state: which_of(skill) for skill in SKILLS for state in skill.effect if state in OPPOSITES}


def _statement(name: str, wording: str, **effect: str) -> Declared:
    kinds = {"thing": AnyThing(), "place": Place(), "person": Person()}
    parameters = {name: kind for name, kind in kinds.items() if f"{{{name}}}" in wording}
    return Declared(name=name, wording=wording, parameters=parameters, effect=effect)


#: Where a thing is said to be.
_WHERE = (
    _statement("at", "the {thing} is at {place}", released="thing", place="place"),
    _statement("with", "the {thing} is with {person}", released="thing", place="person"),
    _statement("held", "the {thing} is held by the robot", held="thing"),
    _statement("gone", "the {thing} is gone", gone="thing"),
)
#: In what state it is said to be.
_HOW = {state: _statement(state, f"the {{thing}} is {state}", **{state: "thing"}) for state in _STATES}


def statements(
    scene: Scene, things: Iterable[Thing], places: Iterable[Thing], persons: Iterable[str] = ()
) -> Sequence[Offer]:
    """Return what may be stated of a house now: which things are at which places, or with whom."""
    now = {
        "thing": tuple(thing.name for thing in things),
        "place": tuple(place.name for place in places),
        "person": (*persons, SPEAKER),
    }
    stated = [Offer(skill, {name: now[name] for name in skill.parameters}) for skill in _WHERE]
    for state, skill in _HOW.items():
        able = tuple(thing.name for thing in scene.things.values() if _STATES[state] in thing.properties)
        stated.append(Offer(skill, {"thing": able}))
    return [offer for offer in stated if offer.skill.words.possible(offer.now)]


def named_in(correction: SkillCall) -> Iterator[str]:
    for name, one in correction.skill.parameters.items():
        if isinstance(one, Named) and not isinstance(one, Person):
            yield str(correction.values[name])


def hands_full(scene: Scene, correction: SkillCall) -> str:
    """Say that the robot cannot hold what it is said to hold; empty if it can."""
    thing = scene.by_name.get(correction.value("held"))
    if thing is None or thing.id in scene.held or scene.holds("free", "hand"):
        return ""
    return f"the robot holds {' and '.join(scene.things[id].name for id in scene.held)}"


def not_taken_in(why: str) -> Observation:
    return Observation(f"It was not taken in: {why}.", Outcome.PRECONDITION)


def around_after(scene: Scene, correction: SkillCall, around: Observation) -> Observation:
    """Return a look around after a correction with where the thing is now, for whoever remembers."""
    thing = scene.by_name[next(named_in(correction))]
    if thing.id in {*scene.held, *scene.borne}:  # which each observation has
        return around
    place, room = scene.by_name.get(correction.value("place")), scene.room_of(thing)
    at = None if place is None or place.is_room else place.name
    states = (GONE,) if "gone" in correction.skill.effect else tuple(sorted(thing.states))
    seen = Seen(thing.word, thing.number, None if room is None else room.name, at, states=states)
    return replace(around, seen=(*around.seen, seen))
