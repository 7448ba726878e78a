"""What of that which may be done is nearest to something that may not, for refusals."""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from reactree_ros.agent.decision import ASKS_MEMORY, DONE, FAILURE
from reactree_ros.agent.words import without_articles, words

#: How many of them are compared letter by letter, and how much of what was said.
_COMPARED, _LONGEST = 200, 500
#: Verbs that are near to each other; only the order of what a refusal names is up to them.
_ALIKE = (
    ("pick", "grab", "take", "get", "fetch", "grasp", "collect", "lift", "hold"),
    ("put", "place", "drop", "set", "leave", "release", "store"),
    ("go", "walk", "move", "navigate", "head", "approach", "enter", "travel", "goto"),
    ("turn", "switch", "activate", "toggle", "start"),
    ("close", "shut"),
    ("open", "unlock"),
    ("recall", "remember", "find", "locate", "search"),
)
_FIRST_OF = {verb: verbs[0] for verbs in _ALIKE for verb in verbs}
_BEHIND = frozenset({"on", "in", "into", "onto", "inside", "at", "from", "to", "with", "by", "for", "under", "next"})
_SMALL = _BEHIND | {"up", "down", "off", "of", "the", "a", "an", "and", "location"}


def verb_of(word: str) -> str:
    return _FIRST_OF.get(word, word)


@dataclass(frozen=True)
class Phrase:
    """A skill in its parts."""

    verb: str  # its first word, or the one that stands for all verbs of its kind
    noun: frozenset[str]  # the words after it
    numbers: frozenset[str]  # the numbers after those
    behind: frozenset[str]  # what stands behind on, in, from and the like

    @classmethod
    def of(cls, text: str) -> Phrase:
        verb, *rest = words(without_articles(text)) or ("",)
        begin = next((at for at, word in enumerate(rest) if word not in _SMALL), len(rest))
        end = next((at for at, word in enumerate(rest) if at > begin and word in _BEHIND), len(rest))
        thing = frozenset(rest[begin:end]) - _SMALL
        numbers = frozenset(word for word in thing if not word[0].isalpha())
        return cls(verb_of(verb), thing - numbers, numbers, frozenset(rest[end:]) - _SMALL)


def named(said: str, skills: Sequence[str], most: int) -> str:
    if near := nearest(said[:_LONGEST], skills, most):
        return f" The nearest that are: {_listed(near)}."
    some = a_few(skills, most)
    return f" Some that are: {_listed(some)}." if some else ""


def nearest(said: str, skills: Sequence[str], most: int) -> list[str]:
    asked = Phrase.of(said)
    scored = [(score, skill) for skill in skills if any(score := _score(asked, Phrase.of(skill)))]
    best = heapq.nlargest(_COMPARED, scored, key=lambda one: one[0])
    best.sort(key=lambda one: (*one[0], difflib.SequenceMatcher(None, said.casefold(), one[1]).ratio()), reverse=True)
    return [skill for _, skill in best[:most]]


def a_few(skills: Sequence[str], most: int) -> list[str]:
    others = [skill for skill in skills if skill not in (DONE, FAILURE) and not skill.startswith(ASKS_MEMORY)]
    of_verbs: dict[str, str] = {}
    for skill in others or skills:
        of_verbs.setdefault(Phrase.of(skill).verb, skill)
    return [*dict.fromkeys([*of_verbs.values(), *others])][:most]


def _score(asked: Phrase, skill: Phrase) -> tuple[float, int, int]:
    noun = len(asked.noun & skill.noun) / max(1, len(asked.noun | skill.noun))
    same = len(asked.numbers & skill.numbers) if noun else 0
    thing = 2 if noun == 1 and same else 0
    behind = len(asked.behind & (skill.noun | skill.behind))
    return 6 * (asked.verb == skill.verb != "") + 5 * noun + thing, same, behind


def _listed(skills: Sequence[str]) -> str:
    return ", ".join(" ".join(skill.split()) for skill in skills)
