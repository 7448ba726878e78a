"""The network of a small model, through onnxruntime; the states of a text stay with the text.

A model's folder suits `transformers` and vLLM, and adds a graph (`model.onnx`). The graph has no weights: it points
into `model.safetensors`. So every engine computes with the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

GRAPH, WEIGHTS, TOKENIZER = "model.onnx", "model.safetensors", "tokenizer.json"
#: Names of the graph's inputs and outputs; ``past`` and ``read`` are followed by a number.
TOKENS, COSINES, SINES, HIDDEN, PAST, SCORES, READ = "tokens", "cosines", "sines", "hidden", "past", "scores", "read"

#: States of a text: keys and values of each layer in turn, of shape (heads, tokens, size).
States = tuple[Any, ...]


def first(states: States, count: int) -> States:
    """Return the states of a text's first tokens."""
    return tuple(np.ascontiguousarray(one[:, :count]) for one in states)


class Network:
    """A network that reads texts token by token.

    Raises:
        OSError: The graph cannot be read.
        ValueError: The graph was not made by this package.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
        options.log_severity_level = 3
        path = folder / GRAPH
        with path.open("rb"):  # raises the reason if it cannot be read
            pass
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        about = self._session.get_modelmeta().custom_metadata_map
        try:
            self.context, self.end, self.vocabulary = (int(about[name]) for name in ("context", "end", "vocabulary"))
            layers, heads, self._size = (int(about[name]) for name in ("layers", "heads", "size"))
            base = float(about["rotary_base"])
        except KeyError as error:
            raise ValueError(f"{GRAPH} does not say its {error.args[0]}") from error
        self._nothing = tuple(np.zeros((heads, 0, self._size), np.float32) for _ in range(2 * layers))
        turns = 1.0 / base ** (np.arange(0, self._size, 2, dtype=np.float32) / self._size)
        self._turns = np.concatenate([turns, turns]).astype(np.float32)

    def read(self, tokens: Sequence[int], states: States | None = None) -> tuple[Any, States]:
        """Read more tokens; return the next token's scores (float32) and new states, the old ones unchanged."""
        past = self._nothing if states is None else states
        before, count = past[0].shape[1], len(tokens)
        angles = np.arange(before, before + count, dtype=np.float32)[:, None] * self._turns
        later = np.triu(np.full((count, count), -np.inf, np.float32), 1)
        given = {
            TOKENS: np.asarray(tokens, np.int64),
            COSINES: np.cos(angles),
            SINES: np.sin(angles),
            HIDDEN: np.concatenate([np.zeros((count, before), np.float32), later], axis=1),
            **{f"{PAST}{number}": one for number, one in enumerate(past)},
        }
        scores, *read = self._session.run(None, given)
        return scores, tuple(read)
