"""Texts as models and servers give them."""

from __future__ import annotations

import string
from collections.abc import Collection

#: Longest text with place-holders that a file may bring, in characters.
LONGEST_TEMPLATE = 2000
#: The longest text of one reply, observation or turn, in characters: some 8,000 tokens.
LONGEST = 32_768
#: The longest turn that is made of several, such as what is to be summarised.
LONGEST_TOLD = 8 * LONGEST
#: The longest that an engine's text is read at all, with what a model thought before it answered.
LONGEST_GENERATED = 64 * LONGEST
#: The longest that is told of an error.
LONGEST_ERROR = 2000
#: Largest number that a sentence may mean; things, steps and subgoals are fewer.
MOST_SAID = 9999
_KEPT = "\n\t"
#: Characters that would reverse the text around them; shown as their numbers.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def bounded(text: str, most: int) -> str:
    """Return a text of at most so many characters: of a longer one the beginning, how much is left out, and the end."""
    if len(text) <= most:
        return text
    kept = most - 50
    head, tail = kept - kept // 3, kept // 3
    return f"{text[:head]} … ({len(text) - kept} characters are left out) … {text[-tail:]}"


def shortened_line(text: str, most: int) -> str:
    line = " ".join(text[: 8 * most].split())
    return line if len(line) <= most and len(text) <= 8 * most else f"{line[: most - 1]}…"


def check_template(template: str, known: Collection[str]) -> str:
    """Return a text that a file brought if it holds no other place-holders. Raises ValueError.

    Python's own can reach into what is put in (``{word.__class__}``), and make it wide (``{word:>999999999}``).
    """
    if not isinstance(template, str):  # of a file, if it may be anything
        raise ValueError(f"{str(template)[:80]!r} is no text with place-holders")
    named = " and ".join(f"{{{name}}}" for name in known) or "none"
    try:
        parts = list(string.Formatter().parse(template[: LONGEST_TEMPLATE + 1]))
    except ValueError as error:
        raise ValueError(f"{template[:80]!r} is no text with place-holders: {error}") from None
    if len(template) > LONGEST_TEMPLATE:
        raise ValueError(f"{template[:80]!r}… is longer than {LONGEST_TEMPLATE} characters")
    for _, name, spec, conversion in parts:
        if name is not None and (name not in known or spec or conversion):
            raise ValueError(f"{template[:80]!r} has another place-holder than {named}")
    return template


def visible(text: str) -> str:
    """Return a text in which control characters are visible characters."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def in_one_line(text: str) -> str:
    return " ".join(visible(text).split())


def _shown(character: str) -> str:
    number = ord(character)
    if character in _KEPT:
        return character
    if number < 0x20:
        return chr(0x2400 + number)
    if number == 0x7F:
        return "\u2421"
    if character in _TURNING or 0x80 <= number < 0xA0:
        return f"<{number:04X}>"
    return "\ufffd" if 0xD800 <= number <= 0xDFFF or number in (0xFFFE, 0xFFFF) else character


def number_of(text: str, *, most: int = 2**53 - 1) -> int | None:
    """Read a whole number, 0 or more; None if it is not one, or larger than `most`."""
    if not text.isascii() or not text.isdecimal() or len(text.lstrip("0")) > len(str(most)):
        return None
    number = int(text.lstrip("0") or "0")
    return number if number <= most else None


def said_number(word: str) -> int | None:
    return number_of(word, most=MOST_SAID)
