"""An action tree: plans merged where they begin alike (Tree-Planner, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class ActionTree:
    """One step of the merged plans, with what the plans go on with.

    Args:
        step: The step; empty for the root.
        parent: The step before; None for the root.

    Attributes:
        step: The step.
        parent: The step before.
        children: What may come next, by step, in the order of the plans.
        valid: False once the step has failed, or all that comes after it has.
    """

    def __init__(self, step: str = "", parent: ActionTree | None = None) -> None:
        self.step = step
        self.parent = parent
        self.children: dict[str, ActionTree] = {}
        self.valid = True

    @classmethod
    def merge(cls, plans: Iterable[Sequence[str]]) -> ActionTree:
        """Merge plans: two share their steps as far as they are the same from the beginning."""
        root = cls()
        for plan in plans:
            node = root
            for step in plan:
                node = node.children.setdefault(step, cls(step, node))
        return root

    @property
    def branches(self) -> tuple[ActionTree, ...]:
        """What may come next and has not failed."""
        return tuple(child for child in self.children.values() if child.valid)

    def failed(self) -> ActionTree | None:
        """Note that the step failed; return the nearest step before it that can be gone on from, None without any."""
        self.valid = False
        node = self.parent
        while node is not None and not node.branches:
            node.valid = False
            node = node.parent
        return node
