"""In-context examples for agent nodes, found in the background."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from reactree_ros.memory.episodic import EpisodicMemory
from reactree_ros.memory.experience import Experience
from reactree_ros.pending import Pending


class EpisodicExamples:
    """Finds examples in episodic memory without holding up a tick: embedding a subgoal takes its time.

    Args:
        memory: Where to look.
        token_limit: Most tokens that the examples of one agent node may take together (paper, section 5.1: 5,000).
        count_tokens: Counts the tokens of a text, with the language model's tokenizer where it is known.
        seed: Seed of the choice among equally similar examples.
    """

    def __init__(
        self, memory: EpisodicMemory, *, token_limit: int = 5000, count_tokens: Callable[[str], int], seed: int = 0
    ) -> None:
        self._memory = memory
        self._token_limit = token_limit
        self._count_tokens = count_tokens
        self._seed = seed
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="episodic-memory")

    def __call__(self, subgoal: str) -> Pending[tuple[Experience, ...]]:
        """Start looking for examples for a subgoal: the most similar first."""
        pending: Pending[tuple[Experience, ...]] = Pending()
        self._worker.submit(self._find, subgoal, pending)
        return pending

    def _find(self, subgoal: str, pending: Pending[tuple[Experience, ...]]) -> None:
        if pending.done():  # cancelled while it waited
            return
        try:
            found = self._memory.retrieve(
                subgoal, token_limit=self._token_limit, count_tokens=self._count_tokens, seed=self._seed
            )
            pending.succeed(found)
        except Exception as error:
            pending.fail(error)

    def close(self) -> None:
        """Stop looking; what has not begun is given up."""
        self._worker.shutdown(wait=True, cancel_futures=True)
