"""ZSP (Huang et al., 2022): the whole plan from the task and the world's description, then carried out unseen."""

from __future__ import annotations

from functools import partial

import numpy as np
from pydantic import Field

from reactree_ros.agent.decision import DONE, Act, Think
from reactree_ros.llm.port import FreeText, Reply
from reactree_ros.memory.embedding import Embedder, checked_vectors, default_embedder
from reactree_ros.planners.plan import PlanNode, steps_of, tidied
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import Program, Wait
from reactree_ros.worker import Worker
from reactree_ros.world.port import Outcome

_LINE_TOKENS = 48


class ZspSettings(PlannerSettings):
    """Options of ZSP."""

    max_plan: int = Field(default=50, ge=1, description="longest plan, in steps")


class ZspNode(PlanNode):
    """Generates a plan step by step, each mapped to the nearest step that makes sense, and then carries it out.

    Status:
        SUCCESS where every step of the plan was carried out.
        FAILURE where one was not; the rest is carried out nevertheless.
        Otherwise as :class:`~reactree_ros.tree.goal_node.GoalNode`.

    Its turns are the description of the world, the task and the plan, as listing 3 of the paper has it, then what came
    of every step.

    Args:
        instruction: What to do.
        context: What the nodes of the run share.
        max_plan: Longest plan, in steps.
        embedder: Embeds steps.
    """

    def __init__(self, instruction: str, context: RunContext, *, max_plan: int, embedder: Embedder) -> None:
        super().__init__(instruction, context)
        self._max_plan = max_plan
        self._embedder = embedder

    def program(self) -> Program:
        """Plan, then carry the plan out."""
        context = self._context
        survey = yield from self.begin_plan()
        worker = Worker("sentence-embedding")
        try:
            mapping = yield Wait("embedding of the steps", worker.do(lambda: Mapping(steps_of(survey), self._embedder)))
            plan: list[str] = []
            reply = Reply("")
            while len(plan) < self._max_plan:
                reply = yield from self.ask(FreeText(("\n",)), max_tokens=_LINE_TOKENS)
                context.budget.count_decision()
                step = yield Wait("embedding of a step", worker.do(partial(mapping.nearest, reply.text)))
                context.listener.decided(self, Think(f"{reply.text.strip()} → {step}"), reply)
                self.say(step, Act(step))
                plan.append(step)
                if step == DONE:
                    break
        finally:
            worker.close()
        self.lesson = tuple(self.turns)
        failed = 0
        near = survey
        for step in plan:
            if step != DONE:
                near = yield from self.take(step, reply, near)
                self.tell(f"{step}: {near.text}")
                failed += near.outcome is not Outcome.DONE
        self.feedback_message = f"{failed} of {len(plan)} steps were not executable" if failed else ""
        return not failed


class Mapping:
    """Maps what a model says to the nearest of some steps, by the cosine similarity of their sentence embeddings.

    Args:
        steps: The steps.
        embedder: Embeds them.
    """

    def __init__(self, steps: list[str], embedder: Embedder) -> None:
        self._steps = steps
        self._embedder = embedder
        self._vectors = checked_vectors(embedder, steps)

    def nearest(self, said: str) -> str:
        """Return the nearest step; the first of those that are equally near. Saying nothing means ``done``."""
        step = tidied(said)
        if not step:
            return DONE
        if step in self._steps:
            return step
        similarities = self._vectors @ checked_vectors(self._embedder, [step])[0]
        return self._steps[int(np.argmax(similarities))]


def zsp(instruction: str, context: RunContext, settings: ZspSettings) -> ZspNode:
    """Build the tree for an instruction: one node, which plans without looking."""
    return ZspNode(instruction, context, max_plan=settings.max_plan, embedder=default_embedder())


SPEC = PlannerSpec(
    name="zsp",
    summary="the whole plan first, from a description of the whole house; steps mapped by sentence embedding",
    settings=ZspSettings,
    extra="reactree_ros[memory]",
    needs=("sentence_transformers",),
    build=zsp,
)
