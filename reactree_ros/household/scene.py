"""The scene: things in a house and their places, for the household rules."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from reactree_ros.agent.household import named
from reactree_ros.agent.needs import HERE, OPPOSITES
from reactree_ros.household.tasks import AGENT_CLASS, ROOMS, Graph, Node

HANDS = 2
#: The states that something can be brought to, by their words, each with the one that it ends.
STATES = {one: (one.upper(), other.upper()) for one, other in OPPOSITES.items()}
AnyScene = TypeVar("AnyScene", bound="Scene")


class Thing:
    """A room, a piece of furniture, or an object."""

    def __init__(self, node: Node, number: int, word: str = "") -> None:
        known = node.known
        self.id = node.id
        self.class_name = node.class_name  # e.g. ``kitchencabinet``
        self.word = word or known.word  # e.g. ``kitchen cabinet``
        self.number = number  # rank of the id within its class, from 1; 0: its word is its own name
        self.name = named(self.word, number)  # e.g. ``kitchen cabinet 1`` or ``office 2B``
        self.properties = frozenset(node.properties)  # actions that it allows
        self.states = set(node.states)
        self.is_room = node.category == ROOMS
        self.contains = node.contains
        self.observed = known.observed  # whether observations may list it
        self.room_item = known.room_item and known.observed  # whether the quick look around a room lists it

    def worded(self, article: str = "the") -> str:
        """Return how an observation tells of it alone, e.g. ``the fridge (1)``, or ``office 2B``."""
        return f"{article} {self.word} ({self.number})" if self.number else self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"


class Scene:
    """The places of all things in a house, and the things that the agent holds, at most :data:`HANDS`.

    Original files may lack the agent's node; it is then in the first room of the class ``init_room``. ``names`` are
    those of classes that the house calls by another name than the vocabulary's word.
    """

    def __init__(self, graph: Graph, *, init_room: str, names: Mapping[str, str] = MappingProxyType({})) -> None:
        self.things: dict[int, Thing] = {}
        called = graph.called(names)
        agent = None
        for node in sorted(graph.nodes, key=lambda node: node.id):
            if node.class_name == AGENT_CLASS:
                agent = node.id if agent is None else agent
                continue
            word, number = called[node.id]
            self.things[node.id] = Thing(node, number, word)
        self.by_name = {thing.name: thing for thing in self.things.values()}
        self.rooms = [thing for thing in self.things.values() if thing.is_room]
        self.agent_room = next(room for room in self.rooms if room.class_name == init_room)
        self._know_no_place()
        self._read_places(graph, agent)

    def _know_no_place(self) -> None:
        self.held: list[int] = []
        self.close: list[int] = []  # what is next to the agent, in the order in which it was seen
        self.borne: dict[int, str] = {}  # the person who has a thing
        self._here: Thing | None = None
        self._room: dict[int, int] = {}
        self._container: dict[int, int] = {}
        self._surface: dict[int, int] = {}
        self._near: dict[tuple[int, ...], list[Thing]] = {}  # what is in a room, until something is moved

    def _read_places(self, graph: Graph, agent: int | None) -> None:
        for edge in graph.edges:
            if edge.to_id not in self.things:
                continue
            target = self.things[edge.to_id]
            if edge.from_id == agent:
                if edge.relation_type == "INSIDE" and target.is_room:
                    self.agent_room = target
                elif edge.relation_type in ("HOLDS_RH", "HOLDS_LH"):
                    self.held.append(edge.to_id)
                elif edge.relation_type == "CLOSE" and not target.is_room:
                    self.close.append(edge.to_id)
            elif edge.from_id not in self.things:
                continue
            elif edge.relation_type == "INSIDE" and target.is_room:
                self._room[edge.from_id] = edge.to_id
            elif edge.relation_type == "INSIDE" and target.contains:
                self._container[edge.from_id] = edge.to_id
            elif edge.relation_type == "ON":
                self._surface[edge.from_id] = edge.to_id

    # ------------------------------------------------------------------ facts, see agent/needs.py

    hands = HANDS
    held_besides: Sequence[str] = ()  # names of what is held, and is not a thing of the scene

    @property
    def here(self) -> Thing | None:
        """Where the agent puts down what it holds: what it went to last that takes things."""
        return self._here

    def stand_at(self, place: Thing | None) -> None:
        self._here = place

    def holds(self, fact: str, about: str) -> bool | None:
        if fact == "free":
            return len(self.held) < self.hands
        return None if fact == "condition" else bool(self.those(fact, about))

    def those(self, fact: str, about: str) -> list[str]:
        return [thing.name for thing in self._meant(about) if self._is(thing, fact, about)]

    def _meant(self, about: str) -> list[Thing]:
        if about == HERE:
            return [] if self.here is None else [self.here]
        if (one := self.by_name.get(about)) is not None:
            return [one]
        return [thing for thing in self.things.values() if about == thing.word or about in thing.properties]

    def _is(self, thing: Thing, fact: str, about: str) -> bool:
        if fact == "at":
            return thing in (self.here, self.agent_room)
        if fact == "near":
            return thing.id in {*self.close, *self.held} and not (thing.id in self.borne or self.hidden(thing))
        if fact == "held":
            return thing.id in self.held
        on_top = about == HERE and "CONTAINERS" not in thing.properties  # a closed desk takes things all the same
        return fact.upper() in thing.states and not (fact == "closed" and on_top)

    def for_another(self: AnyScene) -> AnyScene:
        """Return the same house for another agent in the same room with empty hands."""
        other = copy.copy(self)
        other.held, other.close, other._here = [], [], None
        return other

    def container_of(self, thing: Thing) -> Thing | None:
        inside = self._container.get(thing.id)
        return None if inside is None else self.things[inside]

    def surface_of(self, thing: Thing) -> Thing | None:
        under = self._surface.get(thing.id)
        return None if under is None else self.things[under]

    def on(self, surface: Thing) -> Iterator[Thing]:
        return (self.things[id] for id, under in self._surface.items() if under == surface.id)

    def room_of(self, thing: Thing) -> Thing | None:
        while (container := self.container_of(thing)) is not None:
            thing = container
        if thing.is_room:
            return thing
        if thing.id in self.held:
            return self.agent_room
        room = self._room.get(thing.id)
        return None if room is None else self.things[room]

    def hidden(self, thing: Thing) -> bool:
        return self.closed_around(thing) is not None

    def closed_around(self, thing: Thing) -> Thing | None:
        while (container := self.container_of(thing)) is not None and "CLOSED" not in container.states:
            thing = container
        return container

    def visible(self) -> Iterator[Thing]:
        """Yield visible things in the agent's room, in order of id: not hidden, and part of observations."""
        room, here = self.agent_room, (self.agent_room.id, *self.held)
        if here not in self._near:
            things = (thing for thing in self.things.values() if thing.observed and not thing.is_room)
            self._near[here] = [thing for thing in things if self.room_of(thing) is room]
        return (thing for thing in self._near[here] if not self.hidden(thing))

    def take(self, thing: Thing) -> None:
        self.lose(thing)
        self.held.append(thing.id)

    def place(self, thing: Thing, receptacle: Thing, *, inside: bool) -> None:
        self.lose(thing)
        (self._container if inside else self._surface)[thing.id] = receptacle.id
        room = self.room_of(receptacle)
        if not inside and room is not None:
            self._room[thing.id] = room.id

    def lose(self, thing: Thing) -> None:
        self._near.clear()
        for where in (self._room, self._container, self._surface):
            where.pop(thing.id, None)
        self.borne.pop(thing.id, None)
        if thing.id in self.held:
            self.held.remove(thing.id)

    def hand(self, thing: Thing, person: str) -> None:
        self.lose(thing)
        self.borne[thing.id] = person

    def related(self, relation: str, item: str, target: Thing) -> int:
        where = self._surface if relation == "on" else self._container
        return sum(at == target.id and self.things[id].class_name == item for id, at in where.items())
