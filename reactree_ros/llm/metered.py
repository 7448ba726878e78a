"""A language model whose prompts and replies are measured, also where it does not count tokens itself."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.memory.episodic import approximate_tokens
from reactree_ros.pending import Pending, pass_on


@dataclass(frozen=True)
class Size:
    """Tokens of one request and its reply.

    Attributes:
        input: Tokens of the prompt, of all requests that the reply took.
        longest: Tokens of the longest prompt among those.
        output: Tokens of the reply.
        approximate: Whether one of them was not counted by the model's tokenizer.
    """

    input: int
    longest: int
    output: int
    approximate: bool


class MeteredModel(LanguageModel):
    """Passes everything on to another model and keeps the size of every reply, for one run.

    Args:
        model: Who answers; closing it is up to whoever made it.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._sizes: dict[int, tuple[Reply, Size]] = {}  # by identity; the reply is kept, so that none takes its id

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Let the other model answer."""
        source, answer = self._model.decide(request), Pending[Reply]()

        def measure(done: Future[Reply]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._measure(request, done.result())

        source.add_done_callback(measure)  # before the answer is passed on, so that its size is known with it
        pass_on(source, answer)
        return answer

    def size(self, reply: Reply) -> Size | None:
        """Return the size of a reply that this model passed on."""
        known = self._sizes.get(id(reply))
        return None if known is None else known[1]

    def ready(self) -> Pending[None]:
        """Let the other model get ready."""
        return self._model.ready()

    def count_tokens(self, text: str) -> int | None:
        """Count with the other model's tokenizer."""
        return self._model.count_tokens(text)

    def status(self) -> Mapping[str, str]:
        """Say what the other model is."""
        return self._model.status()

    def _measure(self, request: DecisionRequest, reply: Reply) -> None:
        into, out = reply.prompt_tokens, reply.output_tokens
        rough = False
        if into is None:
            into, rough = self._count(request.prompt)
        if out is None:
            out, rough_output = self._count(reply.text)
            rough = rough or rough_output
        self._sizes[id(reply)] = reply, Size(into, reply.longest_prompt or into, out, rough)

    def _count(self, text: str) -> tuple[int, bool]:
        counted = self._model.count_tokens(text)
        return (approximate_tokens(text), True) if counted is None else (counted, False)
