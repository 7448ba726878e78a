"""The tree that grows: expansions enter it between ticks, and a tick visits nothing that has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite
from py_trees.trees import BehaviourTree

#: What a tree calls before or after a tick.
Handler = Callable[[BehaviourTree], None]


class GrowingTree(BehaviourTree):
    """Ticks as py_trees does, without its walk through the whole tree if no visitor wants that.

    The walk takes most of py_trees' own tick of a large tree, though the most of it has ended or has not begun.
    """

    def tick(self, pre_tick_handler: Handler | None = None, post_tick_handler: Handler | None = None) -> None:
        if any(visitor.full for visitor in self.visitors):
            super().tick(pre_tick_handler, post_tick_handler)
            return
        for handler in filter(None, (pre_tick_handler, *self.pre_tick_handlers)):
            handler(self)
        for visitor in self.visitors:
            visitor.initialise()
        for behaviour in self.root.tick():
            for visitor in self.visitors:
                behaviour.visit(visitor)
        for visitor in self.visitors:
            visitor.finalise()
        for handler in filter(None, (*self.post_tick_handlers, post_tick_handler)):
            handler(self)
        self.count += 1


class Growth:
    """Inserts subtrees through the tree, after the tick that asked for them, and sets them up.

    The tree's update handler is called, so that those who follow the tree (py_trees_ros snapshot streams, a viewer)
    is told.
    """

    def __init__(self) -> None:
        self._setup: dict[str, Any] = {}
        self._wanted: list[tuple[Composite, Behaviour, Callable[[Behaviour, Behaviour], None]]] = []

    def follow(self, tree: BehaviourTree, **setup: Any) -> None:
        self._setup = setup
        tree.add_post_tick_handler(self._grow)

    def request(
        self, parent: Composite, subtree: Behaviour, grown: Callable[[Behaviour, Behaviour], None] = lambda *_: None
    ) -> None:
        """Ask for a subtree under a parent; it is there at the next tick, if the parent is still running then.

        ``grown`` is called with both when it is there.
        """
        self._wanted.append((parent, subtree, grown))

    def _grow(self, tree: BehaviourTree) -> None:
        wanted, self._wanted = self._wanted, []
        for parent, subtree, grown in wanted:
            if parent.status != Status.RUNNING:
                continue
            # What BehaviourTree.insert_subtree does, without its search for the parent through the whole tree.
            parent.insert_child(subtree, len(parent.children))
            for behaviour in subtree.iterate():
                behaviour.setup(**self._setup)
            grown(parent, subtree)
            if tree.tree_update_handler is not None:
                tree.tree_update_handler()
