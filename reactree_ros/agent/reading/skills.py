"""Which of the available skills was said, in whatever markup."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from reactree_ros.agent.decision import Decision
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.reading.refusal import Unreadable, not_available, shortened
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.words import without_articles, words

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar

#: How many of the nearest skills a refusal names at most.
NEAREST = 5
#: The longest text that can be a skill with some markup, in characters.
_LONGEST = 500
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
_SMALL = frozenset({"up", "down", "on", "off", "in", "into", "to", "at", "of", "from", "with", "location", "the"})


class Skills:
    """The skills that may be said.

    One is meant where its words, numbers and signs, and no others, are said in its order: capitals, articles, quotes,
    brackets, ``#``, commas, colons and a final full stop do not count. A word more, less or other is another skill,
    which is never guessed.

    A declared skill is meant if it can be read as one, and as one alone.
    """

    def __init__(self, available: Sequence[str], offers: Sequence[Offer] = ()) -> None:
        self._available, self._offers = available, offers

    @classmethod
    def of(cls, grammar: Grammar) -> Skills:
        """Return those of a grammar."""
        return cls(grammar.skills, grammar.offers)

    def meant(self, said: str) -> str | None:
        """Return the skill that is said; None if there is none, or if two differ by markup alone."""
        said = said.strip()
        if said in self._available:
            return said
        if called := self._called(said):
            return called[0] if len(called) == 1 else None
        if len(said) > _LONGEST:
            return None
        for text in (said, without_articles(said)):
            found = [skill for skill in self._by_words.get(words(text), ()) if skill in self._available]
            if found:
                return found[0] if len(found) == 1 else None
        return None

    def exactly(self, said: str) -> str | None:
        """Return the skill that is said in just its own words; None if there is none."""
        called = [] if said in self._available else [call for call in self._called(said) if call == said]
        return said if said in self._available else called[0] if len(called) == 1 else None

    def find(self, said: str) -> str:
        """Return the skill that is said; a refusal names the nearest."""
        skill = self.meant(said)
        if skill is None:
            self._refuse(said)
            near = ", ".join(" ".join(skill.split()) for skill in self.nearest(said))
            names = f" The nearest that are: {near}." if near else ""
            said = shortened(said)
            raise Unreadable(f"{not_available(said)}{names}", act_of(said))
        return skill

    def _called(self, said: str) -> list[SkillCall]:
        """Return the declared skills that a text can be read as."""
        called = []
        for offer in self._offers:
            with suppress(ParameterError):
                called.append(offer.read(said))
        return called

    def _refuse(self, said: str) -> None:
        """Refuse a declared skill of which the first words are said, and say what is wrong with it."""
        for offer in sorted(self._offers, key=lambda one: len(one.skill.verb), reverse=True):
            if offer.skill.words.begins(said):
                try:
                    offer.read(said)
                except ParameterError as error:
                    raise Unreadable(
                        f"'{shortened(said)}' cannot be done now: {error}.", act_of(shortened(said))
                    ) from None

    def nearest(self, said: str) -> list[str]:
        """Return the available skills that are nearest to what was said, at most five, the nearest first.

        A word for a thing weighs most, then the verb or one of its kind, then numbers.
        """
        asked = [_FIRST_OF.get(word, word) for word in words(said[:_LONGEST])]
        scores = []
        for parts, skills in self._by_words.items():
            named = [_FIRST_OF.get(word, word) for word in parts]
            shared = set(asked).intersection(named)
            if any(word[0].isalpha() and word not in _SMALL for word in shared):
                alike = difflib.SequenceMatcher(None, " ".join(asked), " ".join(named)).ratio()
                scores += [((sum(map(_weight, shared)), alike), skill) for skill in skills]
        best = sorted(scores, key=lambda scored: scored[0], reverse=True)
        return [skill for _, skill in best[:NEAREST]]

    def begins_like_one(self, said: str) -> bool:
        """Whether something begins with the verb of an available skill, or one of its kind."""
        verbs = {_FIRST_OF.get(parts[0], parts[0]) for parts in self._by_words if parts}
        first = words(said[:_LONGEST])[:1]
        return bool(first) and _FIRST_OF.get(first[0], first[0]) in verbs

    def named_in(self, text: str) -> str | None:
        """Return a skill of several words that a text names, if there is one."""
        said = _joined(words(without_articles(text)))
        named = (skills[0] for parts, skills in self._by_words.items() if len(parts) > 1 and _joined(parts) in said)
        return next(named, None)

    def may_go_on(self, skill: str) -> bool:
        """Whether another skill begins with this one, so that a reply that was cut may have meant that."""
        longer = any(other != skill and other.startswith(skill) for other in self._available)
        return longer or isinstance(skill, SkillCall)

    @cached_property
    def _by_words(self) -> dict[tuple[str, ...], list[str]]:
        by_words: dict[tuple[str, ...], list[str]] = {}
        for skill in (*self._available, *map(str, self._offers)):
            by_words.setdefault(words(skill), []).append(skill)
        return by_words


def said_exactly(skill: str, grammar: Grammar, cut: bool) -> str | None:
    """Return the skill that is said in just the words of a grammar; None if there is none, or it may have been cut."""
    skills = Skills.of(grammar)
    meant = skills.exactly(skill)
    return None if meant is None or (cut and skills.may_go_on(meant)) else meant


def act_of(skill: str) -> Decision:
    """Return the decision for a skill."""
    from reactree_ros.agent.kinds.act import Act  # which is read with this module

    return Act(skill)


def _joined(parts: tuple[str, ...]) -> str:
    return " ".join(["", *parts, ""])


def _weight(word: str) -> int:
    if not word[0].isalpha() or word in _SMALL:
        return 1
    return 2 if word in _FIRST_OF else 4
