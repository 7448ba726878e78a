"""Test doubles: an embedder without a model, and experiences made on the spot."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from reactree_ros.memory.experience import End, Experience

LAST_LINES = {
    End.SUCCESS: "Act: done",
    End.FAILURE: "Act: failure",
    End.EXPAND: "Expand:\n- control flow: sequence\n- subgoals: look, leave",
}


class WordHashEmbedder:
    """Adds up a fixed random vector of 64 numbers per word, so that texts with common words are near each other."""

    def __init__(self, name: str = "word hash", dimension: int = 64) -> None:
        self.name = name
        self.dimension = dimension
        self.asked: list[str] = []

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.asked.extend(texts)
        rows = [sum((self._word(word) for word in text.lower().split()), np.zeros(self.dimension)) for text in texts]
        matrix = np.array(rows).reshape(len(rows), self.dimension)
        unit: NDArray[np.float32] = (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)
        return unit

    def _word(self, word: str) -> NDArray[np.float64]:
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
        return np.random.default_rng(seed).standard_normal(self.dimension)


def experience(
    subgoal: str = "find and pick up the apple",
    *,
    end: End = End.SUCCESS,
    task: int | str = 1,
    task_name: str = "put_fridge",
    decision: int = 1,
    depth: int = 1,
    filler: str = "",
) -> Experience:
    """An experience whose text is a small recorded one."""
    text = f"Your task is to: {subgoal}\nYou are in the house, and there is 1 room.\n{filler}{LAST_LINES[end]}"
    return Experience.from_text(text, task_id=str(task), task_name=task_name, decision=decision, depth=depth)
