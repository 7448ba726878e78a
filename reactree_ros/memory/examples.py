"""In-context examples for agent nodes, found in the background."""

from __future__ import annotations

from collections.abc import Callable

from reactree_ros.background.pending import Pending
from reactree_ros.background.worker import Worker
from reactree_ros.memory.episodic import EpisodicMemory
from reactree_ros.memory.experience import Experience


class EpisodicExamples:
    """Finds examples in episodic memory without holding up a tick: embedding a subgoal takes its time.

    Args:
        memory: Where to look.
        token_limit: Most tokens that the examples of one agent node may take together (paper, section 5.1: 5,000).
        count_tokens: Counts the tokens of a text, with the language model's tokenizer where it is known.
        seed: Seed of the choice among equally similar examples.
        most: Most examples of one agent node; 0: as many as there is room for.
    """

    def __init__(
        self,
        memory: EpisodicMemory,
        *,
        token_limit: int = 5000,
        count_tokens: Callable[[str], int],
        seed: int = 0,
        most: int = 0,
    ) -> None:
        self._memory = memory
        self._token_limit = token_limit
        self._count_tokens = count_tokens
        self._seed = seed
        self._most = most
        self._worker = Worker("episodic-memory")

    def __call__(self, subgoal: str) -> Pending[tuple[Experience, ...]]:
        """Start looking for examples for a subgoal: the most similar experiences first."""
        return self._worker.do(lambda: self._find(subgoal))

    def _find(self, subgoal: str) -> tuple[Experience, ...]:
        found = self._memory.retrieve(
            subgoal, token_limit=self._token_limit, count_tokens=self._count_tokens, seed=self._seed
        )
        return found[: self._most or None]

    def close(self) -> None:
        """Stop looking; what is under way is not waited for."""
        self._worker.close()
