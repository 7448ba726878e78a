"""Texts as models and servers give them."""

from __future__ import annotations

#: The longest text of one reply, observation or turn, in characters: some 8,000 tokens.
LONGEST = 32_768
#: The longest turn that is made of several, such as what is to be summarised.
LONGEST_TOLD = 8 * LONGEST
#: The longest that an engine's text is read at all, with what a model thought before it answered.
LONGEST_GENERATED = 64 * LONGEST
#: The longest that is told of an error.
LONGEST_ERROR = 2000


def bounded(text: str, most: int) -> str:
    """Return a text of at most so many characters: of a longer one the beginning, how much is left out, and the end."""
    if len(text) <= most:
        return text
    kept = most - 50
    head, tail = kept - kept // 3, kept // 3
    return f"{text[:head]} … ({len(text) - kept} characters are left out) … {text[-tail:]}"


def well_formed(text: str) -> str:
    """Return a text that every file and every message takes: a server may cut an emoji in half.

    Half a character (a lone surrogate) becomes a question mark.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def shortened_line(text: str, most: int) -> str:
    """Write a text on one line, cut where it is longer than so many characters."""
    line = " ".join(text[: 8 * most].split())
    return line if len(line) <= most and len(text) <= 8 * most else f"{line[: most - 1]}…"
