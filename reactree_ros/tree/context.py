"""What the agent nodes of one run share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reactree_ros.agent.budget import Budget
from reactree_ros.agent.decision import ControlFlow, Decision
from reactree_ros.agent.prompt import name_of
from reactree_ros.llm.port import LanguageModel, Reply
from reactree_ros.memory.episodic import approximate_tokens
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.pending import Pending
from reactree_ros.tree.growth import Growth
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import GONE, Observation, World

if TYPE_CHECKING:
    from reactree_ros.tree.goal_node import GoalNode


class Listener:
    """Told what happens in a run, as it happens; every method may be left as it is."""

    def node_started(self, node: GoalNode) -> None:
        """An agent node has made its first observation."""

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        """An agent node has decided; the decision is counted and about to be carried out."""

    def refused(self, node: GoalNode, said: str, reason: str) -> None:
        """What an agent node said was not carried out; the reason goes back to the model."""

    def shortened(self, node: GoalNode, dropped: int, excess: int) -> None:
        """A prompt was ``excess`` tokens too long: its ``dropped`` least similar examples are left out from now on."""

    def observed(self, node: GoalNode, observation: Observation) -> None:
        """A skill or a recall has ended."""

    def node_ended(self, node: GoalNode) -> None:
        """An agent node has ended; see its status and its feedback message."""


@dataclass
class RunContext:
    """What the agent nodes of one run share.

    Attributes:
        model: Answers decision requests.
        world: Executes skills and observes.
        growth: Inserts expansions into the running tree.
        budget: Decisions and steps left.
        options: How the method behaves.
        working_memory: Where things were seen; None switches ``recall`` off.
        examples: Finds in-context examples for a subgoal; where it is None or finds none, the fixed ones are used.
        fixed_examples: Makes the examples that every agent node gets where none are found.
        listener: Told what happens.
        wake: Called, from any thread, when something that is waited for has ended: a tick is worth its while.
        clock: Seconds, never going back.
        nodes: Every agent node that started, in order.
        planner: Who asks; a language model that answers several planners lets them take turns.
        replies: Every reply of the model, with the agent node's index and the decision's number, from 1.
        pictures: What the agent's camera saw after a skill, PNGs, with the step's number and the skill.
        errors: What went wrong outside of the decisions: a server that failed, a world that is gone.
    """

    model: LanguageModel
    world: World
    growth: Growth = field(default_factory=Growth)
    budget: Budget = field(default_factory=Budget)
    options: TreeOptions = field(default_factory=TreeOptions)
    working_memory: WorkingMemory | None = None
    examples: Callable[[str], Pending[tuple[str, ...]]] | None = None
    fixed_examples: Callable[[], tuple[str, ...]] = tuple
    listener: Listener = field(default_factory=Listener)
    wake: Callable[[], None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    nodes: list[GoalNode] = field(default_factory=list)
    planner: str = ""
    replies: list[tuple[int, int, Reply]] = field(default_factory=list)
    pictures: list[tuple[int, str, bytes]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def allowed_control_flows(self) -> tuple[ControlFlow, ...]:
        """What an expansion may use."""
        return self.options.allowed_control_flows(self.world.domain)

    def count_tokens(self, text: str) -> int:
        """Count tokens with the model's tokenizer, or, where it is not at hand, about as many."""
        count = self.model.count_tokens(text)
        return approximate_tokens(text) if count is None else count

    def remember(self, observation: Observation) -> None:
        """Let working memory take in an observation."""
        if self.working_memory is None:
            return
        now = self.clock()
        for seen in observation.seen:
            if GONE in seen.states:
                self.working_memory.forget(seen.word, seen.instance)
                continue
            name = name_of(seen.word, seen.instance, self.world.domain)
            self.working_memory.see(
                seen.word, seen.instance, name=name, room=seen.room, place=seen.place, held=seen.held, time=now
            )
        if observation.looked_into is not None:
            self.working_memory.looked_into(observation.looked_into, time=now)
