"""The port of episodic memory: what every store of experiences can do (paper, section 4.2)."""

from __future__ import annotations

import abc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from typing_extensions import Self

from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.turns import Said
from reactree_ros.background.pending import Pending, Worker
from reactree_ros.errors import UserError
from reactree_ros.memory.experience import End, Experience

T = TypeVar("T")
TOKEN_LIMIT = 5000
"""Tokens of in-context examples (paper, section 5.1)."""
#: Of a whole tree, how many experiences of each goal are examples, and of how many goals at most.
OF_EACH, GOALS = 4, 8
_COUNTS_KEPT = 4096
_lock = threading.Lock()  # runs in several threads share a memory's worker


class EpisodicMemoryError(UserError, RuntimeError):
    """An episodic memory cannot be opened, read or written; the message is one line."""


@dataclass(frozen=True)
class Counts:
    experiences: int
    runs: int  # that the experiences come from
    subgoals: int  # number of different ones
    by_end: Mapping[End, int]  # experiences by end; all ends are named
    by_task_name: Mapping[str, int]  # experiences by task name, in the order of the names
    #: Where several share a memory, the runs that only this one has: how many, by what about them.
    only_here: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def from_kinds(cls, kinds: Iterable[tuple[End, str, int]], *, runs: int, subgoals: int) -> Counts:
        by_end, by_task_name = dict.fromkeys(End, 0), dict[str, int]()
        for end, name, count in kinds:
            by_end[end] += count
            by_task_name[name] = by_task_name.get(name, 0) + count
        return cls(sum(by_end.values()), runs, subgoals, by_end, dict(sorted(by_task_name.items())))


class EpisodicMemory(abc.ABC):
    """Experiences of earlier runs, found by the similarity of their subgoals.

    Several processes may have the same memory open and add to it; each finds what the others added. All methods may be
    called from several threads. They may wait for a disk, a server or an embedder; only :meth:`find` returns at once.
    After :meth:`close` they raise :class:`EpisodicMemoryError`.

    Only experiences of runs that reached their goal belong here; the caller sees to that.
    :func:`reactree_ros.memory.check.check_memory` tries whether a store keeps to all of this.

    Attributes:
        fixed: Whether nothing can be added to it, so that no run is.
        keeps_routines: Whether it keeps routines, too.
    """

    fixed: ClassVar[bool] = False
    keeps_routines: ClassVar[bool] = False
    _worker: Worker | None = None
    _counted: Callable[[str], int] | None = None

    @property
    @abc.abstractmethod
    def path(self) -> Path:
        """A path on this machine of this memory alone; `reactree lab bootstrap` keeps its notes next to it."""

    @abc.abstractmethod
    def add_run(self, experiences: Sequence[Experience]) -> None:
        """Add the experiences of one successful run, all of them or, if anything fails, none.

        Raises:
            ValueError: There are none.
            UserError: They could not be written; an :class:`EpisodicMemoryError`, or of what embeds them.
        """

    @abc.abstractmethod
    def ranked(self, text: str, *, seed: int = 0) -> Iterator[tuple[float, Experience]]:
        """Yield every experience with the similarity of its subgoal to a text, the most similar first.

        Args:
            text: A subgoal.
            seed: Decides the order of those that are equally similar, whatever the order in which they were added.

        Raises:
            UserError: They could not be read; an :class:`EpisodicMemoryError`, or of what embeds the text.
        """

    @abc.abstractmethod
    def __iter__(self) -> Iterator[Experience]:
        """Yield every experience in the order in which they were added."""

    @abc.abstractmethod
    def counts(self) -> Counts:
        """Count the experiences by end and by task name, the runs, and the different subgoals."""

    def __contains__(self, experience: object) -> bool:
        return any(one == experience for one in self)

    def __len__(self) -> int:
        return self.counts().experiences

    def keep(self, run: Iterable[Experience]) -> int:
        """Add those experiences of a run that are not stored yet; return how many."""
        new = [experience for experience in run if experience not in self]
        if new:
            self.add_run(new)
        return len(new)

    def routines(self) -> Mapping[str, str]:
        """Return the routines that are kept beside the experiences, each as a text by its name.

        As long as nobody has changed any, it is the same mapping, at once.
        """
        return {}

    def change_routine(self, name: str, change: Callable[[str | None], str | None]) -> None:
        """Change a routine, or add or remove it, in one step that nothing comes between.

        Args:
            name: What it is called.
            change: Given its text, None if there is none of the name, returns the new one; None: there shall be none.

        Raises:
            EpisodicMemoryError: This memory keeps none, or it could not be written.
        """
        raise EpisodicMemoryError(f"{self.path}: this memory keeps no routines; name a file of your own by --memory")

    def do(self, work: Callable[[], T]) -> Pending[T]:
        """Do something with it in the background, after what was asked of it before."""
        with _lock:
            self._worker = self._worker or Worker("episodic memory", EpisodicMemoryError)
        return self._worker.do(work)

    def find(
        self, subgoal: str, *, count_tokens: Callable[[str], int], **limits: Any
    ) -> Pending[tuple[Experience, ...]]:
        """Look for in-context examples in the background, because a tick must not wait; see :meth:`retrieve`."""

        def found() -> tuple[Experience, ...]:
            examples = self.retrieve(subgoal, count_tokens=count_tokens, **limits)
            for one in examples:
                _ = one.turns  # made here, not in the tick that puts them into a prompt
            return examples

        return self.do(found)

    def read_ahead(self, count_tokens: Callable[[str], int]) -> Pending[None]:
        """Read in the background what :meth:`find` will need, between what else is asked for; by default nothing.

        Texts that are read are counted, see :meth:`retrieve`.
        """
        return Pending.ready(None)

    def retrieve(
        self,
        subgoal: str,
        *,
        token_limit: int = TOKEN_LIMIT,
        count_tokens: Callable[[str], int],
        seed: int = 0,
        most: int = 0,
        tree: bool = False,
    ) -> tuple[Experience, ...]:
        """Return in-context examples for an agent node with this subgoal, the most similar first.

        Experiences are taken in the order of :meth:`ranked` until the next one would exceed the token limit.

        Args:
            subgoal: The agent node's goal.
            token_limit: Most tokens that the examples' texts may have together (what joins them is not counted).
            count_tokens: Counts the tokens of a text; must give the same count for the same text. Counts are kept as
                long as the same function is given.
            seed: See :meth:`ranked`.
            most: Most examples; 0: as many as the token limit leaves room for.
            tree: For all agent nodes that grow under it, too: see :meth:`along_a_tree`.

        Raises:
            ValueError: A negative token limit.
            UserError: See :meth:`ranked`.
        """
        if token_limit < 0:
            raise ValueError(f"token_limit must not be negative, not {token_limit}")
        examples: list[Experience] = []
        count, left = self._remembering(count_tokens), token_limit
        along = self.along_a_tree(subgoal, seed=seed, most=most) if tree else None
        for similarity, experience in along or self.suited(subgoal, seed=seed, most=most):
            left -= count(experience.text)
            if left < 0:
                break
            examples.append(experience.found(float(similarity)))
        return tuple(examples)

    def suited(self, subgoal: str, *, seed: int, most: int) -> Iterable[tuple[float, Experience]]:
        """Return what :meth:`retrieve` takes its examples from, in order, each with its similarity; see there."""
        return islice(self.ranked(subgoal, seed=seed), most or None)

    def along_a_tree(self, goal: str, *, seed: int, most: int) -> Iterator[tuple[float, Experience]]:
        """Yield what suits a goal, each goal that the most similar experience expands into, and so on.

        The most similar one of each goal comes first. Where the order of subgoals does not matter they are of a kind,
        and only the first is looked at.
        """
        found: dict[str, list[tuple[float, Experience]]] = {}
        goals = [goal]
        while goals and len(found) < GOALS:
            if (goal := goals.pop(0)) not in found:
                found[goal] = list(islice(self.suited(goal, seed=seed, most=OF_EACH), OF_EACH))
                below = (expansion for _, one in found[goal][:1] for expansion in expansions(one))
                goals[:0] = [one for each in below for one in each.subgoals[: None if each.control_flow.ordered else 1]]
        one_of_each = filter(None, (one for some in zip_longest(*found.values()) for one in some))
        yield from islice({one.text: (similarity, one) for similarity, one in one_of_each}.values(), most or None)

    def search(self, text: str, k: int) -> list[tuple[float, Experience]]:
        """Return the `k` experiences whose subgoals are most similar to a text, with their similarity."""
        if k < 0:
            raise ValueError(f"k must not be negative, not {k}")
        return list(islice(self.ranked(text), k))

    def close(self) -> None:
        """Release what the memory holds; what :meth:`find` looks for is not waited for. A second call does nothing."""
        if self._worker is not None:
            self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _remembering(self, count_tokens: Callable[[str], int]) -> Callable[[str], int]:
        counted = self._counted
        if counted is None or counted.__wrapped__ != count_tokens:  # type: ignore[attr-defined]
            counted = self._counted = lru_cache(_COUNTS_KEPT)(count_tokens)
        return counted


def expansions(one: Experience) -> Iterator[Expand]:
    yield from (said.decision for said in one.turns if isinstance(said, Said) and isinstance(said.decision, Expand))
