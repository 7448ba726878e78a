"""Episodic memory of the planner node: the file that ``memory`` names, and the search in it."""

from __future__ import annotations

from reactree_ros.memory.episodic import EpisodicMemory, approximate_tokens
from reactree_ros.memory.examples import EpisodicExamples
from reactree_ros.tree.options import TreeOptions


class TaskMemory:
    """Keeps the memory open, and finds the examples of one task at a time.

    Args:
        path: The file; empty: there is no memory.

    Attributes:
        name: Its path.
        store: The memory; None: there is none.

    Raises:
        UserError: It cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self.name = path
        self.store = _opened(path) if path else None
        self._examples: EpisodicExamples | None = None

    def examples(self, options: TreeOptions) -> EpisodicExamples | None:
        """Return what finds the examples of a new task; None: there is no memory."""
        self._stop_search()
        if self.store is not None:
            self._examples = EpisodicExamples(
                self.store, count_tokens=approximate_tokens, seed=options.seed, most=options.max_examples
            )
        return self._examples

    def close(self) -> None:
        """Close the memory."""
        self._stop_search()
        if self.store is not None:
            self.store.close()

    def _stop_search(self) -> None:
        if self._examples is not None:
            self._examples.close()
            self._examples = None


def _opened(path: str) -> EpisodicMemory:
    from reactree_ros.memory.embedding import default_embedder

    embedder = default_embedder()
    embedder.encode(["Is the model there?"])  # loading it now, not in the first task
    return EpisodicMemory(path, embedder)
