"""A goal node as those see it who look on at a run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from py_trees.behaviour import Behaviour
from py_trees.composites import Composite

from reactree_ros.agent.budget import Budget
from reactree_ros.agent.turns import About, Told, Turn, is_closed, node_text
from reactree_ros.memory.experience import End, Experience
from reactree_ros.tree.failure import BY_LIMIT, Failure
from reactree_ros.tree.team import Post

T = TypeVar("T")


class OfAttempt(Generic[T]):
    """An attribute that belongs to one attempt of a node: a node that begins again has its first value again.

    The values are in the node's ``attempt``, which is made anew when it begins. All that a node's program changes is
    such an attribute. ``first`` makes the first value, given the node.
    """

    def __init__(self, first: Callable[[Any], T]) -> None:
        self._first = first

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, node: Any, owner: type) -> T:
        attempt: dict[str, T] = node.attempt
        if self._name not in attempt:
            attempt[self._name] = self._first(node)
        return attempt[self._name]

    def __set__(self, node: Any, value: T) -> None:
        node.attempt[self._name] = value


class Goal(Composite, abc.ABC):
    listens = False  # whether it takes in what a person says in the middle of a run
    teaches = True  # whether an agent may learn from it
    holds_own_tree = False  # whether what grows under it is a tree of one's own
    subgoal: str  # its goal, in natural language
    depth: int  # 1 for the root, 3 for the goal nodes under it, and so on
    index = 0  # its number in the run, in the order in which goal nodes start
    start = 0  # decision count at its start, from 1; 0 before

    turns = OfAttempt[list[Turn]](lambda _: [])  # what it was told, said and saw so far
    lesson = OfAttempt[Sequence[Turn] | None](lambda _: None)  # the turns that are an example; None: all of them
    end = OfAttempt[End | None](lambda _: None)  # for episodic memory; None before, and if an error ended it
    failure = OfAttempt[Failure | None](lambda _: None)  # why it failed; None if it did not
    budget = OfAttempt[Budget](lambda node: node.own_budget())  # what the run may; a leaf of one's own tree as much
    leaf = OfAttempt[Behaviour | None](lambda _: None)  # the latest skill, which is carried out or was
    requests_made = OfAttempt(lambda _: 0)
    begun = OfAttempt(lambda _: False)

    def __init__(self, name: str) -> None:
        super().__init__(name, children=[])
        self.attempt: dict[str, Any] = {}

    @property
    @abc.abstractmethod
    def post(self) -> Post:
        """What robot it has: one of its own, or that of the goal node that it grew under."""

    @property
    @abc.abstractmethod
    def is_own_leaf(self) -> bool:
        """Whether it is a leaf of a tree of one's own: what ends it ends nothing that stands beside it."""

    @abc.abstractmethod
    def own_budget(self) -> Budget:
        """Return what an attempt of it may decide and do."""

    @property
    def unreached(self) -> bool:
        """Whether it failed before it asked or did anything, as a limit was reached or the run was over before."""
        barred = self.failure is not None and (self.failure.kind in BY_LIMIT or not self.begun)
        return barred and not (self.begun and (self.requests_made or self.children))

    @property
    def text(self) -> str:
        return node_text(self.turns)

    def experience(self, **task: Any) -> Experience | None:
        """Return what may be learnt from it, by the id and the name of the task; None if there is nothing."""
        turns = closed_turns(self.turns, self.lesson)
        if self.end is None or not turns or not self.teaches:
            return None
        return Experience(self.subgoal, turns, self.end, **task, decision=self.start, depth=self.depth)


def closed_turns(turns: Sequence[Turn], lesson: Sequence[Turn] | None = None) -> tuple[Turn, ...]:
    """Return the turns of an experience: a lesson, or all of a node, which end with what it was told."""
    if lesson is not None:
        return tuple(lesson)
    return tuple(turns) if not turns or is_closed(tuple(turns)) else (*turns, Told("", About.ANSWER))
