"""What a detector that takes names is asked for: the things that a goal names, also such as no map has heard of."""

from __future__ import annotations

import re
from collections.abc import Iterable

from reactree_ros.agent.words import names, words

#: The most names of one prompt, and of a name the most words.
MOST, _MOST_WORDS = 100, 4
_BEFORE = words(
    "a an the my your his her its our their this that these those some any all both every each another of one two "
    "three four five six seven eight nine ten"
)
_BETWEEN = words(
    "i me you he she it we they him them us who which what where when if so as than not no yes please then and or but "
    "to from in into on onto at by with without for near next under over behind before after between up down off out "
    "back is are was were be been has have had do does did can could will would should may must there here again now "
    "thing things something anything everything everyone someone nobody"
)
_PARTS = re.compile(r"[^\W\d_][\w'-]*|\d+|[^\w\s]")


def named_in(goal: str, known: Iterable[str] = ()) -> list[str]:
    """Return what a goal names, as it stands there: what follows an article, a number or the like.

    Without any of these, every run of words is one but for the verb at the start. What the map has as a room, a place
    or a person is none.

    Args:
        known: The names of rooms, places and persons.
    """
    for name in sorted(known, key=len, reverse=True):
        if names(goal, name):
            goal = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", " , ", goal, flags=re.IGNORECASE)
    runs: list[tuple[bool, list[str]]] = [(False, [])]
    for number, part in enumerate(_PARTS.findall(goal)):
        word = part.casefold()
        if word in _BEFORE or part.isdigit():
            runs.append((True, []))
        elif word in _BETWEEN or not part[0].isalpha():
            runs.append((False, []))
        elif number:  # the first word is what is to be done
            runs[-1][1].append(part)
    found = [(follows, " ".join(run[:_MOST_WORDS])) for follows, run in runs if run]
    named = [run for follows, run in found if follows] or [run for _, run in found]
    return list(dict.fromkeys(named))[:MOST]
