"""Progress of a game: ALFRED's goal conditions, counted in the facts of the game."""

from __future__ import annotations

from collections import Counter

from reactree_lab.worlds.alfworld.engine import Turn
from reactree_lab.worlds.alfworld.games import LIGHT, TWO, Wanted
from reactree_lab.worlds.alfworld.rooms import TREATMENTS

#: The fact of a treated thing.
_TREATED = dict(zip(TREATMENTS, ("isclean", "ishot", "iscool"), strict=True))


def kind_of(name: str) -> str:
    """Return the kind of a thing, e.g. ``apple`` of ``apple 1``."""
    return name.rpartition(" ")[0] or name


def conditions_met(wanted: Wanted, turn: Turn) -> tuple[int, int]:
    """Return the number of goal conditions that hold, and of all conditions, as ALFRED's evaluation does.

    - a thing in a place: it is there
    - two things: one and the other, in the same receptacle
    - a treated thing: in its place, treated, and a treated one in its place
    - a thing in the light: it is held, and the lamp is on at the agent's place
    """
    conditions = _lit(wanted, turn) if wanted.task_type == LIGHT else _placed(wanted, turn)
    return sum(conditions), len(conditions)


def _placed(wanted: Wanted, turn: Turn) -> list[bool]:
    item, receptacle = wanted.item.lower(), wanted.receptacle.lower()
    places = {thing: place for thing, place in turn.pairs("inreceptacle") if kind_of(thing) == item}
    there = {thing: place for thing, place in places.items() if kind_of(place) == receptacle}
    if wanted.task_type == TWO:
        most = max(Counter(there.values()).values(), default=0)
        return [most >= 1, most >= 2]
    if wanted.task_type not in _TREATED:
        return [bool(there)]
    treated = {thing for thing in turn.named(_TREATED[wanted.task_type]) if kind_of(thing) == item}
    return [bool(there), bool(treated), bool(treated & set(there))]


def _lit(wanted: Wanted, turn: Turn) -> list[bool]:
    here = {place for _, place in turn.pairs("atlocation")}
    near = {receptacle for receptacle, place in turn.pairs("receptacleatlocation") if place in here}
    lamps = {thing for thing, receptacle in turn.pairs("inreceptacle") if receptacle in near}
    on = {thing for thing in turn.named("istoggled") if kind_of(thing) == wanted.lamp.lower()}
    held = {kind_of(thing) for _, thing in turn.pairs("holds")}
    return [wanted.item.lower() in held, bool(on & lamps)]
