"""The parts of a skill that is said: its verb, the things that have a number, and what stands behind on, in or from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reactree_ros.agent.words import without_articles, words

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
    """Return a verb, or the one that stands for all of its kind."""
    return _FIRST_OF.get(word, word)


@dataclass(frozen=True)
class Phrase:
    """A skill in its parts.

    Attributes:
        verb: Its first word, or the one that stands for all verbs of its kind.
        noun: The words after it.
        numbers: The numbers after those.
        behind: What stands behind on, in, from and the like.
    """

    verb: str
    noun: frozenset[str]
    numbers: frozenset[str]
    behind: frozenset[str]

    @classmethod
    def of(cls, text: str) -> Phrase:
        """Take a text apart."""
        verb, *rest = words(without_articles(text)) or ("",)
        begin = next((at for at, word in enumerate(rest) if word not in _SMALL), len(rest))
        end = next((at for at, word in enumerate(rest) if at > begin and word in _BEHIND), len(rest))
        thing = frozenset(rest[begin:end]) - _SMALL
        numbers = frozenset(word for word in thing if not word[0].isalpha())
        return cls(verb_of(verb), thing - numbers, numbers, frozenset(rest[end:]) - _SMALL)


def numbers_of(parts: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield where the number of a thing stands in the words of a skill, with the words for the thing.

    It is the number after a word, if nothing but a small word follows: neither ``2`` in ``room 2B`` nor ``5`` in
    ``wait 5 s``.
    """
    begin = 1
    for at, word in enumerate(parts):
        if word in _SMALL:
            begin = at + 1
        elif not word.isalpha():
            ends = at + 1 == len(parts) or parts[at + 1] in _SMALL
            if word.isdecimal() and ends and begin < at:
                yield at, tuple(parts[begin:at])
            begin = at + 1


def without_numbers(parts: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a skill without the numbers of its things."""
    numbers = {at for at, _ in numbers_of(parts)}
    return tuple(word for at, word in enumerate(parts) if at not in numbers)


def numbers_left_out(said: Sequence[str], whole: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the things whose numbers are all that words lack of those of a skill; none if they differ otherwise."""
    numbers, left_out, at = dict(numbers_of(whole)), list[tuple[str, ...]](), 0
    for place, word in enumerate(whole):
        if at < len(said) and said[at] == word:
            at += 1
        elif place in numbers:
            left_out.append(numbers[place])
        else:
            return []
    return left_out if at == len(said) else []
