"""The parts of a skill that is said: its verb, the things that have a number, and what stands behind on, in or from."""

from __future__ import annotations

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
