"""ZSP (Huang et al., 2022): the whole plan from the task and the world's description, then carried out unseen."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from functools import partial

import numpy as np

from reactree_ros.agent.decision import DONE, Think
from reactree_ros.errors import UserError
from reactree_ros.llm.port import FreeText, Reply
from reactree_ros.memory.embedding import Embedder, checked_vectors, default_embedder
from reactree_ros.planners.plan import PlanNode, steps_of, tidied
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.program_node import Program, Wait
from reactree_ros.world.port import Observation, Outcome
from reactree_ros.world.worker import Worker

_LINE_TOKENS = 48


class ZspNode(PlanNode):
    """Generates a plan step by step, each mapped to the nearest step that makes sense, and then carries it out.

    Status:
        SUCCESS where every step of the plan was carried out.
        FAILURE where one was not; the rest is carried out nevertheless.
        Otherwise as :class:`~reactree_ros.tree.program_node.ProgramNode`.

    Its text is the description of the world, the task and the plan, as listing 3 of the paper has it, then what came
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
        survey: Observation = yield Wait("description of the world", self._context.world.survey())
        start = yield from self.plan_prompt(survey)
        worker = Worker("sentence-embedding")
        try:
            mapping = yield Wait("embedding of the steps", worker.do(lambda: Mapping(steps_of(survey), self._embedder)))
            plan: list[str] = []
            reply = Reply("")
            while len(plan) < self._max_plan:
                request = self.request(start + "".join(f"{step}\n" for step in plan), FreeText(("\n",)))
                reply = yield from self.ask(replace(request, max_tokens=_LINE_TOKENS))
                step = yield Wait("embedding of a step", worker.do(partial(mapping.nearest, reply.text)))
                self._context.listener.decided(self, Think(f"{reply.text.strip()} → {step}"), reply)
                self.text += f"{step}\n"
                plan.append(step)
                if step == DONE:
                    break
        finally:
            worker.close()
        self.lesson = self.text.rstrip("\n")
        failed = 0
        near = survey
        for step in plan:
            if step != DONE:
                near = yield from self.take(step, reply, near)
                self.text += f"\n{step}: {near.text}"
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


def zsp(instruction: str, context: RunContext, *, max_plan: int = 50) -> ZspNode:
    """Build the tree for an instruction: one node, which plans without looking.

    Args:
        instruction: What to do, in natural language.
        context: What the nodes share.
        max_plan: Longest plan, in steps.

    Raises:
        UserError: What embeds sentences is not installed.
    """
    if importlib.util.find_spec("sentence_transformers") is None:
        raise UserError("planner 'zsp' needs sentence-transformers: pip install 'reactree_ros[memory]'")
    return ZspNode(instruction, context, max_plan=max_plan, embedder=default_embedder())
