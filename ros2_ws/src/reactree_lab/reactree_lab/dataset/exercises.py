"""Exercises: made-up searches and lists in which the only decision is whether the wanted thing is there.

In a house this decision comes once in thousands of tokens, among others that are easier to learn. A small model learns
it last, or never. Then it walks through a house like the expert, but passes by the wanted thing.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reactree_lab.dataset.lines import Line, Run
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.prompt import Siblings, start_turn, task_turn
from reactree_ros.agent.turns import Prompt, Said, Saw, Turn
from reactree_ros.errors import UserError
from reactree_ros.household.expert.goals import Move, PutDown, Take
from reactree_ros.household.rules import arrival_text, merged, see_text
from reactree_ros.household.scene import Thing
from reactree_ros.household.tasks import ROOMS, Node
from reactree_ros.household.vocabulary import CLASSES
from reactree_ros.tree.flows import FallbackFlow, SequenceFlow

_SEEN = [one for one in CLASSES.values() if one.observed and one.category not in (ROOMS, "Characters")]
_WANTED = [one.name for one in _SEEN if "GRABBABLE" in one.properties and not one.room_item]
_PLACES = [one.name for one in _SEEN if one.room_item and "GRABBABLE" not in one.properties]
_ROOM_WORDS = [one.word for one in CLASSES.values() if one.category == ROOMS]
#: Most things seen at a place; each search draws one of these, because short ones are learnt first.
_MOST_SEEN = (2, 3, 5, 8, 12, 15)
_MOST_STEPS = 7
#: Share of the searches that find the thing.
_FOUND = 0.8
#: Share of searches that are one room's part of a larger search, and of prompts without siblings.
_OF_A_ROOM, _ALONE = 0.6, 0.5
#: Share of exercises that are drills; number of lists in one, and most things on each.
_DRILLS, _LISTS, _MOST_LISTED = 0.5, (3, 10), 6
#: Share of drills in which one thing is held and another is wanted.
_ANOTHER = 0.5
#: Most things on a list of a short drill.
_FEW_LISTED = 3


@dataclass(frozen=True)
class _Step:
    text: str  # the observation there
    seen: Sequence[Thing]  # the things seen; if the wanted one is there, it is the last
    onwards: str  # the next place if it is not there


def exercise(seed: int, planner: str, without: Collection[str] = (), *, short: bool = False) -> Iterator[Line]:
    """Yield the decisions of an exercise: at each place, pick up the wanted thing or go on.

    An exercise is a search, which looks like one in a house and ends once, or a drill. A drill is a row of short lists,
    with the wanted thing on every second one: without drills, a small model needs many millions of tokens before it
    looks for a name in a list.

    The next place is not to be learnt: only one place is allowed.

    Args:
        without: Classes of things that no exercise searches for. They are still seen.
        short: Make a drill with at most three things on a list, and nothing held. The wanted thing is then never on a
            list for another reason, and a model from scratch learns to look for it within a million tokens.
    """
    drawn = random.Random(f"exercise {seed}")
    run = Run(house=f"exercise {seed}", task="0", planner=planner)
    left = [name for name in _WANTED if name not in without]
    if not left:
        raise UserError("--without names all things; name fewer, or leave --exercises out")
    wanted = drawn.choice(left)
    if short:
        task, turns, steps = _drill(drawn, wanted, another=False, most=_FEW_LISTED)
    elif drawn.random() < _DRILLS:
        task, turns, steps = _drill(drawn, wanted, another=drawn.random() < _ANOTHER, most=_MOST_LISTED)
    else:
        task, turns, steps = _search(drawn, wanted)
    known: dict[str, None] = {}  # things seen so far that can be picked up, in order
    for decision, step in enumerate(steps):
        turns.append(Saw(step.text))
        known |= {f"pick up {thing.name}": None for thing in step.seen if thing.class_name in _WANTED}
        last = step.seen[-1]
        skill = f"pick up {last.name}" if last.class_name == wanted else f"go to {step.onwards}"
        # Something can always be picked up, so that the verb is a real decision.
        skills = [f"go to {step.onwards}", *(known or [f"pick up {CLASSES[wanted].word} 1"])]
        yield Line(
            run=run,
            instruction=task,
            turns=tuple(Prompt((start_turn("", ()),), turns)),
            begun="",
            completion=str(Act(skill)),
            node=0,
            decision=decision,
            kind=Act.name,
            may_say={"skills": skills, "control_flows": []},
            learn=True,
        )
        turns.append(_said(skill))


def _drill(drawn: random.Random, wanted: str, *, another: bool, most: int) -> tuple[str, list[Turn], Iterator[_Step]]:
    """Yield lists with or without the wanted thing; held things are on every list, as in a house."""
    held = [_thing(drawn, wanted)] if another else []
    task = str(Take(CLASSES[wanted].word, another=another))
    holding = f" You hold {merged(held)}." if held else ""

    def steps() -> Iterator[_Step]:
        for _ in range(drawn.randint(*_LISTS)):
            others = [name for name in _WANTED if name != wanted]
            seen = [_thing(drawn, name) for name in drawn.sample(others, drawn.randint(1, most))]
            if drawn.random() < 0.5:
                seen[-1] = _thing(drawn, wanted, besides=held)
            yield _Step(f"{see_text([*held, *seen])}{holding}", seen, _thing(drawn, drawn.choice(_PLACES)).name)

    return task, [task_turn(task, None)], steps()


def _search(drawn: random.Random, wanted: str) -> tuple[str, list[Turn], Iterator[_Step]]:
    take, turns = _told(drawn, CLASSES[wanted].word)
    most, number, found = drawn.choice(_MOST_SEEN), drawn.randint(1, _MOST_STEPS), drawn.random() < _FOUND
    places = [_thing(drawn, name) for name in drawn.sample(_PLACES, number + 1)]

    def steps() -> Iterator[_Step]:
        for step, (place, onwards) in enumerate(pairwise(places), 1):
            names = drawn.sample([name for name in (*_WANTED, *_PLACES) if name != wanted], drawn.randint(1, most))
            seen = [_thing(drawn, name) for name in names for _ in range(drawn.choice((1, 1, 1, 2)))]
            if found and step == number:
                seen.append(_thing(drawn, wanted))
            yield _Step(f"{arrival_text(place)} {see_text(seen)}", seen, onwards.name)

    return str(take), [*turns, _said(f"go to {places[0].name}")], steps()


def _told(drawn: random.Random, word: str) -> tuple[Take, list[Turn]]:
    """Return a subgoal and its prompt: a room's part of a search, or a move of the thing."""
    rooms = [f"{room} {number}" for room in drawn.sample(_ROOM_WORDS, 3) for number in range(1, drawn.randint(2, 4))]
    whole = Take(word)
    if drawn.random() < _OF_A_ROOM:
        search = (*(Take(word, room) for room in rooms), Take(word, closer=True))
        take = drawn.choice(search)
        siblings = Siblings(str(whole), FallbackFlow(), tuple(map(str, search)))
    else:
        take, place = whole, CLASSES[drawn.choice(_PLACES)].word
        siblings = Siblings(str(Move(word, place)), SequenceFlow(), (str(whole), str(PutDown(word, place))))
    return take, [task_turn(str(take), None if drawn.random() < _ALONE else siblings)]


def _said(skill: str) -> Said:
    return Said(str(Act(skill)), Act(skill))


def _thing(drawn: random.Random, name: str, besides: Sequence[Thing] = ()) -> Thing:
    known = CLASSES[name]
    states = [drawn.choice(("OPEN", "CLOSED"))] if "CAN_OPEN" in known.properties else []
    node = Node(id=0, class_name=name, category=known.category, properties=sorted(known.properties), states=states)
    numbers = (1, 1, 1, 2, 2, 3, drawn.randint(1, 19))
    return Thing(node, drawn.choice([one for one in numbers if one not in {other.number for other in besides}]))
