"""The semantic map: what a robot knows of a house, as a scene that can be put into words."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import replace

from reactree_ros.agent.household import named
from reactree_ros.agent.needs import HERE, OPPOSITES
from reactree_ros.agent.parameters import Named, Person
from reactree_ros.agent.skill import Offer, Skill, SkillCall
from reactree_ros.household import rules
from reactree_ros.household.scene import STATES, Thing
from reactree_ros.household.tasks import parts_of
from reactree_ros.robot.detections import Detection, lies, matched
from reactree_ros.robot.house import House, Item, MapPerson, MapThing, Receptacle, Room
from reactree_ros.robot.map_file import MapDocument, Passage, Ways
from reactree_ros.robot.poses import Pose
from reactree_ros.world.port import Observation

#: Of words, and of places of one word, at which something was seen that is not a thing yet, the most.
_MOST_CANDIDATES = 100
#: Of what is not on the map, the most of which it is known what skills have said of it.
_MOST_SAID = 1000


class SemanticMap(House):
    """Rooms and receptacles of a map, and the objects that were detected; times are in seconds.

    The place that the robot went to is next to it, with the things in or on that place. The map knows what is held by
    the robot's grasps and releases, and by what a person says. A detection speaks against a grasp only until the grasp
    is settled. Of the map ``before`` it keeps what was known of objects, doors and switches. What nobody has described
    may be done with as the robot's skills ask for (``unknown``).

    Args:
        at_first: States of what no skill has changed and the map does not tell; nobody knows the others.
        condition: Says whether a condition holds, by its wording; None: nobody knows.
        within: How far from a place the robot is not at it any more, in metres, as after a push; 0: never.
    """

    def __init__(
        self,
        document: MapDocument,
        *,
        now: float = 0.0,
        hands: int = 1,
        in_map: Callable[[Pose], Pose | None] | None = None,
        before: SemanticMap | None = None,
        unknown: frozenset[str] = frozenset(),
        at_first: Collection[str] = (),
        condition: Callable[[str], bool | None] = lambda _: None,
        within: float = 0.0,
    ) -> None:
        super().__init__(document, in_map)
        self._unknown, self._at_first, self._condition, self._within = unknown, at_first, condition, within
        # of words that nobody has described, the latest last: where something was seen, and how often about there
        self._candidates: dict[str, list[tuple[Pose, int]]] = {}
        self.hands = hands
        self.ways = Ways(document)
        self._numbers: dict[str, int] = defaultdict(int)
        self._passed = float("-inf")  # when the robot passed a connection: its pose from before is out of date
        self.anchor: MapThing | None = None  # what the robot stands at; None: at nothing that is known
        # what skills have said of what is not on the map, such as a drawer of the robot's own; the latest last
        self._said: dict[str, set[str]] = {}
        self._changed = float("-inf")  # when the robot changed something: what was detected before is out of date
        self._grasped: Item | None = None  # what was picked up last, until it is settled whether it was
        self._doubt: tuple[Detection, float] | None = None  # what speaks against that, and when it was detected
        if before is not None:
            self._take_over(before)
        else:
            for expected in document.expected:
                word, number = parts_of(expected.name)
                item = Item(next(self._ids), word, number, document.properties_of(expected.name), None, now)
                self._numbers[word] = max(self._numbers[word], item.number)
                self._add(item)
                self._put(item, self.by_name[expected.at])

    def _take_over(self, before: SemanticMap) -> None:
        self._numbers, self.robot, self._changed = before._numbers, before.robot, before._changed
        self._said = before._said
        self._passed = before._passed
        for name in (thing.name for thing in before.receptacles()):
            if name in self.by_name:
                self.by_name[name].states = before.by_name[name].states
        if before.agent_room.name in self.by_name:
            self.agent_room = self.by_name[before.agent_room.name]
        for person in before.persons:
            now = self.by_name.get(person.name)
            if isinstance(now, MapPerson) and person.pose is not None and person.seen is not None:
                self.meet(now, person.pose, person.seen)
        for old in before.items():
            if old.name in self.by_name:
                continue
            item, at = copy.copy(old), before.place_of(old)
            item.id = next(self._ids)
            self._add(item)
            if old is before._grasped:
                self._grasped, self._doubt = item, before._doubt
            if old.id in before.held:
                self.held.append(item.id)
            elif old.id in before.borne:
                self.borne[item.id] = before.borne[old.id]
            elif at is not None and at.name in self.by_name:
                self._put(item, self.by_name[at.name], inside=before.container_of(old) is at)
            else:
                self._locate(item)

    # ------------------------------------------------------------------ what is where

    def things_of(self, call: SkillCall) -> dict[str, MapThing]:
        named = [name for name, one in call.skill.parameters.items() if isinstance(one, Named)]
        found = {name: self.by_name.get(str(call.values[name])) for name in named}
        return {name: thing for name, thing in found.items() if isinstance(thing, MapThing)}

    @property
    def here(self) -> Receptacle | None:
        return None if self.anchor is None else self.place_of(self.anchor)

    def thing_of(self, call: SkillCall) -> MapThing | None:
        return next(iter(self.things_of(call).values()), None)

    def target(self, call: SkillCall) -> Receptacle | None:
        """Return the receptacle that a skill is about: of what is released, where it goes."""
        thing = self.thing_of(call)
        if "place" in call.skill.effect:
            place = self.by_name.get(call.value("place"))
            return place if isinstance(place, Receptacle) else None
        if "released" in call.skill.effect:
            return self.here
        return None if thing is None else self.place_of(thing)

    def not_as_reported(self, call: SkillCall) -> str:
        """Say what is seen that speaks against a skill which was reported to be done; empty if nothing does."""
        held, released = (self.by_name.get(call.value(effect)) for effect in ("held", "released"))
        if isinstance(held, Item) and held is self._grasped and self._doubt is not None:
            return f"the {held.word} is still detected {_where(self.receptacle_at(self._doubt[0].pose))}"
        if isinstance(released, Item) and released.seen is not None:  # a release leaves it unseen
            target = self.target(call)
            if target is not None and not self.may_carry(target, released):
                return f"the {released.word} is detected {_where(self.place_of(released))}"
        return ""

    def unlike(self, name: str, place: str, *, gone: bool, since: float) -> str:
        """Say what is wrong with what was detected ``since`` a time: a thing is not there, or it is not ``gone``."""
        item, target = self.by_name.get(name), self.by_name.get(place)
        seen = isinstance(item, Item) and item.seen is not None and item.seen > since
        if not seen:
            return "" if gone else f"the {_the(name)} is not detected{f' at the {_the(place)}' if place else ''}"
        assert isinstance(item, Item)  # it was detected
        if not gone and (not isinstance(target, Receptacle) or self.may_carry(target, item)):
            return ""
        return f"the {item.word} is {'still ' if gone else ''}detected {_where(self.place_of(item))}"

    def settle(self, call: SkillCall) -> str:
        """Settle whether a skill was done that was reported to be; returns what speaks against it.

        From now on no detection takes out of the hand what is in it.
        """
        told, item, doubt = self.not_as_reported(call), self._grasped, self._doubt
        self._grasped = self._doubt = None
        if told and item is not None and doubt is not None:
            self.held.remove(item.id)
            item.taken_from = None
            self._seen(item, *doubt)
            self.look()
        return told

    # ------------------------------------------------------------------ facts, see agent/needs.py

    def holds(self, fact: str, about: str) -> bool | None:
        """See :class:`Facts`."""
        if fact == "condition":
            return self._condition(about)
        if fact == "free":
            return super().holds(fact, about)
        if self.those(fact, about) or fact in ("at", "held"):
            return bool(self.those(fact, about))
        meant = {thing.name for thing in self._meant(about)}
        if fact == "near":
            return False if meant else None
        if (meant or {about}) <= {*self.those(OPPOSITES[fact], about)}:
            return False
        return about != HERE and fact in self._at_first if self._at_first else None  # of a place, its state says it

    def those(self, fact: str, about: str) -> list[str]:
        said = (name for name, facts in self._said.items() if fact in facts)
        return [*super().those(fact, about), *(name for name in said if about in (name, parts_of(name)[0]))]

    def _is(self, thing: Thing, fact: str, about: str) -> bool:
        is_so = (fact == "at" and thing is self.anchor) or super()._is(thing, fact, about)
        return is_so and not (fact == "at" and self.strayed_from(thing))

    def strayed_from(self, thing: Thing) -> float:
        """Return how far the robot is from where it stood for a thing, in metres; 0: it is there, or nobody knows."""
        away = self.away_from(thing) if self._within else None
        return away if away is not None and away > self._within else 0.0

    @property
    def held_besides(self) -> Sequence[str]:  # type: ignore[override]
        return [name for name, facts in self._said.items() if "held" in facts]

    def _note(self, call: SkillCall) -> None:
        if call.skill.moves:
            for facts in self._said.values():
                facts.discard("at")
        for effect in call.skill.effect:
            if effect in ("away", "place") or (name := call.value(effect)) in self.by_name:
                continue
            ended = OPPOSITES.get(effect, "held" if effect == "released" else "")
            facts = self._said.pop(name, set()) - {ended} | ({effect} - {"released"})
            if facts and effect != "gone":
                self._said[name] = facts
        while len(self._said) > _MOST_SAID:
            del self._said[next(iter(self._said))]

    # ------------------------------------------------------------------ ways

    def in_the_way(self, call: SkillCall) -> str:
        """Say by which skills the robot gets to where a skill leads, if that is behind a door or an elevator.

        A skill that passes one is not in its own way.
        """
        target = self.by_name.get(call.value("at"))
        room = None if target is None else self.room_of(target)
        here = self.agent_room.name
        if room is None or any(str(call) in one.skills for one in self.ways.leaving(here)):
            return ""
        way = self.ways.shortest(here, room.name)
        if way is None:
            return f"no way is known from {here} to {room.name}"
        closed = next((one for one in way if one.skills and not self._is_open(one)), None)
        if closed is None:
            return ""
        by = f" by {closed.by}" if closed.by else ""
        goes_on = "" if closed is way[-1] else ", then go on"
        return f"the way to {room.name} leads to {closed.to}{by}; first {', then '.join(closed.skills)}{goes_on}"

    def _is_open(self, passage: Passage) -> bool:
        door = self.by_name.get(passage.by)
        return door is not None and "OPEN" in door.states

    def _pass(self, call: SkillCall, now: float) -> None:
        # A door that was opened is not a move yet.
        for one in self.ways.leaving(self.agent_room.name):
            if one.skills and one.skills[-1] == str(call) and not self._is_open(one):
                self.agent_room, self._passed = self.by_name[one.to], now
                self.leave()
                return

    def robot_is_at(self, pose: Pose, heard: float = float("inf")) -> None:
        """Note where the robot was ``heard`` to be; a pose from before it passed a connection is out of date."""
        if heard > self._passed:
            super().robot_is_at(pose)

    def leave(self) -> None:
        """Note that the robot is on its way: it stands at nothing that is known."""
        self.anchor, self.close = None, []

    # ------------------------------------------------------------------ objects

    def take_in(self, detections: Iterable[Detection], stamp: float) -> None:
        """Update the map with what was detected at one time; objects keep their numbers by where they are."""
        if stamp <= self._changed:
            return
        if self._doubt is not None and stamp >= self._doubt[1]:
            self._doubt = None  # unless it is seen once more
        by_word = defaultdict[str, list[Detection]](list)
        for detection in detections:
            by_word[detection.word].append(detection)
        for word, found in by_word.items():
            if isinstance(person := self.by_name.get(word), MapPerson):
                self.meet(person, found[-1].pose, stamp)
                continue
            for detection, item in matched(self, word, found):
                if item is None and not self._is_thing(detection):
                    continue
                if item is None or item.id not in self.held:
                    self._seen(item or self._new(detection), detection, stamp)
                elif item is self._grasped and lies(self, item, detection):
                    self._doubt = detection, stamp

    def properties(self, word: str) -> frozenset[str]:
        """Say what can be done with things of a word; of one that nobody has described, what the skills ask for."""
        try:
            return self.document.properties(word)
        except ValueError:
            return self._unknown

    def _is_thing(self, detection: Detection) -> bool:
        others, word = self.document.objects.others, detection.word
        if others is None or word in self.document.objects.classes.values():
            return True
        before = self._candidates.pop(word, [])
        near = [one for one in before if one[0].distance(detection.pose) <= self.document.objects.same_within]
        times = 1 + max((times for _, times in near), default=0)
        left = [one for one in before if one not in near]
        if times < others.times:
            left.append((detection.pose, times))
        self._candidates[word] = left[-_MOST_CANDIDATES:]
        while len(self._candidates) > _MOST_CANDIDATES:
            del self._candidates[next(iter(self._candidates))]
        if times >= others.times:
            self._make_room(others.most)
        return times >= others.times

    def _make_room(self, most: int) -> None:
        described = {
            *self.document.objects.classes.values(),
            *(parts_of(one.name)[0] for one in self.document.expected),
        }
        others = [one for one in self.items() if one.word not in described and one.id not in {*self.held, *self.borne}]
        for item in sorted(others, key=lambda one: one.since)[: max(0, len(others) - most + 1)]:
            self._drop(item)

    def recollect(
        self, name: str, word: str, number: int, *, place: str, pose: Pose | None, own: str, now: float
    ) -> None:
        """Put on the map what a kept one knows from before this start; nothing is picked up because of it."""
        known, at = self.by_name.get(name), self.by_name.get(place)
        if isinstance(known, MapPerson):
            if pose is not None:
                self.meet(known, pose, now)
        elif (
            known is None
            and word not in self.document.objects.classes.values()
            and self.document.objects.others is None
        ):
            return  # the map has no word for it any more
        elif number and (known is None or isinstance(known, Item)) and (isinstance(at, Receptacle) or pose is not None):
            item = known or Item(next(self._ids), word, number, self.properties(word), None, now, own)
            self._numbers[word] = max(self._numbers[word], number)
            self._add(item)
            assert isinstance(item, Item)
            item.pose = pose
            if isinstance(at, Receptacle):
                self._put(item, at)
            else:
                self._locate(item)

    def _new(self, detection: Detection) -> Item:
        word = detection.word
        self._numbers[word] += 1
        properties = self.properties(word)
        item = Item(next(self._ids), word, self._numbers[word], properties, detection.pose, 0.0, detection.own)
        self._add(item)
        return item

    def _seen(self, item: Item, detection: Detection, stamp: float) -> None:
        item.pose, item.seen, item.since, item.score = detection.pose, stamp, stamp, detection.score
        if detection.own:
            item.own, item.tracked = detection.own, True
        self._locate(item)

    def forget(self, now: float, believed: Container[str] = ()) -> None:
        """Forget what has not been detected for too long, unless a kept map still believes that it is there."""
        for item in list(self.items()):
            carried, late = item.id in {*self.held, *self.borne}, now - item.since > self.document.objects.forget_after
            if late and not carried and item.name not in believed:
                self._drop(item)

    def _drop(self, item: Item) -> None:
        self.lose(item)
        del self.things[item.id], self.by_name[item.name]
        if self.anchor is item:
            self.leave()

    def clock_was_set_back(self, now: float) -> None:
        """Date what was known to now: the time begins anew, as where a simulation is started again."""
        self._changed, self._passed = min(self._changed, now), min(self._passed, now)
        for item in self.items():
            item.since, item.seen = min(item.since, now), None

    # ------------------------------------------------------------------ skills

    def apply(self, call: SkillCall, now: float) -> None:
        self._note(call)
        of = {effect: self.by_name.get(call.value(effect)) for effect in call.skill.effect}
        target = self.target(call)
        if "away" in of:
            self.leave()
        if (place := of.get("at")) is not None:
            self.arrive(place)
        if set(of) <= {"at", "away"}:
            self._pass(call, now)
            return
        self._grasped = self._doubt = None
        self._changed = now
        if isinstance(held := of.get("held"), Item):
            self.take(held)
            self._grasped = held
            held.taken_from = held.pose
            held.pose = held.seen = None
        if isinstance(released := of.get("released"), Item):
            self._release(call, released, target)
            released.since, released.taken_from = now, None
            released.pose = released.seen = None
        if isinstance(gone := of.get("gone"), Item):
            self.lose(gone)
            gone.since, gone.pose, gone.seen = now, None, None
        for effect, (state, other) in STATES.items():
            if (thing := of.get(effect)) is not None:
                thing.states = thing.states - {state, other} | {state}
        self.look()

    def _release(self, call: SkillCall, item: Item, target: Receptacle | None) -> None:
        room = self.by_name.get(call.value("place"))
        if call.bearer:
            self.hand(item, call.bearer)
        elif target is not None:
            self._put(item, target)
        else:
            self.lose(item)
            if isinstance(room, Room):
                self.stand(item, room)

    def corrections(self, skills: Iterable[Skill] = ()) -> Sequence[Offer]:
        """Return what a person may say of the house; skills may name persons who are not on the map."""
        kinds = [one.named for skill in skills for one in skill.parameters.values()]
        named = (name for one in kinds if isinstance(one, Person) for name in one.names)
        persons = [*(person.name for person in self.persons), *named]
        places = [*self.receptacles(), *self.rooms]
        return rules.statements(self, self.items(), places, dict.fromkeys(persons))

    def corrected(self, correction: SkillCall, now: float) -> Observation:
        if why := self.correct(correction, now):
            return rules.not_taken_in(why)
        return rules.around_after(self, correction, self.around())

    def correct(self, correction: SkillCall, now: float) -> str:
        """Apply what a person says of the house; returns why it cannot be, or nothing."""
        missing = [name for name in rules.named_in(correction) if name not in self.by_name]
        if missing:
            return f"{missing[0]} is not on the map any more"
        if full := rules.hands_full(self, correction):
            return full
        self.apply(correction, now)
        self._grasped = None  # the person's word settles it
        return ""

    def arrive(self, thing: Thing) -> None:
        """Note that the robot is at a place or in a room."""
        room = self.room_of(thing)
        if room is not None:
            self.agent_room = room
        self.anchor = thing if isinstance(thing, MapThing) and not thing.is_room else None
        for item in self.items():
            item.taken_from = None
        self.look()

    def overlooked(self, call: SkillCall, since: float) -> list[Item]:
        """Return what was not detected since then of what is taken to be before the robot after a skill."""
        if "at" not in call.skill.effect or not isinstance(self.anchor, Receptacle):
            return []
        here = [item for item in self.items() if self.place_of(item) is self.anchor and not self.hidden(item)]
        return [item for item in here if item.seen is None or item.seen < since]

    def look(self) -> list[Thing]:
        anchor = self.anchor
        place = None if anchor is None else self.place_of(anchor)
        if anchor is None:
            near: list[Thing] = []
        elif place is None:
            near = [anchor]
        else:
            near = [place, *(item for item in self.items() if self.place_of(item) is place and not self.hidden(item))]
        self.close = [thing.id for thing in near if thing.id not in self.held]
        return [self.things[id] for id in self.close]

    def before(self) -> list[Thing]:
        """Return what the robot sees: the things at its place, or those of the room if it stands at no place."""
        return self.look() or [thing for thing in self.visible() if thing.id not in self.held]

    # ------------------------------------------------------------------ words

    def around(self) -> Observation:
        """Look around: the text tells of the room, the data also of what is at the place where the robot stands."""
        observation, place, room = rules.look_around(self), self.anchor, self.agent_room.name
        if place is not None:
            near = (rules.seen_as(one, room, place.name) for one in self.look())
            observation = replace(observation, seen=(*observation.seen, *near))
        return self.located(observation, (*self.rooms, *self.receptacles(), *self.lying))

    @property
    def lying(self) -> Sequence[MapThing]:
        """What a person who watches wants to see, too: people, new things, and what is remembered."""
        described, carried = {*self.document.objects.classes.values(), *self.document.words}, {*self.held, *self.borne}
        new = [one for one in self.items() if one.word not in described or (one.seen is None and one.pose is not None)]
        items = [one for one in new if one.id not in carried]
        return [*items, *(person for person in self.persons if person.seen is not None)]

    def located(self, observation: Observation, things: Iterable[Thing] = ()) -> Observation:
        """Say of an observation where the robot is, and what is seen, and further things."""
        seen = (self.by_name.get(named(one.word, one.instance)) for one in observation.seen if not one.held)
        return replace(observation, spots=self.spots((*things, *filter(None, seen))))


def _the(name: str) -> str:
    word, _, number = name.rpartition(" ")
    return f"{word} ({number})"


def _where(place: Receptacle | None) -> str:
    return "on the floor" if place is None else f"at {place.worded()}"
