"""Words of models and worlds, made fit to be shown: nothing in them is taken for more than a character."""

from __future__ import annotations

_KEPT = "\n\t"
#: What would turn the text around it; it is shown as its number.
_TURNING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def visible(text: str) -> str:
    """Return a text in which what a terminal or a browser obeys is a character to look at."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def in_one_line(text: str) -> str:
    """Return a text that can be shown, in one line."""
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
