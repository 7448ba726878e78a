"""Texts as models and servers give them."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """Return a text that every file and every message takes: a server may cut an emoji in half.

    Half a character (a lone surrogate) becomes a question mark.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def shortened_line(text: str, most: int) -> str:
    """Write a text on one line, cut where it is longer than so many characters."""
    line = " ".join(text[: 8 * most].split())
    return line if len(line) <= most and len(text) <= 8 * most else f"{line[: most - 1]}…"
