"""A plain word index in place of sentence embeddings: it needs no model."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_WORD = re.compile(r"\w+")


class WordEmbedder:
    """Counts words and pairs of neighbouring words, so that texts of similar wording are near each other.

    All words count alike: in subgoals the frequent ones say what is to be done, e.g. ``find and pick up``. Each word
    has a place in the vector by its hash; words that share one are taken for the same.
    """

    name = "words"
    dimension = 4096

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts; shape (number of texts, dimension), rows of unit length."""
        counts = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(counts, texts, strict=True):
            words = ["", *_WORD.findall(text.lower())]  # the empty one marks the beginning
            for said in (*words, *map(" ".join, pairwise(words))):
                row[zlib.crc32(said.encode(errors="surrogatepass")) % self.dimension] += 1
        unit: NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return unit
