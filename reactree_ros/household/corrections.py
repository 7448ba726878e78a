"""What a person may say of a house that its map does not know, as declared statements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from reactree_ros.agent.parameters import Named, Person, Place, Thing
from reactree_ros.agent.skill import Offer, Skill, SkillCall
from reactree_ros.household.scene import Scene
from reactree_ros.household.scene import Thing as OfScene
from reactree_ros.world.port import GONE, Observation, Outcome, Seen

#: Who has what the speaker has: the map does not know who that is.
SPEAKER = "the person"
#: The states that can be stated, each with the property of the things that can be in it.
_STATES = {"open": "CAN_OPEN", "closed": "CAN_OPEN", "on": "HAS_SWITCH", "off": "HAS_SWITCH"}


def _statement(name: str, wording: str, **effect: str) -> Skill:
    kinds = {"thing": Thing(), "place": Place(), "person": Person()}
    parameters = {name: kind for name, kind in kinds.items() if f"{{{name}}}" in wording}
    return Skill(name=name, wording=wording, parameters=parameters, effect=effect)


#: Where a thing is said to be.
_WHERE = (
    _statement("at", "the {thing} is at {place}", released="thing", place="place"),
    _statement("with", "the {thing} is with {person}", released="thing", place="person"),
    _statement("held", "the {thing} is held by the robot", held="thing"),
    _statement("gone", "the {thing} is gone", gone="thing"),
)
#: In what state it is said to be.
_HOW = {state: _statement(state, f"the {{thing}} is {state}", **{state: "thing"}) for state in _STATES}


def of_house(
    scene: Scene, things: Iterable[OfScene], places: Iterable[OfScene], persons: Iterable[str] = ()
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


def hands_full(scene: Scene, correction: SkillCall, hands: int) -> str:
    """Say that the robot cannot hold what it is said to hold; empty if it can."""
    thing = scene.by_name.get(correction.value("held"))
    if thing is None or thing.id in scene.held or len(scene.held) < hands:
        return ""
    return f"the robot holds {' and '.join(scene.things[id].name for id in scene.held)}"


def refused(why: str) -> Observation:
    return Observation(f"It was not taken in: {why}.", Outcome.PRECONDITION)


def told(scene: Scene, correction: SkillCall, around: Observation) -> Observation:
    """Return a look around after a correction with where the thing is now, for whoever remembers."""
    thing = scene.by_name[next(named_in(correction))]
    if thing.id in {*scene.held, *scene.borne}:  # which each observation has
        return around
    place, room = scene.by_name.get(correction.value("place")), scene.room_of(thing)
    at = None if place is None or place.is_room else place.name
    states = (GONE,) if "gone" in correction.skill.effect else tuple(sorted(thing.states))
    seen = Seen(thing.word, thing.number, None if room is None else room.name, at, states=states)
    return replace(around, seen=(*around.seen, seen))
