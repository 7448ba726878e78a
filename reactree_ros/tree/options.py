"""What a user may choose about the method."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from reactree_ros.agent.decision import ControlFlow
from reactree_ros.agent.prompt import CONTROL_FLOWS, Domain


class ParallelPolicy(enum.Enum):
    """When a parallel, all of whose children have ended, succeeds."""

    MAJORITY = "majority"
    """More than half of the children succeeded (paper, section 4.1)."""
    ALL = "all"
    """Every child succeeded (the authors' code)."""


@dataclass(frozen=True)
class TreeOptions:
    """Choices that hold for every agent node of a tree.

    Attributes:
        control_flows: What an expansion may use; None: all that the household's system text speaks of; empty: the
            agent node cannot expand.
        parallel: When a parallel succeeds.
        max_depth: Deepest agent node (the root is 1, the agent nodes under it 3, …); None: no limit.
        keep_and: Leave a final ``and `` in the last subgoal.
        refuse_recursion: Refuse an expansion whose subgoal equals a goal above it.
        refuse_unavailable: Refuse a skill that is not available, instead of leaving that to the world.
        summarise_after: An agent node whose decisions and observations take more tokens than this in its prompt has
            the older half of them summarised there, as HiAgent does; its text stays whole. A summary counts as a
            decision. None: never.
        max_tokens: Longest decision, in tokens of the language model.
        temperature: Sampling temperature of the language model.
        seed: Seed of the language model and of the choice among equally similar examples.
        decision_timeout: Longest wait for a decision, for a look around and for examples, in seconds.
        skill_timeout: Longest wait for a skill, in seconds.
    """

    control_flows: tuple[ControlFlow, ...] | None = None
    parallel: ParallelPolicy = ParallelPolicy.MAJORITY
    max_depth: int | None = 20
    keep_and: bool = False
    refuse_recursion: bool = True
    refuse_unavailable: bool = True
    summarise_after: int | None = None
    max_tokens: int = 512
    temperature: float = 0.0
    seed: int = 0
    decision_timeout: float = 120.0
    skill_timeout: float = 600.0

    def allowed_control_flows(self, domain: Domain) -> tuple[ControlFlow, ...]:
        """Return what an expansion may use in a household."""
        return CONTROL_FLOWS[domain] if self.control_flows is None else self.control_flows


#: The method as it was when the authors recorded their runs; a replay uses it.
AS_RECORDED = TreeOptions(
    parallel=ParallelPolicy.ALL, max_depth=None, keep_and=True, refuse_recursion=False, refuse_unavailable=False
)
