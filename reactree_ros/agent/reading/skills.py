"""Which of the available skills was said, in whatever markup."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from reactree_ros.agent.decision import RECALL, Decision
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.reading.labels import PICTURE
from reactree_ros.agent.reading.nearest import Phrase, named, verb_of
from reactree_ros.agent.reading.refusal import Unreadable, not_available, shortened
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.words import without_articles, words

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar

#: How many of the nearest skills a refusal names at most.
NEAREST = 5
#: The longest text that can be a skill with some markup, in characters.
_LONGEST = 500
#: The words of a question to memory before the thing, and the most words for that.
_RECALL, _LONGEST_THING = words(RECALL), 4
#: How near a word is to another of which it may be the plural or misspelt.
_NEAR = 0.8
#: What stands in no name of a thing: marks of a placeholder, or between several.
_NO_NAME = re.compile(r"[\[\]<>{},;:/&]")
_PICTURES = re.compile(PICTURE)


class Skills:
    """The skills that may be said.

    One is meant where its words, numbers and signs, and no others, are said in its order: capitals, articles, quotes,
    brackets, ``#``, commas, colons and a final full stop do not count. A word more, less or other is another skill,
    which is never guessed. A declared skill is meant if it can be read as one, and as one alone. Memory may be asked
    for a thing, too, that no skill names, as a model may miss just that.
    """

    def __init__(self, available: Sequence[str], offers: Sequence[Offer] = (), *, free: bool = False) -> None:
        self._available, self._offers, self._free = available, offers, free

    @classmethod
    def of(cls, grammar: Grammar) -> Skills:
        return cls(grammar.skills, grammar.offers, free=grammar.free)

    def meant(self, said: str) -> str | None:
        said = said.strip()
        if said in self._available:
            return said
        if called := self._called(said):
            return called[0] if len(called) == 1 else None
        if len(said) > _LONGEST:
            return None
        said = _PICTURES.sub("", said)
        for text in (said, without_articles(said)):
            found = [skill for skill in self._by_words.get(words(text), ()) if skill in self._available]
            if found:
                return found[0] if len(found) == 1 else None
        return self._recalled(said)

    def exactly(self, said: str) -> str | None:
        called = [] if said in self._available else [call for call in self._called(said) if call == said]
        return said if said in self._available else called[0] if len(called) == 1 else None

    def find(self, said: str) -> str:
        skill = self.meant(said)
        if skill is None:
            self._refuse(said)
            near = named(said, [*self._available, *map(str, self._offers)], NEAREST)
            said = shortened(said)
            raise Unreadable(f"{not_available(said)}{near}", act_of(said))
        return skill

    def _called(self, said: str) -> list[SkillCall]:
        called = []
        for offer in self._offers:
            with suppress(ParameterError):
                called.append(offer.read(said))
        return called

    def _refuse(self, said: str) -> None:
        for offer in sorted(self._offers, key=lambda one: len(one.skill.verb), reverse=True):
            if offer.skill.words.begins(said):
                try:
                    offer.read(said)
                except ParameterError as error:
                    raise Unreadable(
                        f"'{shortened(said)}' cannot be done now: {error}.", act_of(shortened(said))
                    ) from None

    def begins_like_one(self, said: str) -> bool:
        verbs = {verb_of(parts[0]) for parts in self._by_words if parts}
        first = words(said[:_LONGEST])[:1]
        return bool(first) and verb_of(first[0]) in verbs

    def may_go_on(self, skill: str, said: str) -> bool:
        if self.meant(said) != skill:
            return True
        longer = any(other != skill and other.startswith(skill) for other in self._available)
        return longer or isinstance(skill, SkillCall)

    def _recalled(self, said: str) -> str | None:
        parts = words(without_articles(said))
        thing = parts[len(_RECALL) :]
        if (
            self._free
            or parts[: len(_RECALL)] != _RECALL
            or not 1 <= len(thing) <= _LONGEST_THING
            or _NO_NAME.search(said)
        ):
            return None
        if not any(skill.startswith(RECALL) for skill in self._available):
            return None
        phrases = map(Phrase.of, (*self._available, *map(str, self._offers)))
        known = frozenset[str]().union(*(phrase.noun | phrase.behind for phrase in phrases))
        asked = Phrase.of(said).noun
        near = any(difflib.get_close_matches(word, known, 1, _NEAR) for word in asked)
        return None if near or not asked or {*thing} - {"of"} != asked else f"{RECALL}{' '.join(thing)}"

    @cached_property
    def _by_words(self) -> dict[tuple[str, ...], list[str]]:
        by_words: dict[tuple[str, ...], list[str]] = {}
        for skill in (*self._available, *map(str, self._offers)):
            by_words.setdefault(words(skill), []).append(skill)
        return by_words


def said_exactly(skill: str, grammar: Grammar, cut: bool) -> str | None:
    skills = Skills.of(grammar)
    meant = skills.exactly(skill)
    return None if meant is None or (cut and skills.may_go_on(meant, skill)) else meant


def act_of(skill: str) -> Decision:
    from reactree_ros.agent.kinds.act import Act  # which is read with this module

    return Act(skill)
