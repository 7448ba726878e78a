"""Pursues a goal with skills: search a thing, pick it up, bring it somewhere, open, close, turn on.

Every function returns the next skill, or None if nothing more can be done. No state is kept between calls: the
trajectory shows what has been tried already.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from reactree_ros.household.expert.goals import Goal, Move, Operate, PutDown, Take
from reactree_ros.household.expert.reading import Sighting, Situation, is_a, word_of
from reactree_ros.household.expert.sentence import TABLES
from reactree_ros.household.vocabulary import (
    FROM,
    SURFACE_OF_ROOM,
    bare,
    can_be_held,
    class_of_word,
    is_room,
    own_classes,
    properties_of_word,
)


class _Habit(NamedTuple):
    """Usual rooms and places of some kinds of things, the likeliest first, weighed against the cost of a look.

    A surface shows its things at once, a container has to be opened, and there are many kitchen cabinets.
    """

    things: Sequence[str]  # words of the vocabulary; other words follow the last habit
    rooms: Sequence[str]  # kinds of rooms
    places: Sequence[str]  # those of a quick search


_HABITS = [_Habit(**habit) for habit in TABLES["habits"]]
#: Rooms of furniture and appliances, the likeliest first; others follow the last habit.
_FURNITURE_ROOMS: Mapping[str, Sequence[str]] = TABLES["furniture"]
#: ``openable`` places are opened by a search: closets, nightstands, bookshelves, washing machines say "open" and stay
#: closed. ``wide`` surfaces show only a part of their things to a neighbour. Nothing is kept on ``no_spots``.
SEARCHED: Mapping[str, Sequence[str]] = TABLES["searched"]


def _habit_of(thing: str) -> _Habit:
    return next((habit for habit in _HABITS if bare(thing) in habit.things), _HABITS[-1])


def _ranked(names: Iterable[str], order: Sequence[str]) -> list[str]:
    return sorted(names, key=lambda name: order.index(word) if (word := word_of(name)) in order else len(order) - 1.5)


def rooms_for(thing: str, rooms: Iterable[str]) -> list[str]:
    for room, furniture in _FURNITURE_ROOMS.items():
        if bare(thing) in furniture:
            others = tuple(other for other in ("kitchen", "living room", "bedroom", "bathroom") if other != room)
            return _ranked(rooms, (room, *others))
    return _ranked(rooms, _habit_of(thing).rooms)


def quick_spots(thing: str, view: Iterable[str]) -> list[str]:
    places = _habit_of(thing).places
    own = {one.word for one in own_classes() if one.room_item}
    return _ranked((spot for spot in view if word_of(spot) in places or word_of(spot) in own), places)


def achieved(goal: Goal, situation: Situation) -> bool:
    if isinstance(goal, Move | PutDown):
        return len(_placed(goal.thing, goal.place, situation)) >= goal.count
    if isinstance(goal, Take):
        return len(_held(goal.thing, situation)) >= goal.count
    as_wanted = {"open": situation.opened, "close": situation.closed}.get(goal.action, set())
    verb = f"{goal.action} "
    operated = (skill.removeprefix(verb) for skill in situation.done if skill.startswith(verb))
    return _any_is_a((*operated, *as_wanted), goal.thing)


def next_skill(goal: Goal, situation: Situation) -> str | None:
    if len(situation.held) >= situation.hands and _needs_a_hand(goal, situation):
        return _free_a_hand(goal, situation)
    if skill := _open_first(goal, situation):
        return skill
    if isinstance(goal, Operate):
        return _operate(goal, situation)
    if isinstance(goal, Take):
        if goal.room or goal.closer:  # the node that expanded into this has asked working memory before
            rooms = [goal.room] if goal.room else rooms_for(goal.thing, situation.rooms)
            known = take_known(goal.thing, situation, recall=False)
            return known or _search(goal.thing, rooms, situation, closer=(goal.closer,))
        return _find(goal.thing, situation)
    skills = (_bring(instance, goal, situation) for instance in _held(goal.thing, situation))
    skill = next((skill for skill in skills if skill is not None), None)
    if skill is None and isinstance(goal, PutDown):  # fetch a thing that was put down elsewhere on the way
        return take_known(goal.thing, situation, recall=False, only=situation.placed)
    return skill or _find(goal.thing, situation)


def put_away(goals: Sequence[Goal], situation: Situation) -> str | None:
    """Return the next skill to get rid of a thing picked up by mistake; None if there is none, or it does no harm.

    A thing that was in the hands from the start stays there, unless it keeps a goal's thing from its place.
    """
    wanted = {goal.thing for goal in goals}
    foreign = [instance for instance in situation.held if not any(is_a(instance, thing) for thing in wanted)]
    full = len(situation.held) >= situation.hands and not all(isinstance(goal, Take) for goal in goals)
    if not full:
        foreign = [instance for instance in foreign if instance not in situation.brought]
    skills = (_put_anywhere(instance, situation) for instance in foreign)
    return next((skill for skill in skills if skill is not None), None)


def _needs_a_hand(goal: Goal, situation: Situation) -> bool:
    if isinstance(goal, Take | Operate):
        return isinstance(goal, Operate) and goal.action != "go to"
    return _any_is_a(situation.closed, goal.place) and not _any_is_a(situation.opened, goal.place)


def _open_first(goal: Goal, situation: Situation) -> str | None:
    if not isinstance(goal, Move | PutDown) or situation.hands > 1 or situation.held or not opens(goal.place):
        return None
    if _any_is_a(situation.opened, goal.place):
        return None
    return _operate(Operate(action="open", thing=goal.place, room=goal.room), situation)


def _free_a_hand(goal: Goal, situation: Situation) -> str | None:
    held = sorted(situation.held, key=lambda instance: is_a(instance, goal.thing))
    return next((skill for one in held if (skill := _put_anywhere(one, situation)) is not None), None)


def _put_anywhere(instance: str, situation: Situation) -> str | None:
    skill = f"put down {instance}"
    for spot in (situation.at, *situation.views.get(situation.room, ())):
        takes = spot and spot != instance and _takes_things(spot, situation)
        if takes and (skill, spot) not in situation.refused:
            return skill if spot == situation.at else _unless_refused(f"go to {spot}", situation)
    return None


def _takes_things(spot: str, situation: Situation) -> bool:
    if opens(word_of(spot)):
        return spot in situation.opened
    properties = properties_of_word(word_of(spot))
    return bool(properties & {"SURFACES", "CONTAINERS"}) and "GRABBABLE" not in properties


def opens(place: str) -> bool:
    return {"CAN_OPEN", "CONTAINERS"} <= properties_of_word(place)


def can_be_held_at_once(goal: Move, situation: Situation) -> bool:
    others = [instance for instance in situation.held if not is_a(instance, goal.thing)]
    return can_be_held(goal.thing) and goal.count <= max(1, situation.hands - len(others))


def _find(thing: str, situation: Situation) -> str | None:
    if not can_be_held(thing):
        return None
    known = take_known(thing, situation)
    return known or _search(thing, rooms_for(thing, situation.rooms), situation)


# ---- searching ----------------------------------------------------------------------------------------------------


def take_known(
    thing: str, situation: Situation, *, recall: bool = True, only: Container[str] | None = None
) -> str | None:

    source = thing.partition(FROM)[2]

    def wanted(instance: str, at: str, room: str) -> bool:
        return (
            is_a(instance, thing)
            and (not source or is_a(at, source) or is_a(room, source))
            and (only is None or instance in only)
            and instance not in situation.held
            and instance not in situation.settled
            and not _refused(f"pick up {instance}", situation)
        )

    if len(situation.held) >= situation.hands or not can_be_held(thing):
        return None
    near = next((one for one in situation.near if wanted(one, situation.at, situation.room)), None)
    if near:
        return f"pick up {near}"
    known = [one for one in situation.known(thing) if wanted(one.instance, one.near, one.room)]
    for sighting in sorted(known, key=lambda sighting: sighting.room != situation.room):
        skill = _follow(sighting, situation)
        if skill is not None:
            return skill
    if recall and situation.can_recall and (word := bare(thing)) not in situation.recalled:
        return f"recall location of {word}"
    return None


def _follow(sighting: Sighting, situation: Situation) -> str | None:
    if sighting.room != situation.room:
        looked_for = not sighting.near and _refused(f"go to {sighting.instance}", situation)
        if not sighting.room or looked_for:
            return None
        return _unless_refused(f"go to {sighting.room}", situation)
    place = sighting.near or sighting.instance
    if place == situation.at:
        return _open_here(situation)
    return _unless_refused(f"go to {place}", situation)


def _search(
    thing: str, rooms: Sequence[str], situation: Situation, *, closer: Sequence[bool] = (False, True)
) -> str | None:
    if len(situation.held) >= situation.hands:
        return None
    skills = (_search_room(thing, room, situation, closer=look) for look in closer for room in rooms)
    return next((skill for skill in skills if skill is not None), None)


def _search_room(thing: str, room: str, situation: Situation, *, closer: bool) -> str | None:
    view = situation.views.get(room)
    if view is None:
        return _unless_refused(f"go to {room}", situation)
    spots = quick_spots(thing, view)
    if closer:
        spots = [*(one for one in view if one not in spots and word_of(one) not in SEARCHED["no_spots"]), *spots]
    direct = [spot for spot in view if is_a(spot, thing) and spot not in situation.looks]
    for spot in (*direct, *_own_share_first(spots, situation)):
        skill = _look_at(spot, situation, closer=closer)
        if skill is not None:
            return skill if room == situation.room else f"go to {room}"
    return None


def _own_share_first(spots: Sequence[str], situation: Situation) -> Sequence[str]:
    if situation.me not in situation.crew:
        return spots
    first = situation.crew.index(situation.me) * len(spots) // len(situation.crew)
    return [spot for spot in (*spots[first:], *spots[:first]) if spot not in situation.told]


def _look_at(spot: str, situation: Situation, *, closer: bool) -> str | None:
    if spot in situation.searched and spot not in situation.shut:
        return None
    seen_into = spot in situation.opened or f"open {spot}" in situation.done
    opened = {*SEARCHED["openable"], *(one.word for one in own_classes() if opens(one.word))}
    openable = word_of(spot) in opened and not seen_into
    within_reach = spot in situation.near and not _refused(f"open {spot}", situation)
    if spot in situation.shut and word_of(spot) in opened and (within_reach or spot != situation.at):
        return f"open {spot}" if within_reach else _unless_refused(f"go to {spot}", situation)
    if spot in situation.looks:
        return f"open {spot}" if openable and spot in situation.closed and within_reach else None
    if openable and within_reach:
        return f"open {spot}"
    if not openable and not closer and spot in situation.reached and word_of(spot) not in SEARCHED["wide"]:
        return None
    return _unless_refused(f"go to {spot}", situation)


# ---- bringing, operating ------------------------------------------------------------------------------------------


def _bring(instance: str, goal: Move | PutDown, situation: Situation) -> str | None:
    skill = f"put down {instance}"
    for target, reach in _reachable(goal.place, goal.room, situation):
        if (skill, target) in situation.refused:
            continue
        if reach is not None:
            return reach
        return _open_here(situation) or skill
    return None


def _operate(goal: Operate, situation: Situation) -> str | None:
    rooms = [f"go to {room}" for room in situation.rooms if is_a(room, goal.thing)]
    if rooms:
        return next((skill for skill in rooms if not _refused(skill, situation)), None)
    for target, reach in _reachable(goal.thing, goal.room, situation):
        skill = f"{goal.action} {target}"
        if _refused(skill, situation):
            continue
        if reach is not None:
            return reach
        closing = f"close {target}"
        if goal.action == "turn on" and target in situation.opened and not _refused(closing, situation):
            return closing
        return skill
    return None


def _reachable(word: str, kind_of_room: str, situation: Situation) -> Iterator[tuple[str, str | None]]:
    """Yield instances of a receptacle or an appliance, each with the skill that leads there; None if already there.

    The order does not depend on the agent's place, so that things of one goal come to the same place.
    """
    rooms = rooms_for(word, situation.rooms)
    in_room = is_room(word)
    if kind_of_room or in_room:
        rooms = [room for room in rooms if is_a(room, kind_of_room or word)]
    for room in rooms:
        if room not in situation.views and not _refused(f"go to {room}", situation):
            yield "", f"go to {room}"
        view = situation.views.get(room, ())
        usual = SURFACE_OF_ROOM.get(word_of(room))
        for target in sorted(view, key=lambda spot: word_of(spot) != usual) if in_room else view:
            if _takes_things(target, situation) if in_room else is_a(target, word):
                yield target, _approach(Sighting(target, "", room), situation)
    if in_room or class_of_word(word).room_item:
        return
    for sighting in situation.known(word):
        yield sighting.instance, _approach(sighting, situation)
    skill = _search(word, rooms, situation)
    if skill is not None:
        yield "", skill


def _approach(sighting: Sighting, situation: Situation) -> str | None:
    if sighting.instance == situation.at:
        return None
    near = sighting.instance in situation.near
    return f"go to {sighting.instance}" if near else _follow(sighting, situation) or f"go to {sighting.instance}"


def _open_here(situation: Situation) -> str | None:
    closed = situation.at in situation.closed
    return _unless_refused(f"open {situation.at}", situation) if closed else None


def _unless_refused(skill: str, situation: Situation) -> str | None:
    return None if _refused(skill, situation) else skill


def _refused(skill: str, situation: Situation) -> bool:
    return any(refused == skill for refused, _ in situation.refused)


def _held(thing: str, situation: Situation) -> list[str]:
    return [instance for instance in situation.held if is_a(instance, thing)]


def _placed(thing: str, place: str, situation: Situation) -> list[str]:
    return [one for one, where in situation.placed.items() if situation.lies(one, where, thing, place)]


def _any_is_a(instances: Iterable[str], name: str) -> bool:
    return any(is_a(instance, name) for instance in instances)
