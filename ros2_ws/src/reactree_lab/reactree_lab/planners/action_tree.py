"""An action tree: plans merged at their common beginnings (Tree-Planner, section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class ActionTree:
    """One step of the merged plans, with the possible next steps; the root has an empty step and no parent.

    Attributes:
        children: Possible next steps, by step, in the order of the plans.
        valid: False once the step, or every step after it, has failed.
    """

    def __init__(self, step: str = "", parent: ActionTree | None = None) -> None:
        self.step = step
        self.parent = parent
        self.children: dict[str, ActionTree] = {}
        self.valid = True

    @classmethod
    def merge(cls, plans: Iterable[Sequence[str]]) -> ActionTree:
        """Merge plans: two plans share their steps as far as their beginnings agree."""
        root = cls()
        for plan in plans:
            node = root
            for step in plan:
                node = node.children.setdefault(step, cls(step, node))
        return root

    @property
    def branches(self) -> tuple[ActionTree, ...]:
        return tuple(child for child in self.children.values() if child.valid)

    def failed(self) -> ActionTree | None:
        """Record that the step failed; return the nearest earlier step with another way on, or None."""
        self.valid = False
        node = self.parent
        while node is not None and not node.branches:
            node.valid = False
            node = node.parent
        return node
