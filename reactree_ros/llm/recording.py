"""A language model that repeats a recorded run."""

from __future__ import annotations

from collections.abc import Iterable

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply, RequestRejected


class RecordingModel(LanguageModel):
    """Repeats the decisions of a recorded run, one after the other, whatever the prompt."""

    def __init__(self, said: Iterable[str]) -> None:
        self._said = tuple(said)
        self._next = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Answer at once with the next recorded decision; fails after the last one."""
        if self._next >= len(self._said):
            return Pending.failed(
                RequestRejected(f"the recording ends after {self._next} decisions, but one more was asked for")
            )
        self._next += 1
        return Pending.of(Reply(self._said[self._next - 1]))
