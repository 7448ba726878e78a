"""Skills that are said freely: one in a line, in plain letters, so that a policy can tell by which verb it begins."""

from __future__ import annotations

import re
import unicodedata

#: Signs that neither end a skill nor join two.
_SIGNS = frozenset(" '-_()[]#/%°*")
_IN_NUMBERS = re.compile(r"(?<=\d)[.,](?=\d)")
#: Words by which a text asks for several skills, or for one that was said before.
_SEVERAL = re.compile(
    r"(?<![^\s])(?:and|then|but|except|all|everything|every|each|both|it|them|again|g)(?![^\s])", re.I
)


def plain_skill(said: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", said).split())


def more_than_one(said: str) -> str:
    """Say why a skill may be more than one; empty if it is one."""
    if len(said.strip().splitlines()) > 1:
        return "it has several lines"
    plain = plain_skill(said)
    signs = [one for one in _IN_NUMBERS.sub("", plain) if not one.isalnum() and one not in _SIGNS]
    if signs:
        return f"it has '{signs[0]}' in it, which may join two skills"
    word = _SEVERAL.search(plain)
    return f"it says '{word[0]}', which may mean more than one skill" if word else ""
