"""Other names of things in a house: a house may call its pancakes waffles.

Its tasks, its observations and its skills then say waffle, so that the name has to be taken from the instruction.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from reactree_ros.household.vocabulary import CLASSES


class Naming:
    """Translates texts between the vocabulary's words and the names in a house.

    Args:
        names: The names, by class; other classes have their own word.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        words = {known.word: names.get(name, known.word) for name, known in CLASSES.items()}
        self._to_names = _Table(words) if names else None
        self._to_words = _Table({name: word for word, name in words.items()}) if names else None

    def with_names(self, text: str) -> str:
        """Return a text of the vocabulary's words with the house's names."""
        return self._to_names.applied_to(text) if self._to_names else text

    def with_words(self, text: str) -> str:
        """Return a text of the house's names with the vocabulary's words."""
        return self._to_words.applied_to(text) if self._to_words else text


class _Table:
    """Replaces whole words, the longest first: ``wine glass`` is not about ``wine``."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words
        any_of = "|".join(sorted(map(re.escape, words), key=len, reverse=True))
        self._pattern = re.compile(rf"\b(?:{any_of})\b")

    def applied_to(self, text: str) -> str:
        return self._pattern.sub(lambda match: self._words[match[0]], text)
