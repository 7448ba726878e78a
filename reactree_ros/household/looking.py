"""What a scene looks like, in words: where somebody is, what is seen there and what is held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from reactree_ros.household.scene import Scene, Thing
from reactree_ros.world.port import Observation, Seen


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
        yield Seen(thing.word, thing.number, room, where, states=tuple(sorted(thing.states)))
    for thing in held(scene):
        yield Seen(thing.word, thing.number, room, held=True, states=tuple(sorted(thing.states)))
    for id, person in scene.borne.items():
        yield Seen(scene.things[id].word, scene.things[id].number, None, person)


def starting_text(scene: Scene, room_items: Iterable[Thing]) -> str:
    room = scene.agent_room
    return (
        f"You are in the house, and there are {len(scene.rooms)} rooms: {merged(scene.rooms)}. "
        f"You are in the middle of {room.told('a')}. {look_text(room_items)}{holding_text(scene)}{bearing_text(scene)}"
    )


def look_text(room_items: Iterable[Thing]) -> str:
    return f"Looking quickly around the room, you see {merged(room_items) or 'nothing'}."


def see_text(things: Iterable[Thing]) -> str:
    """Word the things next to the agent, without a period, as recorded; empty if there are none."""
    return f"You see {listed}" if (listed := merged(things)) else ""


def holding_text(scene: Scene) -> str:
    """Word the held things, with a space before; empty if there are none."""
    return f" You hold {merged(held(scene))}." if scene.held else ""


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
    """List things by word with their numbers: ``bowl (1, 2), fridge (1), office 2B``."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for thing in things:
        numbers[thing.word].append(thing.number)
    return ", ".join(_numbered(word, sorted(set(numbers[word]))) for word in sorted(numbers))


def _numbered(word: str, numbers: list[int]) -> str:
    return f"{word} ({', '.join(map(str, numbers))})" if any(numbers) else word
