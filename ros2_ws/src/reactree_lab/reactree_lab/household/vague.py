"""Instructions with an open part: which things, how many, or where to; drawn by seed from a task's goal.

The goal is not changed. With only the instruction, one can guess; with a person, one can ask.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from reactree_ros.household.lexicon import listed, plural
from reactree_ros.household.tasks import GoalCondition
from reactree_ros.household.vocabulary import CLASSES

#: Common names of classes, for one thing and for several; the last line is for any classes.
_KINDS: Sequence[tuple[frozenset[str], tuple[str, ...], tuple[str, ...]]] = tuple(
    (frozenset(classes.split()), tuple(one.split(", ")), tuple(several.split(", ")))
    for classes, one, several in (
        ("waterglass wineglass", "a glass, one of the glasses", "the glasses, some glasses"),
        ("juice wine", "a drink, something to drink", "some drinks, the drinks, something to drink"),
        ("cupcake poundcake", "a cake, something sweet, one of the cakes", "some cakes, something sweet"),
        ("cutleryfork plate waterglass wineglass", "one of the dishes", "the dishes, some dishes, the tableware"),
        ("apple cupcake pudding juice wine pancake poundcake", "a snack, something to eat", "some snacks, some food"),
        ("", "something, a thing that I need", "some things, some stuff, a few things, the usual things"),
    )
)
_SOMEWHERE = ("away", "where {they} belong{s}", "somewhere", "in the right place", "back in {their} place", "there")
_SOME = ("some", "a few", "several", "the", "a number of")
_PUT = ("put", "place", "leave", "set")
_BEFORE = ("", "", "", "please ", "could you ", "robot, please ", "I want you to ", "can you ", "would you please ")


def say_vaguely(rng: random.Random, goal: Sequence[GoalCondition]) -> str:
    """Draw an instruction for a goal with one place; it leaves at least one part of the goal open."""
    moved = [one for one in goal if one.item]
    switched = [one for one in goal if not one.item]
    several = sum(one.count for one in moved) > 1
    parts = ["things"]
    parts += ["number"] if any(one.count > 1 for one in moved) else []
    parts += [] if switched else ["place"]
    left_out = {part for part in parts if rng.random() < 0.5} or {rng.choice(parts)}
    things = _things(rng, moved, left_out)
    place = _somewhere(rng, moved[0], several) if "place" in left_out else _where(moved[0])
    text = f"{rng.choice(_BEFORE)}{rng.choice(_PUT)} {things} {place}{' and turn it on' if switched else ''}"
    return f"{text[:1].upper()}{text[1:]}{'?' if text.startswith(('could', 'can', 'would')) else '.'}"


def _things(rng: random.Random, moved: Sequence[GoalCondition], left_out: set[str]) -> str:
    if "things" in left_out and (len(moved) == 1 or rng.random() < 0.6):
        return _kind(rng, moved)
    kept = list(moved)
    hidden = kept.pop(rng.randrange(len(kept))) if "things" in left_out else None
    phrases = [_phrase(rng, one, open_number="number" in left_out) for one in kept]
    if hidden is not None:
        phrases.append(_kind(rng, [hidden]))
    return listed(phrases)


def _kind(rng: random.Random, moved: Sequence[GoalCondition]) -> str:
    classes = {one.item for one in moved}
    fitting = [kind for kind in _KINDS if classes <= kind[0] or not kind[0]]
    _, one, several = rng.choice(fitting)
    return rng.choice(several if sum(each.count for each in moved) > 1 else one)


def _phrase(rng: random.Random, one: GoalCondition, *, open_number: bool) -> str:
    word = CLASSES[one.item].word
    if one.count == 1:
        return f"{rng.choice(('the', 'one'))} {word}"
    return f"{rng.choice(_SOME) if open_number else one.count} {plural(word)}"


def _where(one: GoalCondition) -> str:
    return f"{'in' if one.relation == 'inside' else 'on'} the {CLASSES[one.target].word}"


def _somewhere(rng: random.Random, one: GoalCondition, several: bool) -> str:
    if one.target.endswith("table") and rng.random() < 0.5:
        return "on the table"
    they, their = ("they", "their") if several else ("it", "its")
    return rng.choice(_SOMEWHERE).format(they=they, their=their, s="" if several else "s")
