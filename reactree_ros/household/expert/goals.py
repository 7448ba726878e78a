"""Goals of an instruction, and the wording of subgoals that the expert gives to its child nodes.

A child node sees only its own prompt, so its subgoal must say everything. This module both writes and reads the words.
They never contain a comma, because subgoals are split at commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from reactree_ros.agent.text import said_number
from reactree_ros.household.scene import HANDS
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.household.vocabulary import CLASSES, ObjectClass, class_of_word, is_known, is_room, own_classes


@dataclass(frozen=True)
class Move:
    thing: str  # the thing to move, a word of the vocabulary
    place: str  # the receptacle, a word of the vocabulary
    room: str = ""  # the kind of room of the receptacle; empty for any
    count: int = 1  # number of things

    def __str__(self) -> str:
        return f"move {some(self.thing, self.count)} {self.where}"

    @property
    def where(self) -> str:
        return f"{preposition(self.place)} {_the(self.place, self.room)}"


@dataclass(frozen=True)
class Take:
    thing: str  # the thing to pick up, a word of the vocabulary
    room: str = ""  # the room to search, e.g. ``kitchen 1``; empty for the whole house
    closer: bool = False  # whether to search places that a quick search leaves out
    count: int = 1  # number of things
    another: bool = False  # whether the others have been picked up before

    def __str__(self) -> str:
        where = f" in {self.room}" if self.room else ""
        return f"find and pick up {self.wanted}{where}{' by a closer look' if self.closer else ''}"

    @property
    def wanted(self) -> str:
        return f"another {self.thing}" if self.another else some(self.thing, self.count)


@dataclass(frozen=True)
class PutDown:
    thing: str
    place: str
    room: str = ""
    count: int = 1

    def __str__(self) -> str:
        return f"find {_the(self.place, self.room)} and put down {some(self.thing, self.count)}"


@dataclass(frozen=True)
class Operate:
    action: str  # ``open``, ``close``, ``turn on`` or ``go to``; an open thing is closed before it is turned on
    thing: str  # the thing, a word of the vocabulary; a room, too, for ``go to``
    room: str = ""  # the kind of room of the thing; empty for any

    def __str__(self) -> str:
        closable = self.action == "turn on" and "CAN_OPEN" in class_of_word(self.thing).properties
        return f"{'close' if closable else 'find'} and {self.action} {_the(self.thing, self.room)}"


Goal = Move | Take | PutDown | Operate


def goals_of(conditions: Iterable[GoalCondition]) -> tuple[Goal, ...]:
    goals: list[Goal] = []
    for one in conditions:
        target = CLASSES[one.target].word
        if one.relation == "turnOn":
            goals.append(Operate(action="turn on", thing=target))
        else:
            goals.append(Move(thing=CLASSES[one.item].word, place=target, count=one.count))
    return tuple(sorted(goals, key=lambda goal: isinstance(goal, Operate)))


def preposition(place: str) -> str:
    return "in" if is_room(place) or "CONTAINERS" in class_of_word(place).properties else "on"


def _the(word: str, room: str) -> str:
    return f"the {word} of the {room}" if room else f"the {word}"


def some(thing: str, count: int) -> str:
    return f"the {thing}" if count == 1 else f"{count} of the {thing}"


def describe(goals: Sequence[Goal]) -> str:
    texts: list[str] = []
    where = ""  # of the goal before, if another thing can join it
    for goal in goals:
        joins = isinstance(goal, Move) and goal.count == 1
        if isinstance(goal, Move) and joins and goal.where == where:
            texts[-1] = f"{texts[-1].removesuffix(f' {where}')} and the {goal.thing} {where}"
        else:
            texts.append(str(goal))
        where = goal.where if isinstance(goal, Move) and joins else ""
    return " and ".join(texts)


_SOME = r"(?:the|(?P<count>\d{1,9}) of the)"
_OF_ROOM = r"(?: of the (?P<room>[^,]{1,200}))?"
_MOVE = re.compile(rf"move {_SOME} (?P<things>[^,]{{1,200}}) (?:on|in) the (?P<place>[^,]{{1,200}}?){_OF_ROOM}")
_TAKE = re.compile(
    rf"find and pick up (?:{_SOME}|(?P<another>another)) (?P<thing>\D{{1,200}}?(?: \d{{1,9}})?)"
    r"(?: in (?P<room>[a-z ]+ \d+))?(?P<closer> by a closer look)?"
)
_PUT_DOWN = re.compile(rf"find the (?P<place>[^,]{{1,200}}?){_OF_ROOM} and put down {_SOME} (?P<thing>[^,]{{1,200}})")
_OPERATE = re.compile(
    rf"(?:find|close) and (?P<action>open|close|turn on|go to) the (?P<thing>[^,]{{1,200}}?){_OF_ROOM}"
)


def read_subgoal(text: str) -> tuple[Goal, ...]:
    return _read_subgoal(text, own_classes())


@lru_cache(maxsize=256)
def _read_subgoal(text: str, own: tuple[ObjectClass, ...]) -> tuple[Goal, ...]:
    parts = [_read_part(part) for part in re.split(r" and (?=move )", text)]
    goals = tuple(goal for part in parts for goal in part)
    return goals if all(parts) and all(map(_is_known, goals)) else ()


def _count(match: re.Match[str]) -> int:
    return said_number(match["count"] or "1") or 1


def _read_part(text: str) -> list[Goal]:
    if match := _MOVE.fullmatch(text):
        place, room, count = match["place"], match["room"] or "", _count(match)
        things = match["things"].split(" and the ")
        return [Move(thing=thing, place=place, room=room, count=count) for thing in things]
    if match := _TAKE.fullmatch(text):
        closer, another = bool(match["closer"]), bool(match["another"])
        count = HANDS if another else _count(match)
        return [Take(thing=match["thing"], room=match["room"] or "", closer=closer, count=count, another=another)]
    if match := _PUT_DOWN.fullmatch(text):
        place, room, count = match["place"], match["room"] or "", _count(match)
        return [PutDown(thing=match["thing"], place=place, room=room, count=count)]
    if match := _OPERATE.fullmatch(text):
        return [Operate(action=match["action"], thing=match["thing"], room=match["room"] or "")]
    return []


def _is_known(goal: Goal) -> bool:
    return is_known(goal.thing) and (isinstance(goal, Take | Operate) or is_known(goal.place))
