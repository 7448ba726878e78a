"""The words by which the expert reads instructions and searches houses; ``words.json`` has them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from reactree_ros.household.lexicon import word_set

TABLES: dict[str, Any] = json.loads(Path(__file__).with_name("words.json").read_text(encoding="utf-8"))
#: Sets of words. ``harmless`` ones say nothing of their own; ``stated`` ones do so after "make sure that";
#: ``switches`` belong to a switch; ``assumed`` ones are taken to be so of any thing.
WORDS: dict[str, frozenset[str]] = {name: word_set(words) for name, words in TABLES["sets"].items()}
NUMBERS: dict[str, int] = TABLES["numbers"]
#: Runs of words, joined by spaces, that say nothing of their own.
PHRASES = re.compile(rf"\b(?:{'|'.join(TABLES['phrases'])})(?!\S)")
