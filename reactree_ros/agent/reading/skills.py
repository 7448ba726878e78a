"""Which of the available skills was said, in whatever markup."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from reactree_ros.agent.decision import RECALL, Decision
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.reading.nearest import named
from reactree_ros.agent.reading.phrases import Phrase, numbers_left_out, numbers_of, verb_of, without_numbers
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
#: What stands before the place at which something is done.
_WHERE = re.compile(r"\s(?:in|on|into|onto|inside|at|from)\s", re.IGNORECASE)


class Skills:
    """The skills that may be said.

    One is meant where its words, numbers and signs, and no others, are said in its order: capitals, articles, quotes,
    brackets, ``#``, commas, colons and a final full stop do not count.

    Two things are no other skill, either. The number of a thing may be missing if only one such thing is among all that
    may be done now. The place where the robot stands may be said after a skill, as the world does it that says ``You
    put down pie on kitchen table``. A word more, less or other is another skill, which is never guessed.

    A declared skill is meant if it can be read as one, and as one alone. Memory may be asked for a thing, too, that no
    skill names, as a model may miss just that.

    Attributes:
        here: Names of where the robot stands. None: nobody was told; then only a text is taken for a skill that puts
            something down, at a place that the skills name.
        complete: Whether a number may be missing and the place be added; not if skills may be said that are not listed.
    """

    def __init__(
        self,
        available: Sequence[str],
        offers: Sequence[Offer] = (),
        *,
        here: Sequence[str] | None = None,
        complete: bool = True,
    ) -> None:
        self._available, self._offers = available, offers
        self.here, self.complete = here, complete

    @classmethod
    def of(cls, grammar: Grammar) -> Skills:
        """Return those of a grammar."""
        return cls(grammar.skills, grammar.offers, here=grammar.here, complete=not grammar.free)

    def meant(self, said: str) -> str | None:
        """Return the skill that is said; None if there is none, or where it may be more than one."""
        skill = self.marked_up(said)
        if skill is not None or not self.complete or len(said) > _LONGEST or self.take_all_of(said):
            return skill
        places = (where for where in _WHERE.finditer(said) if self._is_here(said[where.end() :], said))
        heads = [said[: where.start()] for where in places]
        found = (self._numbered(said), *map(self._done_here, heads), self._recalled(said))
        return next((skill for skill in found if skill is not None), None)

    def marked_up(self, said: str) -> str | None:
        """Return the skill of which all words are said; None if there is none, or where two differ by markup alone."""
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
            near = named(said, [*self._available, *map(str, self._offers)], NEAREST)
            said = shortened(said)
            raise Unreadable(f"{not_available(said)}{near}", act_of(said))
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

    def take_all_of(self, said: str) -> bool:
        """Whether a line begins as a skill with a text to its end, of which nothing may be left out."""
        return any(words.ends_with_text and words.begins(said) for words in (one.skill.words for one in self._offers))

    def begins_like_one(self, said: str) -> bool:
        """Whether something begins with the verb of an available skill, or one of its kind."""
        verbs = {verb_of(parts[0]) for parts in self._by_words if parts}
        first = words(said[:_LONGEST])[:1]
        return bool(first) and verb_of(first[0]) in verbs

    def named_in(self, text: str) -> str | None:
        """Return a skill of several words that a text names, if there is one."""
        said = _joined(words(without_articles(text)))
        named = (skills[0] for parts, skills in self._by_words.items() if len(parts) > 1 and _joined(parts) in said)
        return next(named, None)

    def may_go_on(self, skill: str, said: str) -> bool:
        """Whether a reply that was cut may have meant another skill: one that begins like it, or with its number."""
        if self.marked_up(said) != skill:
            return True
        longer = any(other != skill and other.startswith(skill) for other in self._available)
        return longer or isinstance(skill, SkillCall)

    @cached_property
    def _by_words(self) -> dict[tuple[str, ...], list[str]]:
        by_words: dict[tuple[str, ...], list[str]] = {}
        for skill in (*self._available, *map(str, self._offers)):
            by_words.setdefault(words(skill), []).append(skill)
        return by_words

    # ------------------------------------------------------------------ a number that is missing

    def _numbered(self, said: str) -> str | None:
        """Return the one skill that is said but for numbers, each of a thing of which there is only one."""
        found = set[str](filter(None, (self.numbered_call(offer, said) for offer in self._offers)))
        for parts in {words(said), words(without_articles(said))}:
            for whole in self._by_bare.get(without_numbers(parts), ()):
                if self._are_single(numbers_left_out(parts, whole)):
                    found.update(skill for skill in self._by_words[whole] if skill in self._available)
        return found.pop() if len(found) == 1 else None

    def numbered_call(self, offer: Offer, said: str | Mapping[str, object]) -> SkillCall | None:
        """Return the declared skill as which words or fields can be read if names may lack their numbers."""
        if not self.complete:
            return None
        short = {place: self._short(names) for place, names in offer.now.items()}
        now = {place: [*names, *short[place]] for place, names in offer.now.items()}
        try:
            values = offer.skill.words.read(said, now)
        except ParameterError:
            return None
        return offer.skill.call({place: short.get(place, {}).get(str(one), one) for place, one in values.items()})

    def _short(self, names: Sequence[str]) -> dict[str, str]:
        """Return names by what they are without a number, where that can be none but them."""
        parts = {name: ("", *words(name)) for name in names}
        numbered = [(thing, name) for name in names for _, thing in numbers_of(parts[name])]
        single = [(thing, name) for thing, name in numbered if self._are_single([thing])]
        return {" ".join(thing): name for thing, name in single if ("", *thing) not in parts.values()}

    def _are_single(self, things: Sequence[tuple[str, ...]]) -> bool:
        """Whether there are things, each of a kind of which skills name one alone."""
        return bool(things) and all(len(self._numbers[thing]) == 1 for thing in things)

    @cached_property
    def _numbers(self) -> dict[tuple[str, ...], set[str]]:
        """The numbers that may be said now, by the words for their things."""
        names = (name for offer in self._offers for name in offer.names)
        numbers: dict[tuple[str, ...], set[str]] = {}
        for parts in (*self._by_words, *(("", *words(name)) for name in names)):
            for at, thing in numbers_of(parts):
                numbers.setdefault(thing, set()).add(parts[at])
        return numbers

    @cached_property
    def _by_bare(self) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
        """The words of all skills, by those without the numbers of things."""
        by_bare: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for parts in self._by_words:
            by_bare.setdefault(without_numbers(parts), []).append(parts)
        return by_bare

    # ------------------------------------------------------------------ a thing that is not there

    def _recalled(self, said: str) -> str | None:
        """Return the question to memory for a thing of which no skill has a word, or one that is nearly the same."""
        parts, asked = words(without_articles(said)), Phrase.of(said).noun
        thing = parts[len(_RECALL) :]
        if parts[: len(_RECALL)] != _RECALL or {*thing} - {"of"} != asked or len(thing) > _LONGEST_THING:
            return None
        if _NO_NAME.search(said) or not any(skill.startswith(RECALL) for skill in self._available):
            return None
        phrases = map(Phrase.of, (*self._available, *map(str, self._offers)))
        known = frozenset[str]().union(*(phrase.noun | phrase.behind for phrase in phrases))
        near = any(difflib.get_close_matches(word, known, 1, _NEAR) for word in asked)
        return None if near or not asked else f"{RECALL}{' '.join(thing)}"

    # ------------------------------------------------------------------ the place where the robot stands

    def _done_here(self, said: str) -> str | None:
        """Return a skill that is done where the robot stands; an end and a question to memory are done nowhere."""
        skill = self.marked_up(said) or self._numbered(said)
        return skill if isinstance(skill, SkillCall) or any(numbers_of(words(skill or ""))) else None

    def _is_here(self, place: str, said: str) -> bool:
        """Whether the robot stands at a place, which may lack its number."""
        parts = words(without_articles(place))
        if self.here is not None:
            return any(parts in (name, without_numbers(("", *name))[1:]) for name in map(words, self.here))
        puts = not self._offers and verb_of(words(said)[0]) == verb_of("put")
        return puts and (parts in self._numbers or not set(parts[-1:]).isdisjoint(self._numbers.get(parts[:-1], ())))


def said_exactly(skill: str, grammar: Grammar, cut: bool) -> str | None:
    """Return the skill that is said in just the words of a grammar; None if there is none, or it may have been cut."""
    skills = Skills.of(grammar)
    meant = skills.exactly(skill)
    return None if meant is None or (cut and skills.may_go_on(meant, skill)) else meant


def act_of(skill: str) -> Decision:
    """Return the decision for a skill."""
    from reactree_ros.agent.kinds.act import Act  # which is read with this module

    return Act(skill)


def _joined(parts: tuple[str, ...]) -> str:
    return " ".join(["", *parts, ""])
