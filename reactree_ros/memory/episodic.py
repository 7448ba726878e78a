"""Episodic memory: experiences of successful runs, retrieved by the similarity of subgoals (paper, section 4.2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType

import numpy as np

from reactree_ros.memory.embedding import Embedder, checked_vectors
from reactree_ros.memory.experience import Experience
from reactree_ros.memory.index import ExperienceIndex
from reactree_ros.memory.recorded import export_experiences
from reactree_ros.memory.store import ENDS, Counts, EpisodicMemoryError, ExperienceStore

__all__ = ["TOKEN_LIMIT", "Counts", "EpisodicMemory", "EpisodicMemoryError", "approximate_tokens"]

TOKEN_LIMIT = 5000
"""Tokens of in-context examples (paper, section 5.1)."""

_FETCHED_AT_ONCE = 12  # about what fills the token limit
_KEPT_IN_MEMORY = 4096
_BLANK, _DIGIT, _LETTER, _MARK, _LINE_END = range(5)


def _kind(byte: int) -> int:
    character = chr(byte)
    if character in "\r\n":
        return _LINE_END
    if character.isspace() and byte < 128:
        return _BLANK
    if character.isdigit() and byte < 128:
        return _DIGIT
    return _LETTER if byte >= 128 or character.isalpha() else _MARK


_KINDS = bytes(_kind(byte) for byte in range(256))  # of the bytes of UTF-8


def approximate_tokens(text: str) -> int:
    """Counts tokens where no tokenizer is known.

    The rule: a token is a word (with the blank before it), a number, the blanks before a number, a run of punctuation,
    or a run of line ends. Those are about the pieces that the tokenizers of GPT-4 and Llama 3 cut a text into first,
    and most pieces of household texts are one token. Over the recorded texts it gives 1.00 (WAH-NL; single texts 0.93
    to 1.09) and 0.96 (ALFRED, with its CamelCase names; 0.87 to 1.03) times the tokens of cl100k_base. The usual rule,
    a quarter of the characters, gives 0.82 and 0.76: many numbers make it too low, and the prompt too long.
    """
    kinds = np.frombuffer((" " + text).encode(errors="replace").translate(_KINDS), dtype=np.uint8)
    before, here = kinds[:-1], kinds[1:]
    starts = np.count_nonzero((here != before) & (here != _BLANK))
    return int(starts + np.count_nonzero((before == _BLANK) & (here == _DIGIT)))


class EpisodicMemory:
    """Experiences on disk, with one matrix of their subgoals' embeddings in memory.

    Several processes may have the same memory open and add to it; each sees what the others added at its next
    retrieval. Within a process, all methods may be called from several threads. Retrieval embeds a sentence and reads
    the disk, so that a caller that must not wait calls it in a worker thread.

    Only experiences of runs that reached their goal belong here; that is the caller's part.

    Args:
        path: The database file; made if it does not exist (its folder must).
        embedder: Embeds subgoals. A memory keeps to the embedder that it was made with.
        busy_timeout: How long to wait while another process writes, in seconds.

    Raises:
        EpisodicMemoryError: the file is no database, one of another program, of another schema version or embedder, or
            it cannot be opened.
    """

    def __init__(self, path: str | Path, embedder: Embedder, *, busy_timeout: float = 10.0) -> None:
        self._embedder = embedder
        self._store = ExperienceStore(
            Path(path), embedder=embedder.name, dimension=embedder.dimension, busy_timeout=busy_timeout
        )
        self._index = ExperienceIndex(embedder.dimension, ends=len(ENDS))
        self._ids: list[int] = []  # of experiences, by their position in the index
        self._subgoals: dict[int, int] = {}  # position in the index by id
        self._kept: dict[int, Experience] = {}  # lately used ones by id
        self._counter: Callable[[str], int] | None = None
        self._tokens: dict[int, int] = {}  # by id, as counted by self._counter
        self._lock = threading.RLock()  # of everything above but the store, which has its own

    @property
    def path(self) -> Path:
        """The database file."""
        return self._store.path

    def add_run(self, experiences: Sequence[Experience]) -> None:
        """Adds the experiences of one successful run, all of them or, if anything fails, none.

        Raises:
            ValueError: there are none.
            EmbeddingError: a subgoal could not be embedded.
            EpisodicMemoryError: the database could not be written.
        """
        run = tuple(experiences)
        if not run:
            raise ValueError("a run has at least one experience")
        unknown = self._store.unknown_subgoals(experience.subgoal for experience in run)
        vectors = checked_vectors(self._embedder, unknown) if unknown else ()
        self._store.add(run, dict(zip(unknown, vectors, strict=True)))

    def retrieve(
        self, subgoal: str, *, token_limit: int = TOKEN_LIMIT, count_tokens: Callable[[str], int], seed: int = 0
    ) -> tuple[Experience, ...]:
        """In-context examples for an agent node with this subgoal, the most similar first.

        Experiences are taken in the order of falling cosine similarity until the next one would exceed the token limit.
        Equal similarities are resolved by drawing: an end evenly among success, failure and expand, then an
        experience of that end. The same seed gives the same examples, in whatever order they were added.

        Args:
            subgoal: The agent node's goal.
            token_limit: Most tokens that the examples' texts may have together (what joins them is not counted).
            count_tokens: Tokens of a text; must give the same count for the same text. Counts are kept as long as the
                same function is given. `approximate_tokens` where no tokenizer is known.
            seed: Of the drawing.

        Raises:
            ValueError: a negative token limit.
            EmbeddingError: the subgoal could not be embedded.
            EpisodicMemoryError: the database could not be read.
        """
        if token_limit < 0:
            raise ValueError(f"token_limit must not be negative, not {token_limit}")
        examples = []
        left = token_limit
        with self._lock:
            if count_tokens != self._counter:
                self._counter, self._tokens = count_tokens, {}
            counted = self._tokens
        for similarity, number, experience in self._ranked(subgoal, seed):
            tokens = counted.get(number)
            if tokens is None:
                tokens = counted[number] = count_tokens(experience.text)
            if tokens > left:
                break
            left -= tokens
            examples.append(replace(experience, similarity=float(similarity)))
        return tuple(examples)

    def search(self, text: str, k: int) -> list[tuple[float, Experience]]:
        """The `k` experiences whose subgoals are most similar to a text, with their cosine similarity.

        Raises:
            ValueError: `k` is negative.
            EmbeddingError: the text could not be embedded.
            EpisodicMemoryError: the database could not be read.
        """
        if k < 0:
            raise ValueError(f"k must not be negative, not {k}")
        return [(similarity, experience) for similarity, _, experience in islice(self._ranked(text, 0), k)]

    def __len__(self) -> int:
        """Number of experiences."""
        return self._store.count()

    def __contains__(self, experience: object) -> bool:
        """Whether this very experience, with all its fields, is stored."""
        return isinstance(experience, Experience) and self._store.holds(experience)

    def __iter__(self) -> Iterator[Experience]:
        """Every experience in the order in which they were added."""
        return self._store.all()

    def counts(self) -> Counts:
        """Number of experiences by end and by task name, of runs, and of different subgoals."""
        return self._store.counts()

    def export(self, path: str | Path, *, flat: bool = False) -> int:
        """Writes every experience as the recordings are written; see `recorded.export_experiences`."""
        return export_experiences(self, path, flat=flat)

    def close(self) -> None:
        """Closes the database; a second call does nothing."""
        self._store.close()

    def __enter__(self) -> EpisodicMemory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ranked(self, text: str, seed: int) -> Iterator[tuple[float, int, Experience]]:
        """Similarity, id and experience, the most similar first; reads only as many as are asked for."""
        (query,) = checked_vectors(self._embedder, [text])
        with self._lock:
            self._refresh()
            ranked = self._index.ranked(query, draw=f"{seed} {text}")
        while True:
            with self._lock:
                some = [(similarity, self._ids[position]) for similarity, position in islice(ranked, _FETCHED_AT_ONCE)]
                experiences = self._fetch([number for _, number in some])
            if not some:
                return
            for (similarity, number), experience in zip(some, experiences, strict=True):
                yield similarity, number, experience

    def _refresh(self) -> None:
        """Takes in what this and other processes have added since the last time."""
        added = self._store.additions()
        if added is None:
            return
        first = self._index.subgoals
        self._subgoals.update((number, position) for position, number in enumerate(added.subgoals, start=first))
        self._index.extend_subgoals(added.vectors)
        self._index.extend_experiences(
            [self._subgoals[number] for number in added.experience_subgoals], ends=added.ends, digests=added.digests
        )
        self._ids.extend(added.experiences)

    def _fetch(self, ids: Sequence[int]) -> list[Experience]:
        missing = [number for number in ids if number not in self._kept]
        if missing:
            self._kept.update(zip(missing, self._store.fetch(missing), strict=True))
        experiences = []
        for number in ids:
            experience = self._kept.pop(number)
            self._kept[number] = experience  # the latest used last
            experiences.append(experience)
        while len(self._kept) > _KEPT_IN_MEMORY:
            del self._kept[next(iter(self._kept))]
        return experiences
