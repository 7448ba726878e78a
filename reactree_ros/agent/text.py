"""Texts as models and servers give them."""

from __future__ import annotations


def well_formed(text: str) -> str:
    """Return a text that every file and every message takes: a server may cut an emoji in half.

    Half a character (a lone surrogate) becomes a question mark.
    """
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
