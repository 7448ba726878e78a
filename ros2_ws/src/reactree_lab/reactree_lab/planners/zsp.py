"""ZSP (Huang et al., 2022): the whole plan from the task and the world's description, carried out without looking."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from reactree_lab.planners.plan import PlanNode, only_introduces, step_said, steps_of, tidied
from reactree_ros.agent.decision import DONE
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.labels import in_lines
from reactree_ros.background.pending import Worker
from reactree_ros.llm.port import FreeText, Reply
from reactree_ros.memory.embedding import Embedder, checked_vectors, default_embedder
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import GaveUp
from reactree_ros.tree.program_node import Program, Step, Wait
from reactree_ros.world.port import Observation, Outcome

_LINE_TOKENS = 48


class ZspSettings(PlannerSettings):
    max_plan: int = Field(default=50, ge=1, description="longest plan, in steps")


class ZspNode(PlanNode):
    """Generates a plan step by step, each mapped to the nearest sensible step, and then carries it out.

    A line that only introduces the next one is a thought, not a step. An empty or truncated line is refused and asked
    for once more, then with the run's token limit. The plan ends with ``done``, or when nothing more is said.

    Status:
        SUCCESS if every step of the plan was carried out.
        FAILURE if one was not, although the rest is still carried out. Also if the reply has no step, or a line was
        truncated twice; then nothing is carried out.
        Otherwise as for :class:`~reactree_ros.tree.goal_node.GoalNode`.

    Its turns are the description of the world, the task and the plan, as in the paper's listing 3, then the result of
    every step.
    """

    def __init__(self, instruction: str, context: RunContext, *, max_plan: int, embedder: Embedder) -> None:
        super().__init__(instruction, context)
        self._max_plan = max_plan
        self._embedder = embedder

    def program(self) -> Program:
        survey = yield from self.begin_plan()
        told = tuple(self.turns)
        worker = Worker("sentence-embedding")
        try:
            embedded = worker.do(lambda: Mapping(steps_of(survey), self._embedder))
            mapping = yield Wait("embedding of the steps", embedded, next_tick=True)
            plan, reply = yield from self._plan(mapping, worker)
        finally:
            worker.close()
        self.lesson = (*told, *(step_said(step, step) for step in plan))
        failed = 0
        near = survey
        for step in plan:
            if step != DONE:
                near = yield from self.take_step(step, reply, near)
                self.tell(in_lines(f"{step}: {near.text}", first=False))
                failed += near.outcome is not Outcome.DONE
        self.feedback_message = f"{failed} of {len(plan)} steps were not executable" if failed else ""
        return not failed

    def resumed(self, seen: Observation) -> Generator[Step, Any, None]:
        """Keep the plan after a hold: it is made and carried out without looking."""
        yield from ()

    def _plan(self, mapping: Mapping, worker: Worker) -> Generator[Step, Any, tuple[list[str], Reply]]:
        """Ask for a plan; return its steps and the last reply; give up on a truncated line, or without a step."""
        context = self.context
        plan: list[str] = []
        while len(plan) < self._max_plan and plan[-1:] != [DONE]:
            reply = yield from self._line(len(plan) + 1)
            line = reply.text.strip()
            if not line:
                break
            context.budget.count()
            if tidied(line) not in mapping.steps and only_introduces(line):
                context.listener.decided(self, Think(line), reply)
                self.say(line, Think(line))
                continue
            step = yield Wait("embedding of a step", worker.do(partial(mapping.nearest, line)), next_tick=True)
            context.listener.decided(self, Think(f"{line} → {step}"), reply)
            self.add(step_said(step, step))
            plan.append(step)
        if not plan:
            raise GaveUp("no step of a plan was said, also when asked for again")
        return plan, reply

    def _line(self, number: int) -> Generator[Step, Any, Reply]:
        """Ask for a line of the plan, and once again if it is truncated or empty; then give up."""
        reply = yield from self.ask(FreeText(), max_tokens=_LINE_TOKENS)
        if reply.cut:
            self.refuse(reply.text.strip(), "This line was cut. Say one step in a few words.")
        elif not reply.text.strip():
            self.refuse("", f"Nothing was said. Say the next step of the plan, or {DONE}.")
        else:
            return reply
        reply = yield from self.ask(FreeText())
        if reply.cut:
            raise GaveUp(f"step {number} of the plan was cut twice: {reply.text.strip()[:80]!r}; raise max_tokens")
        return reply


class Mapping:
    """Maps a model's words to the nearest of some steps, by the cosine similarity of their sentence embeddings."""

    def __init__(self, steps: list[str], embedder: Embedder) -> None:
        self.steps = steps
        self._embedder = embedder
        self._vectors = checked_vectors(embedder, steps)

    def nearest(self, said: str) -> str:
        step = tidied(said)
        if step in self.steps:
            return step
        similarities = self._vectors @ checked_vectors(self._embedder, [step])[0]
        return self.steps[int(np.argmax(similarities))]


def zsp(instruction: str, context: RunContext, settings: ZspSettings) -> ZspNode:
    return ZspNode(instruction, context, max_plan=settings.max_plan, embedder=default_embedder())


SPEC = PlannerSpec(
    name="zsp",
    summary="the whole plan first, from a description of the whole house; steps are mapped by sentence embedding",
    settings=ZspSettings,
    extra="reactree_ros[memory]",
    needs=("sentence_transformers",),
    build=zsp,
)
