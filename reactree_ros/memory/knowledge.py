"""What the robots of one run know: from what they saw, did and were told; data, never read from text.

Where things were seen last is the paper's working memory (section 4.2).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reactree_ros.agent.household import Household
from reactree_ros.agent.needs import HERE, NUMBER, OPPOSITES
from reactree_ros.agent.observation import GONE, PERHAPS, Observation, Outcome, Seen
from reactree_ros.agent.parameters import Named, ParameterError, Thing, Value
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.agent.turns import Place, Searched, ToldSearched, told_searched

#: The verbs of skills by which a place is searched.
GO_TO, OPEN = "go to", "open"
#: Facts that are not asked of many names.
UNTOLD = frozenset({"condition", "free", NUMBER})
#: States of what has an inside.
_DOOR = {"OPEN", "CLOSED"}
#: The names that may stand in the places of skills, each with the kind of name.
Standing = Iterable[tuple[Named, tuple[str, ...]]]
_INSTANCE = re.compile(r" (?:\d+|\(\d+\))$")


@dataclass(frozen=True)
class Sighting:
    word: str  # the object's class in words, e.g. ``juice``
    instance: int
    name: str  # what it is called, e.g. ``juice 1``
    room: str | None  # the room it was in, e.g. ``kitchen 1``; None if the world has no rooms
    place: str | None  # the receptacle it was at, e.g. ``fridge 2``; None if it was seen from the middle of a room
    held: bool = False
    robot: str = ""  # which robot saw it; empty if there is only one
    ago: str = ""  # how long before this run, in words, by a map that is kept; empty: it was seen in this run

    def sentence(self, robot: str = "") -> str:
        """Return the recorded wording: ``You saw juice 1 near fridge 2 in kitchen 1.``, for example."""
        if self.held:
            holder = "You are" if self.robot == robot else f"{self.robot} is"
            return f"{holder} holding {self.name}."
        near = f" near {self.place}" if self.place is not None else ""
        inside = f" in {self.room}" if self.room is not None else ""
        before = f" That was {self.ago}, before this task." if self.ago else ""
        return f"You saw {self.name}{near}{inside}.{before}"


class Knowledge:
    """What is known in a run; :meth:`of` says what one of its robots knows, as :class:`~.needs.Facts`.

    The last sighting of an instance counts: room and place are those of the latest one, and its place in a recall
    answer is that of the first one. A place is searched when an observation shows its inside, when a robot arrives at
    it and it is not closed, and when it is opened, also if nothing is to be seen then. What has an inside is known by
    its state, open or closed; a thing that can be carried is not a place. For one run and one thread.

    Args:
        household: Names things and reads skills.
        carried: Words of what can be carried.
    """

    def __init__(self, household: Household, carried: Collection[str] = ()) -> None:
        self.household, self.carried = household, frozenset(carried)
        self.rooms: dict[str, None] = {}  # of the house, as far as they were told of
        self.entered: dict[str, None] = {}  # those that a robot was in
        self.named: dict[str, None] = {}  # words for what was seen, and names that may stand in offered skills
        self.placed: dict[str, str] = {}  # where each thing was put that the run has let go of
        self.touched: list[str] = []  # skills that were done, each with the room of the robot then
        self.there: dict[str, Seen] = {}  # by name: what is taken to be where it was seen; nothing that is held
        self.observed: list[tuple[str, tuple[Seen, ...]]] = []  # what was seen, and by which robot, in order
        self.conditions: dict[str, bool] = {}  # by their wording
        self.standing: dict[Named, tuple[str, ...]] = {}  # the names of places, rooms and persons, as offers have them
        self._returned: dict[str, Value | None] = {name: None for one in household.skills for name in one.returns}
        self._robots: dict[str, Known] = {}
        self._states: dict[str, frozenset[str]] = {}  # by name
        self._of_word: dict[str, dict[str, None]] = {}  # the names of what is known in some state, by word
        self._sightings: dict[str, dict[int, Sighting]] = {}  # dicts keep the order of first sighting
        self._by_name: dict[str, Sighting] = {}
        self._likely: dict[str, dict[str, None]] = {}  # where to look for a word, as a map that is kept says
        self._insides: dict[str, Place] = {}  # by name, in the order of first sighting
        self._searched: dict[str, Searched] = {}  # by name, the latest last

    def of(self, robot: str = "") -> Known:
        return self._robots.setdefault(robot, Known(self))

    # ------------------------------------------------------------------ what came

    def saw(self, observation: Observation, robot: str = "") -> None:
        """Take in what an observation shows, of a look around as of a skill."""
        name_of, here = self.household.name_of, self.here(observation)
        self.of(robot).saw(here)
        for known in self._robots.values():
            known.comes_near(here, is_holder=known is self.of(robot))
        self.observed.append((robot, observation.seen))
        self.conditions = dict(observation.conditions) or self.conditions
        self.rooms |= dict.fromkeys((*observation.rooms, *(seen.room for seen in observation.seen if seen.room)))
        for seen in observation.remembered:
            self._remember(seen, name=name_of(seen.word, seen.instance))
        for place in observation.looked_at(name_of):
            self._missed(place, here)
        for seen in observation.seen:
            name = name_of(seen.word, seen.instance)
            self.named[seen.word] = None
            if GONE in seen.states:
                self.forget(seen.word, seen.instance)
                self._insides.pop(name, None)
                continue
            self._see(Sighting(seen.word, seen.instance, name, seen.room, seen.place, seen.held, robot))
            before = self.there.get(name)
            if seen.held:
                self.there.pop(name, None)
            elif seen.place or before is None or before.room != seen.room:
                self.there[name] = seen
            else:  # seen from the middle of the room: where in it is known
                self.there[name] = replace(before, states=seen.states or before.states)
            if seen.states:
                self._set(name, frozenset(state.lower() for state in seen.states))
            if not seen.held and seen.word not in self.carried and _DOOR & {*seen.states}:
                self._insides.setdefault(name, Place(name, seen.room, seen.word, seen.instance))

    def here(self, observation: Observation) -> Mapping[str, Seen]:
        """Return what an observation shows, by name."""
        return {self.household.name_of(seen.word, seen.instance): seen for seen in observation.seen}

    def did(self, skill: str, observation: Observation, robot: str = "", *, step: int = 0) -> ToldSearched | None:
        """Take in what came of a skill beside what was seen; returns what is to be told if it searched something."""
        known = self.of(robot)
        call = self._call(skill)
        known.did(call, observation)
        if observation.outcome is Outcome.DONE:
            self.touched.append(f"{skill} {known.room}")
            self._returned |= {name: value for name, value in observation.data.items() if name in self._returned}
            if call is not None:
                self._changed(call, known.at)
        return self._search(skill, observation, robot=robot, step=step)

    def giving(self, skills: Sequence[Offered]) -> Sequence[Offered]:
        """Return skills in which what was returned in the run may be said by its name, such as ``<code>``."""
        given = dict(self._returned)
        self.standing |= standing_in(skills)
        return [replace(one, given=given) if isinstance(one, Offer) else one for one in skills] if given else skills

    def _call(self, skill: str) -> SkillCall | None:
        try:
            return self.household.call(skill)
        except ParameterError:
            return None

    def _changed(self, call: SkillCall, at: str) -> None:
        self.placed.pop(call.value("held"), None)
        if released := call.value("released"):
            self.placed[released] = at
        for state, other in OPPOSITES.items():
            if name := call.value(state):
                self._set(name, self.states(name) - {other} | {state})

    def _set(self, name: str, states: frozenset[str]) -> None:
        self._states[name] = states
        self._of_word.setdefault(word_of(name), {})[name] = None

    # ------------------------------------------------------------------ where things were seen

    def _see(self, sighting: Sighting) -> None:
        self._sightings.setdefault(sighting.word, {})[sighting.instance] = sighting
        self._by_name[sighting.name] = sighting

    def _remember(self, seen: Seen, *, name: str) -> None:
        # Where a thing was before this run, or is found at times; what was seen in this run counts more.
        where = seen.place or seen.room
        if where is None:
            return
        self._likely.setdefault(seen.word, {}).setdefault(where)
        if PERHAPS not in seen.states and name not in self._by_name:
            self._see(Sighting(seen.word, seen.instance, name, seen.room, seen.place, ago=seen.states[-1]))
            self.there[name] = replace(seen, states=())

    def _missed(self, place: str, seen: Collection[str]) -> None:
        # A place was looked at where only these things are: nothing else is there any more.
        for name in [name for name, one in self.there.items() if one.place == place and name not in seen]:
            one = self.there.pop(name)
            for robot in self._robots.values():
                robot.misses(name)
            if self._by_name[name].ago:
                self.forget(one.word, one.instance)

    def forget(self, word: str, instance: int) -> None:
        if one := self._sightings.get(word, {}).pop(instance, None):
            self._by_name.pop(one.name, None)
            self.there.pop(one.name, None)
            self._states.pop(one.name, None)
            self._of_word.get(word_of(one.name), {}).pop(one.name, None)

    def forget_held(self, robot: str) -> list[str]:
        """Forget what a robot held that is gone, once; returns what it is called."""
        known = self.of(robot)
        held, known.hands = known.hands, {}
        for seen in held.values():
            self.forget(seen.word, seen.instance)
        return list(held)

    def news(self, since: int, robot: str, is_wanted: Callable[[str], bool]) -> str:
        """Say what robots but one have observed since there were so many observations, each sentence after a space."""
        told = dict[str, None]()
        for other, each in self.observed[since:]:
            for seen in each if other != robot else ():
                name = self.household.name_of(seen.word, seen.instance)
                if name == seen.place and "CLOSED" not in seen.states:
                    told[f" {other} has looked at {name}."] = None
                elif is_wanted(seen.word) and seen.place and seen.room:
                    told[f" {other} saw {name} near {seen.place} in {seen.room}."] = None
        return "".join(told)

    def recall(self, word: str, robot: str = "") -> str:
        """Answer ``recall location of <word>`` in the recorded wording, instances in the order of first sighting."""
        known = self._sightings.get(word)
        if not known:
            return f"You have not seen {word} before."
        return " ".join(sighting.sentence(robot) for sighting in known.values())

    def sightings(self, word: str) -> tuple[Sighting, ...]:
        return tuple(self._sightings.get(word, {}).values())

    def sighting(self, name: str) -> Sighting | None:
        return self._by_name.get(name)

    def likely(self, word: str) -> tuple[str, ...]:
        """Return the places where a map that is kept takes such a thing to be, the likeliest first."""
        return tuple(self._likely.get(word, ()))

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self._sightings)

    @property
    def names(self) -> Iterator[str]:
        """Yield the names of the rooms, things and places that were seen or told of."""
        yield from self.rooms
        yield from self._by_name
        yield from (name for name in self._states if name not in self._by_name)

    def may_be_inside(self, word: str) -> bool:
        return not self.carried or word in self.carried

    def is_room(self, word: str) -> bool:
        return any(is_of(room, word) for room in self.rooms)

    def knows(self, name: str) -> bool:
        return name in self._by_name or name in self._states or self.is_room(name)

    def states(self, name: str) -> frozenset[str]:
        return self._states.get(name, frozenset())

    def known_as(self, word: str) -> Iterator[str]:
        """Yield the names of what has a name, or is of a word, and is known in some state."""
        yield from (word,) if word in self._states else self._of_word.get(word, ())

    def in_state(self, state: str) -> Mapping[str, bool | None]:
        """Say of all names that are known in some state, and of their words, whether they are in this one."""
        each = {name: is_in(state, states) for name, states in self._states.items()}
        return {word: any_of(each[name] for name in names) for word, names in self._of_word.items()} | each

    # ------------------------------------------------------------------ what was searched

    def _search(self, skill: str, observation: Observation, *, robot: str, step: int) -> ToldSearched | None:
        verb, name = self.household.split_skill(skill)
        if verb == GO_TO and any(seen.room == name for seen in observation.seen):
            return self.searched_in(name, robot=robot)
        place = self._searched_place(verb, name, observation)
        if place is None:
            return None
        before = self._searched.pop(place.name, None)
        self._searched[place.name] = Searched(place, robot, step)
        # Who arrives where a door is open and opens it once more has searched once.
        again = None if before is not None and verb == OPEN and before.step == step - 1 else before
        return self.searched_in(place.room, robot=robot, again=again, step=step)

    def _searched_place(self, verb: str, name: str, observation: Observation) -> Place | None:
        # of which the observation shows what is there
        known = {place.name: place for place in map(self._place, observation.seen)} | self._insides
        into, room = observation.looked_into, next((seen.room for seen in observation.seen), None)
        if into is not None:
            return known.get(into, Place(into, room))
        if observation.outcome is not Outcome.DONE or verb not in (GO_TO, OPEN):
            return None
        place = known.get(name, Place(name, room))
        if place.word in self.carried or verb == OPEN:
            return self._insides.get(name)
        closed = any("CLOSED" in seen.states for seen in observation.seen if self._place(seen).name == name)
        there = any(seen.place == name for seen in observation.seen if not seen.held)
        return place if there and not closed else None

    def all_searched(self, **about: Any) -> ToldSearched | None:
        """Say what was searched and what was not, as :func:`~reactree_ros.agent.turns.told_searched`; None: nothing."""
        return self._told(lambda place: True, **about)

    def searched_in(self, room: str | None, **about: Any) -> ToldSearched | None:
        return self._told(lambda place: place.room == room, **about)

    def _told(self, counts: Callable[[Place], bool], **about: Any) -> ToldSearched | None:
        searched = [one for one in self._searched.values() if counts(one.place)]
        return told_searched(searched, list(filter(counts, self.unsearched())), **about) if searched else None

    def unsearched(self) -> list[Place]:
        return [place for name, place in self._insides.items() if name not in self._searched]

    def _place(self, seen: Seen) -> Place:
        return Place(self.household.name_of(seen.word, seen.instance), seen.room, seen.word, seen.instance)


class Known:
    """What one robot of a run knows, as :class:`~.needs.Facts`.

    Attributes:
        room: Where it saw something last; empty before.
        at: What it went to last; empty if nobody knows.
        hands: What it was seen to hold, by name.
    """

    def __init__(self, knowledge: Knowledge) -> None:
        self._all = knowledge
        self.room = self.at = ""
        self.hands: dict[str, Seen] = {}
        self._near: frozenset[str] | None = frozenset()  # None: nobody knows; it has gone nowhere at the start
        self._taken: dict[str, None] = {}  # what it holds, by the effects of skills, of what is never seen as a thing

    def saw(self, here: Mapping[str, Seen]) -> None:
        if here:  # a refusal by a policy, or what a world says in words alone, says nothing of the hands
            self.hands = {name: seen for name, seen in here.items() if seen.held}
        self.room = next((seen.room for seen in here.values() if seen.room), self.room)
        if self.room:
            self._all.entered[self.room] = None
        places = {seen.place for seen in here.values() if seen.place and seen.room and not seen.held}
        if not self.at and len(places) == 1:  # a run may begin where an earlier one has led the robot
            self.moved(*places)

    def comes_near(self, here: Mapping[str, Seen], *, is_holder: bool) -> None:
        """Take in what it can reach, by what it or another robot sees: what is at a place that it can reach."""
        if near := self._near:
            taken = {name for name, seen in here.items() if seen.held and not is_holder}
            self._near = (near | {name for name, seen in here.items() if seen.place in near}) - taken

    def did(self, call: SkillCall | None, observation: Observation) -> None:
        """Take in where a skill has led it; after a drive that failed, and after a text, nobody knows where it is."""
        if observation.is_refused:
            return
        if call is None:
            self.moved()
            return
        is_done = observation.outcome is Outcome.DONE
        if call.skill.moves:
            here = self._all.here(observation)
            self.moved(call.value("at") if is_done else "")
            if self.at in self._all.rooms:  # although there may be nothing to see in it
                self.room, self._all.entered[self.at] = self.at, None
            self.comes_near(here, is_holder=True)
            if here and self.at not in here and word_of(self.at) in self._all.carried:
                self._all.there.pop(self.at, None)
        if is_done:
            for name in filter(None, (call.value("released"), call.value("gone"))):
                self._taken.pop(name, None)
                self.hands.pop(name, None)
                self._near = self._near and self._near | {name}
            if (name := call.value("held")) and self._all.sighting(name) is None:
                self._taken[name] = None

    def misses(self, name: str) -> None:
        self._near = self._near and self._near - {name}

    def moved(self, at: str = "") -> None:
        """Note that it has left where it was; empty: nobody knows where it is now."""
        self.at, self._near = at, frozenset({at}) if at else None

    @property
    def near(self) -> frozenset[str]:
        return self._near or frozenset()

    @property
    def held(self) -> list[str]:
        return [*self.hands, *self._taken]

    # ------------------------------------------------------------------ facts

    def told(self, fact: str) -> tuple[Mapping[str, bool | None], bool | None]:
        """Say what :meth:`holds` says of a fact: of some names and words, and of every other one."""
        if fact in OPPOSITES:
            return self._all.in_state(fact), None
        some = self._some(fact)
        is_unknown = not self.at if fact == "at" else some is None
        return dict.fromkeys((*(some or ()), *map(word_of, some or ())), True), None if is_unknown else False

    def _some(self, fact: str) -> Sequence[str] | None:
        """Return the names of which a fact of the robot holds; None: nobody knows."""
        if fact == "at":
            return [place for place in (self.at, self.room) if place and place not in self.held]
        is_told = fact == "held" or (self._near is not None and self._all.words)  # some worlds tell of nothing seen
        return [*(() if fact == "held" else self.near), *self.held] if is_told else None

    def holds(self, fact: str, about: str) -> bool | None:
        everything = self._all
        if fact == "condition":
            return everything.conditions.get(about)
        if fact == "free":
            hands = everything.household.hands
            return len(self.held) < hands if hands else None
        is_here, about = about == HERE, self.at if about == HERE else about
        is_property = about.isupper() and about not in (self.at, self.room) and not everything.knows(about)
        if is_property and fact == "at" and self.at in everything.rooms:  # in the middle of a room stands nothing
            return False
        if not about or (is_property and fact != "held"):  # nobody has told what can be done with things
            return None
        if fact not in OPPOSITES:
            told, other = self.told(fact)
            return told.get(about, other)
        if is_here and fact == "closed" and any(is_of(about, one) for one in everything.household.solid):
            return False
        return any_of(is_in(fact, everything.states(name)) for name in everything.known_as(about))

    def those(self, fact: str, about: str) -> list[str]:
        about = self.at if about == HERE else about
        if fact in OPPOSITES:
            return [name for name in self._all.known_as(about) if fact in self._all.states(name)]
        return [name for name in self._some(fact) or () if is_of(name, about)]


def standing_in(skills: Iterable[Offered]) -> dict[Named, tuple[str, ...]]:
    """Return which places, rooms and persons may be named, by the parameters of what is offered."""
    offers = [one for one in skills if isinstance(one, Offer)]
    named = ((one.skill.parameters[place].named, now) for one in offers for place, now in one.now.items())
    return {kind: tuple(now) for kind, now in named if kind is not None and not isinstance(kind, Thing)}


def is_in(state: str, states: Collection[str]) -> bool | None:
    """Whether something is in a state by those that are known of it; None: nobody knows."""
    return True if state in states else False if OPPOSITES[state] in states else None


def any_of(each: Iterable[bool | None]) -> bool | None:
    known = [*each]
    return True if True in known else None if None in known or not known else False


def is_of(name: str, word: str) -> bool:
    """Whether a name is a word itself or one of its instances: ``juice 1`` and ``Juice (1)`` are."""
    return word in (name, word_of(name))


def word_of(name: str) -> str:
    return _INSTANCE.sub("", name)
