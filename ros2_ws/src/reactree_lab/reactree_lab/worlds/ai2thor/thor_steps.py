"""Steps of a task in AI2-THOR, and the wording of subgoals that the expert gives to its child nodes.

Things and places have the simulator's class names, several if the instruction's word may mean any of them: ``find and
pick up Cup or Mug``. This module both writes and reads the words, which never contain a comma.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

#: Treatments of a thing before it is put somewhere.
TREATMENTS = ("clean", "heat", "cool")
KNIVES = ("Knife", "ButterKnife")


@dataclass(frozen=True)
class Step:
    verb: str  # ``take``, ``slice``, ``clean``, ``heat``, ``cool``, ``place`` or ``turn on``
    thing: tuple[str, ...]  # possible classes of the thing
    place: tuple[str, ...] = ()  # for ``place``, its destination; for ``take``, a place not to take it from
    near: tuple[str, ...] = ()  # for ``place``, what the destination stands near

    def __str__(self) -> str:
        thing, place, near = (" or ".join(classes) for classes in (self.thing, self.place, self.near))
        if self.verb == "take":
            return f"find and pick up {thing}{f' away from {place}' if place else ''}"
        if self.verb == "turn on":
            return f"find and turn on {thing}"
        if self.verb == "place":
            return f"place {thing} in {place}{f' near {near}' if near else ''}"
        return f"{self.verb} and pick up {thing}"


_CLASSES = r"([A-Z]\w*(?: or [A-Z]\w*)*)"
_FORMS = (
    (re.compile(rf"find and pick up {_CLASSES}(?: away from {_CLASSES})?"), "take"),
    (re.compile(rf"find and turn on {_CLASSES}"), "turn on"),
    (re.compile(rf"place {_CLASSES} in {_CLASSES}(?: near {_CLASSES})?"), "place"),
    *((re.compile(rf"{verb} and pick up {_CLASSES}"), verb) for verb in (*TREATMENTS, "slice")),
)


@lru_cache(maxsize=256)
def read_step(text: str) -> Step | None:
    """Read a step in this module's words; None for other words."""
    for form, verb in _FORMS:
        if match := form.fullmatch(text):
            classes = [tuple(group.split(" or ")) if group else () for group in match.groups()]
            return Step(verb, *classes)
    return None
