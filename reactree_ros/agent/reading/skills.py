"""Which of the available skills was said, in whatever markup; and those that are nearest to one that is not there."""

from __future__ import annotations

import difflib
import heapq
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from reactree_ros.agent.decision import ASKS_MEMORY, DONE, FAILURE, RECALL, Decision, kinds
from reactree_ros.agent.labels import PICTURE, not_available, shortened
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import Offer, SkillCall
from reactree_ros.agent.text import without_articles, words
from reactree_ros.agent.turns import Unreadable

if TYPE_CHECKING:
    from reactree_ros.agent.grammar import Grammar

#: How many of the nearest skills a refusal names at most, and how many are compared letter by letter.
NEAREST, _COMPARED = 5, 200
#: The longest text that can be a skill with some markup, in characters.
_LONGEST = 500
_RECALL = words(RECALL)
#: The most words of a thing that memory is asked for, and how near one is to another that may be its plural.
_LONGEST_THING, _NEAR = 4, 0.8
#: What stands in no name of a thing: marks of a placeholder, or between several.
_NO_NAME = re.compile(r"[\[\]<>{},;:/&]")
_PICTURES = re.compile(PICTURE)
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


class Skills:
    """The skills that may be said.

    One is meant where its words, numbers and signs, and no others, are said in its order: capitals, articles, quotes,
    brackets, ``#``, commas, colons and a final full stop do not count. A word more, less or other is another skill,
    which is never guessed. A declared skill is meant if it can be read as one, and as one alone. Memory may be asked
    for a thing, too, that no skill names, as a model may miss just that.
    """

    def __init__(self, available: Sequence[str], offers: Sequence[Offer] = (), *, free: bool = False) -> None:
        self._available, self._offers, self._free = available, offers, free

    def meant(self, said: str) -> str | None:
        """Return the skill of which all words are said; None if there is none, or where two differ by markup alone."""
        said = said.strip()
        if said in self._available:
            return said
        if called := self._calls(said):
            return called[0] if len(called) == 1 else None
        if len(said) > _LONGEST:
            return None
        said = _PICTURES.sub("", said)
        for text in (said, without_articles(said)):
            if found := self._by_words.get(words(text), []):
                return found[0] if len(found) == 1 else None
        return self._recalled(said)

    def exactly(self, said: str) -> str | None:
        """Return the skill that is said in just its own words; None if there is none."""
        if said in self._available:
            return said
        called = [call for call in self._calls(said) if call == said]
        return called[0] if len(called) == 1 else None

    def find(self, said: str) -> str:
        """Return the skill that is said; a refusal names the nearest."""
        if (skill := self.meant(said)) is not None:
            return skill
        asked = shortened(said)
        for offer in sorted(self._offers, key=lambda one: len(one.skill.verb), reverse=True):
            if offer.skill.words.begins(said):
                try:
                    offer.read(said)
                except ParameterError as error:
                    raise Unreadable(f"'{asked}' cannot be done now: {error}.", act_of(asked)) from None
        raise Unreadable(f"{not_available(asked)}{_near(said[:_LONGEST], self._all)}", act_of(asked))

    def call(self, named: Sequence[Offer], arguments: Any) -> SkillCall:
        """Return the call of the one skill, of some with one name, that the arguments fit; refused if they fit none."""
        reasons = []
        for offer in named:
            try:
                return offer.read(_by_parameter(offer, arguments))
            except ParameterError as error:
                reasons.append(str(error))
        verb = named[0].skill.verb
        raise Unreadable(f"'{verb}' cannot be done now: {reasons[0]}.", act_of(verb))

    def named(self, name: str) -> list[Offer]:
        """Return the declared skills that a name is the name of."""
        return [offer for offer in self._offers if offer.is_called(name)]

    def begins_like_one(self, said: str) -> bool:
        """Whether something begins with the verb of an available skill, or one of its kind."""
        first = words(said[:_LONGEST])[:1]
        return bool(first) and _kind_of(first[0]) in {_Phrase.parse(skill).verb for skill in self._all}

    def may_go_on(self, skill: str, said: str) -> bool:
        """Whether a reply that was cut may have meant another skill: one that begins like it, or with its number."""
        if isinstance(skill, SkillCall) or self.meant(said) != skill:
            return True
        return any(other != skill and other.startswith(skill) for other in self._available)

    def _calls(self, said: str) -> list[SkillCall]:
        called = []
        for offer in self._offers:
            if offer.skill.words.begins(said):  # which is quick to see
                with suppress(ParameterError):
                    called.append(offer.read(said))
        return called

    def _recalled(self, said: str) -> str | None:
        """Return the question to memory for a thing of which no skill has a word, or one that is nearly the same."""
        parts = words(without_articles(said))
        thing, asked = parts[len(_RECALL) :], _Phrase.parse(said).noun
        is_one = parts[: len(_RECALL)] == _RECALL and len(thing) <= _LONGEST_THING and not _NO_NAME.search(said)
        if self._free or not is_one or not asked or {*thing} - {"of"} != asked:
            return None
        if not any(skill.startswith(RECALL) for skill in self._available):
            return None
        known = {word for skill in self._all for part in _Phrase.parse(skill)[1::2] for word in part}
        near = any(difflib.get_close_matches(word, known, 1, _NEAR) for word in asked)
        return None if near else f"{RECALL}{' '.join(thing)}"

    @property
    def _all(self) -> list[str]:
        return [*self._available, *map(str, self._offers)]

    @cached_property
    def _by_words(self) -> Mapping[tuple[str, ...], list[str]]:
        by_words: dict[tuple[str, ...], list[str]] = {}
        for skill in self._available:
            by_words.setdefault(words(skill), []).append(skill)
        return by_words


def said_exactly(skill: str, grammar: Grammar, cut: bool) -> str | None:
    """Return the skill that is said in just the words of a grammar; None if there is none, or it may have been cut."""
    skills = Skills(grammar.skills, grammar.offers, free=grammar.free)
    meant = skills.exactly(skill)
    return None if meant is None or (cut and skills.may_go_on(meant, skill)) else meant


def act_of(skill: str) -> Decision:
    act: Any = kinds()["act"]  # which is read with this module
    decision: Decision = act(skill)
    return decision


def _by_parameter(offer: Offer, arguments: Any) -> Mapping[str, Any]:
    """Return arguments by parameter; a value alone is that of the only one."""
    if isinstance(arguments, Mapping):
        return arguments
    names = list(offer.skill.parameters)
    if len(names) == 1:
        return {names[0]: arguments}
    if arguments in (None, "", []):
        return {}
    raise ParameterError(f"{shortened(str(arguments), 40)} has no names; say {', '.join(names) or 'nothing'} by name")


class _Phrase(NamedTuple):
    """A skill in its parts: verb, words after it, the numbers of those, and what stands behind on, in and the like."""

    verb: str
    noun: frozenset[str]
    numbers: frozenset[str]
    behind: frozenset[str]

    @classmethod
    def parse(cls, text: str) -> _Phrase:
        verb, *rest = words(without_articles(text)) or ("",)
        begin = next((at for at, word in enumerate(rest) if word not in _SMALL), len(rest))
        end = next((at for at, word in enumerate(rest) if at > begin and word in _BEHIND), len(rest))
        thing = frozenset(rest[begin:end]) - _SMALL
        numbers = frozenset(word for word in thing if not word[0].isalpha())
        return cls(_kind_of(verb), thing - numbers, numbers, frozenset(rest[end:]) - _SMALL)

    def likeness(self, other: _Phrase) -> tuple[float, int, int]:
        """The verb weighs most, unless a thing is named with its number; then words, numbers, what stands behind."""
        noun = len(self.noun & other.noun) / max(1, len(self.noun | other.noun))
        same = len(self.numbers & other.numbers) if noun else 0
        thing = 2 if noun == 1 and same else 0
        behind = len(self.behind & (other.noun | other.behind))
        return 6 * (self.verb == other.verb != "") + 5 * noun + thing, same, behind


def _kind_of(verb: str) -> str:
    return _FIRST_OF.get(verb, verb)


def _near(said: str, skills: Sequence[str]) -> str:
    """Name the skills that are nearest to what was said; where none is near, a few of as many verbs as there are."""
    asked = _Phrase.parse(said)
    scored = [(score, skill) for skill in skills if any(score := asked.likeness(_Phrase.parse(skill)))]
    if best := heapq.nlargest(_COMPARED, scored, key=lambda one: one[0]):
        alike = difflib.SequenceMatcher(None, said.casefold())
        best.sort(key=lambda one: (*one[0], _ratio(alike, one[1])), reverse=True)
        return f" The nearest that are: {_listed([skill for _, skill in best])}."
    others = [skill for skill in skills if skill not in (DONE, FAILURE) and not skill.startswith(ASKS_MEMORY)]
    of_verbs: dict[str, str] = {}
    for skill in others or skills:
        of_verbs.setdefault(_Phrase.parse(skill).verb, skill)
    some = dict.fromkeys([*of_verbs.values(), *others])
    return f" Some that are: {_listed([*some])}." if some else ""


def _ratio(alike: difflib.SequenceMatcher[str], skill: str) -> float:
    alike.set_seq2(skill)
    return alike.ratio()


def _listed(skills: Sequence[str]) -> str:
    return ", ".join(" ".join(skill.split()) for skill in skills[:NEAREST])
