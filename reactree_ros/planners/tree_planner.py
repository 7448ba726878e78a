"""Tree-Planner (Hu et al., 2024): plans are sampled, merged into an action tree, and decided upon step by step."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

from reactree_ros.agent.decision import DONE, Think
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Choice, FreeText, Reply
from reactree_ros.planners.action_tree import ActionTree
from reactree_ros.planners.plan import PlanNode, steps_of, tidied
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.program_node import Program, ProgramError, Step, Wait
from reactree_ros.world.port import Observation, Outcome

_AMONG = "Among the following actions, which action would you take."


class TreePlannerNode(PlanNode):
    """Samples plans, then goes down their action tree, choosing among what the plans do next (paper, listing 4).

    Where only one step comes next, it is taken unasked. A step that fails takes what comes after it along; the choice
    then is at the nearest step before it that has something left. What was done by then stays done.

    Status:
        SUCCESS where the end of a plan is chosen.
        FAILURE where every plan has failed.
        Otherwise as :class:`~reactree_ros.tree.program_node.ProgramNode`.

    Its text is what it was told, offered and chose.

    Args:
        instruction: What to do.
        context: What the nodes of the run share.
        plans: How many plans are sampled.
        temperature: Of the sampling.
        top_p: Of the sampling.

    Attributes:
        action_tree: The merged plans; None before they are there.
    """

    def __init__(self, instruction: str, context: RunContext, *, plans: int, temperature: float, top_p: float) -> None:
        super().__init__(instruction, context)
        self.action_tree: ActionTree | None = None
        self._plans = plans
        self._temperature = temperature
        self._top_p = top_p

    def program(self) -> Program:
        """Sample plans, merge them, and go down the tree."""
        survey: Observation = yield Wait("description of the world", self._context.world.survey())
        plans = yield from self._sample((yield from self.plan_prompt(survey)), survey)
        at: ActionTree | None = ActionTree.merge(plans)
        self.action_tree = at
        near: Observation = yield Wait("observation", self._context.world.observe())
        self.text = f"Currently, {near.text[:1].lower()}{near.text[1:]}\nYour task is to: {self.subgoal}\n"
        objection, reply = "", Reply("")
        done: list[str] = []
        while at is not None and at.branches:
            step, reply = yield from self._choose(at.branches, objection, reply)
            if step.step == DONE:
                self.lesson = f"{survey.text}\nYour task is to: {self.subgoal}\n{chr(10).join([*done, DONE])}"
                return True
            near = yield from self.take(step.step, reply, near)
            if near.outcome is Outcome.DONE:
                objection, at = "", step
                done.append(step.step)
                self.text += f"{near.text}\n"
            else:
                objection = f'The action: "{step.step}" caused an error: {near.text} '
                at = step.failed()
        self.feedback_message = "no plan is left" if plans else "no plan has a step that can be read"
        return False

    def _sample(self, start: str, survey: Observation) -> Generator[Step, Any, list[list[str]]]:
        """Ask for all plans at once; together they count as one decision. Steps that make no sense are left out."""
        context, known = self._context, set(steps_of(survey))
        if (limit := context.budget.reached()) is not None:
            raise ProgramError(limit.value)
        context.budget.count_decision()
        asked = [
            context.model.decide(
                replace(
                    self.request(start, FreeText(("\n\n", f"\n{DONE}"))),
                    temperature=self._temperature,
                    top_p=self._top_p,
                    seed=context.options.seed * self._plans + number,
                )
            )
            for number in range(self._plans)
        ]
        plans = []
        try:
            for pending in asked:
                reply: Reply = yield Wait("plan", pending)
                context.replies.append((self.index, context.budget.decisions, reply))
                steps = [step for step in map(tidied, reply.text.splitlines()) if step in known and step != DONE]
                context.listener.decided(self, Think(", ".join(steps)), reply)
                if steps:
                    plans.append([*steps, DONE])
        finally:
            for pending in asked:
                pending.cancel()
        return plans

    def _choose(
        self, branches: Sequence[ActionTree], objection: str, before: Reply
    ) -> Generator[Step, Any, tuple[ActionTree, Reply]]:
        """Choose what comes next: one decision, or none where there is one branch alone."""
        if len(branches) == 1:
            self.text += f"{objection}The choosed action is: {branches[0].step}\n"
            return branches[0], before
        steps = {branch.step: branch for branch in branches}
        corrected = "A corrective choice of action would be: " if objection else "The choosed action is: "
        self.text += f"{objection}{_AMONG}\n{chr(10).join(steps)}\n{corrected}"
        start = prompt("tree_planner/system.txt")
        reply = yield from self.ask(self.request(f"{start}\n{self.text}", Choice(tuple(steps))))
        said = reply.text.strip()
        if said not in steps:
            raise ProgramError(f"'{said}' is none of the actions that were offered: {', '.join(steps)}")
        self.text += f"{said}\n"
        return steps[said], reply


def tree_planner(
    instruction: str, context: RunContext, *, plans: int = 25, temperature: float = 0.8, top_p: float = 0.95
) -> TreePlannerNode:
    """Build the tree for an instruction: one node, which plans first and looks while it carries out.

    Args:
        instruction: What to do, in natural language.
        context: What the nodes share.
        plans: How many plans are sampled (paper: 25 or 50), at least 1.
        temperature: Of the sampling.
        top_p: Of the sampling, above 0, at most 1.

    Raises:
        UserError: A number is out of its range.
    """
    if plans < 1:
        raise UserError(f"plans is {plans}; it must be at least 1")
    if not 0 < top_p <= 1:
        raise UserError(f"top_p is {top_p:g}; it must be above 0 and at most 1")
    if temperature < 0:
        raise UserError(f"temperature is {temperature:g}; it must not be negative")
    return TreePlannerNode(instruction, context, plans=plans, temperature=temperature, top_p=top_p)
