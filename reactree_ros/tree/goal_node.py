"""What every node that works on a goal has, whatever planner it belongs to: its goal, its text, where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText
from reactree_ros.memory.experience import End
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.skill_leaf import SkillLeaf
from reactree_ros.world.port import Observation


class GoalNode(Composite):
    """Works on one goal; its first child is the leaf that carries its skills out.

    Attributes:
        subgoal: Its goal, in natural language.
        depth: 1 for the root, 3 for the goal nodes under it, and so on.
        text: What it said and saw so far.
        lesson: What of its text is an example for others; empty: all of it.
        index: Its number in the run, in the order in which goal nodes start, from 0.
        start: Decision count at its start, from 1.
        end: How it ended; None before.
        leaf: Carries its skills out.
    """

    def __init__(self, subgoal: str, context: RunContext, *, name: str = "", parent: GoalNode | None = None) -> None:
        """Make a node.

        Args:
            subgoal: Its goal, in natural language.
            context: What the nodes of the run share.
            name: Its name in displays; empty: the goal.
            parent: The goal node that it grows under; None for the root.
        """
        self.leaf = SkillLeaf(context)
        super().__init__(name or " ".join(subgoal.split()), children=[self.leaf])
        self.subgoal = subgoal
        self.depth: int = 1 if parent is None else parent.depth + 2
        self.text = self.lesson = ""
        self.index = 0
        self.start = 0
        self.end: End | None = None
        self._context = context
        self._requests = 0

    def setup(self, **kwargs: Any) -> None:
        """Nothing to set up: model and world are there."""

    def request(
        self,
        prompt: str,
        may_say: DecisionGrammar | Choice | FreeText,
        said: tuple[tuple[int, int], ...] = (),
    ) -> DecisionRequest:
        """Make a request to the language model with the run's options, and an id that is unique within the run.

        Args:
            prompt: The whole text so far.
            may_say: What the reply is held to.
            said: Where in the prompt the model itself spoke.
        """
        self._requests += 1
        options = self._context.options
        return DecisionRequest(
            prompt=prompt,
            may_say=may_say,
            max_tokens=options.max_tokens,
            temperature=options.temperature,
            seed=options.seed,
            id=f"{self.index}.{self._requests}",
            said=said,
            planner=self._context.planner,
        )

    def _keep(self, observation: Observation) -> None:
        """Let working memory take in what came of the leaf's skill, and keep the picture."""
        context = self._context
        context.remember(observation)
        if observation.picture is not None:
            context.pictures.append((context.budget.steps, self.leaf.name, observation.picture))

    def _begin(self) -> None:
        """Start from the beginning, as the next goal node of the run."""
        for child in self.children:
            if child.status != Status.INVALID:
                child.stop(Status.INVALID)
        for child in self._grown():
            self.remove_child(child)
        self.text, self.lesson, self.end, self.feedback_message = "", "", None, ""
        self._requests = 0
        self.index = len(self._context.nodes)
        self._context.nodes.append(self)
        self.start = self._context.budget.decisions + 1

    def _grown(self) -> Sequence[Behaviour]:
        return self.children[1:]
