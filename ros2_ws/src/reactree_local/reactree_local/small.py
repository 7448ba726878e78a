"""A small trained model in this process, without torch: for a first try, and for machines without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from reactree_local.engine import InProcessEngine
from reactree_ros.llm.engine_model import EngineModel, FairQueue
from reactree_ros.llm.engine_settings import AnsweringLimits
from reactree_ros.llm.port import LanguageModel, ServerUnavailable
from reactree_ros.llm.spec import ModelSpec, trained_for

#: Folder of the model that comes with the package.
PACKAGED = Path(__file__).parent / "weights/small"
#: A model's folder suits `transformers` and vLLM, and adds a graph without weights, which points into theirs: every
#: engine computes with the same bytes.
GRAPH, WEIGHTS, TOKENIZER = "model.onnx", "model.safetensors", "tokenizer.json"
#: Names of the graph's inputs and outputs; ``past`` and ``read`` are followed by a number.
TOKENS, COSINES, SINES, HIDDEN, PAST, SCORES, READ = "tokens", "cosines", "sines", "hidden", "past", "scores", "read"


class Words:
    """A tokenizer with the interface of those of transformers."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        added: Mapping[int, Any] = self._tokenizer.get_added_tokens_decoder()
        return added

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=skip_special_tokens))


class SmallEngine(InProcessEngine):
    def __init__(self, model: str, *, threads: int = 1) -> None:
        super().__init__(model)
        self._threads = threads
        self.name = f"small model {Path(model).name}"

    def load(self) -> Words:
        import llguidance

        folder = Path(self.model)
        try:
            words = Words(folder / TOKENIZER)
            self._load_network(folder)
            text = (folder / TOKENIZER).read_text(encoding="utf-8")
            self.vocabulary = llguidance.LLTokenizer(text, n_vocab=self._entries, eos_token=min(self.ends))
        except Exception as error:  # any error of three libraries
            problem = " ".join(str(error).split())[:300]
            raise ServerUnavailable(
                f"small model in {folder} cannot be loaded: {problem}; it must be a folder that "
                f"`reactree lab train` made, with {GRAPH}, {WEIGHTS} and {TOKENIZER}"
            ) from error
        return words

    def _load_network(self, folder: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = self._threads
        options.log_severity_level = 3
        path = folder / GRAPH
        with path.open("rb"):  # raises the reason if it cannot be read
            pass
        self._network = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        about = self._network.get_modelmeta().custom_metadata_map
        try:
            self.context, end, self._entries = (int(about[name]) for name in ("context", "end", "vocabulary"))
            layers, heads, self._size = (int(about[name]) for name in ("layers", "heads", "size"))
            base = float(about["rotary_base"])
        except KeyError as error:
            raise ValueError(f"{GRAPH} does not say its {error.args[0]}") from error
        self.ends = frozenset({end})
        self._nothing = tuple(np.zeros((heads, 0, self._size), np.float32) for _ in range(2 * layers))
        turns = 1.0 / base ** (np.arange(0, self._size, 2, dtype=np.float32) / self._size)
        self._turns = np.concatenate([turns, turns]).astype(np.float32)

    def read(self, tokens: Sequence[int], states: Any) -> tuple[Any, Any]:
        """Read more tokens; return the next token's scores (float32) and new states, the old ones unchanged.

        States are the keys and values of each layer in turn, of shape (heads, tokens, size).
        """
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
        scores, *read = self._network.run(None, given)
        return scores, tuple(read)

    def first(self, states: Any, count: int) -> Any:
        return tuple(np.ascontiguousarray(one[:, :count]) for one in states)

    def status(self) -> Mapping[str, str]:
        return {**super().status(), "threads": str(self._threads), "runtime": "onnxruntime"}


class SmallSettings(AnsweringLimits):
    """Settings of a small model."""

    model: str = Field(default="", description="folder of the model; empty: the one that comes with the package")
    threads: int = Field(default=1, ge=1, le=256, description="threads of the network")


def _folder(settings: SmallSettings) -> str:
    return settings.model or str(PACKAGED)


def _make(settings: SmallSettings) -> LanguageModel:
    engine = SmallEngine(_folder(settings), threads=settings.threads)
    return FairQueue(EngineModel(engine, request_timeout=settings.request_timeout), settings.max_concurrent)


SPEC = ModelSpec(
    name="small",
    summary="a small model that `reactree lab train` made, in this process, without torch",
    settings=SmallSettings,
    extra="reactree_local[small]",
    needs=("onnxruntime", "tokenizers", "llguidance"),
    make=_make,
    flags=("model",),
    trained_for=lambda settings: trained_for(_folder(settings)),
)
