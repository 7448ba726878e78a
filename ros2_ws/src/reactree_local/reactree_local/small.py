"""A small trained model in this process, without torch: for a first try, and for machines without a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field

from reactree_local import network
from reactree_local.engine import InProcessEngine
from reactree_ros.llm.engine_model import EngineModel, FairQueue
from reactree_ros.llm.engine_settings import AnsweringLimits
from reactree_ros.llm.port import LanguageModel, ServerUnavailable
from reactree_ros.llm.spec import ModelSpec
from reactree_ros.llm.trained import trained_for

#: Folder of the model that comes with the package.
PACKAGED = Path(__file__).parent / "weights/small"


class Words:
    """A tokenizer with the interface of those of transformers."""

    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Tokens added to the vocabulary, by number."""
        added: Mapping[int, Any] = self._tokenizer.get_added_tokens_decoder()
        return added

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Return the tokens of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, tokens: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Return the text of tokens."""
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=skip_special_tokens))


class SmallEngine(InProcessEngine):
    """Generates with a small model, one text after the other.

    Args:
        model: The model's folder, as ``reactree lab train`` makes it.
    """

    def __init__(self, model: str, *, threads: int = 1) -> None:
        super().__init__(model)
        self._threads = threads
        self.name = f"small model in {model}"

    def load(self) -> Words:
        """Load the model, and return its tokenizer."""
        import llguidance

        folder = Path(self.model)
        try:
            words = Words(folder / network.TOKENIZER)
            loaded = network.Network(folder, threads=self._threads)
            text = (folder / network.TOKENIZER).read_text(encoding="utf-8")
            self.vocabulary = llguidance.LLTokenizer(text, n_vocab=loaded.vocabulary, eos_token=loaded.end)
        except Exception as error:  # any error of three libraries
            problem = " ".join(str(error).split())[:300]
            raise ServerUnavailable(
                f"{self.name} cannot be loaded: {problem}; it must be a folder that `reactree lab train` made, "
                f"with {network.GRAPH}, {network.WEIGHTS} and {network.TOKENIZER}"
            ) from error
        self._network, self.context, self.ends = loaded, loaded.context, frozenset({loaded.end})
        return words

    def read(self, tokens: Sequence[int], states: Any) -> tuple[Any, Any]:
        """Read more tokens; the states are arrays that nobody changes."""
        scores, states = self._network.read(tokens, states)
        return scores, states

    def first(self, states: Any, count: int) -> Any:
        """Return the states of the first tokens."""
        return network.first(states, count)

    def status(self) -> Mapping[str, str]:
        """Describe the model and how it answers."""
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
