"""Tree-Planner (Hu et al., 2024): sampled plans are merged into an action tree, and decided upon step by step."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Sequence
from typing import Any

from pydantic import Field

from reactree_lab.planners.plan import PROMPTS, PlanNode, step_said, steps_of, tidied
from reactree_ros.agent.decision import DONE
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.prompt import prompt, task_turn
from reactree_ros.agent.turns import About, Said, Saw, Told, Turn
from reactree_ros.llm.port import Choice, FreeText, PromptTooLong, Reply
from reactree_ros.planners.spec import PlannerSettings, PlannerSpec
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import GaveUp
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.program_node import Program, Step
from reactree_ros.world.port import Observation, Outcome

_AMONG = "Among the following actions, which action would you take."
_NO_FURTHER = "The plan that was followed goes no further. "
_CHOSEN, _CORRECTED = "The choosed action is: ", "A corrective choice of action would be: "


class TreePlannerSettings(PlannerSettings):
    plans: int = Field(default=25, ge=1, description="number of plans to sample (paper: 25 or 50)")
    temperature: float = Field(default=0.8, ge=0, description="temperature of the sampling")
    top_p: float = Field(default=0.95, gt=0, le=1, description="top_p of the sampling")


class ActionTree:
    """A step of plans that are merged at their common beginnings (paper, section 3.2), with the possible next steps.

    The root has an empty step and no parent.
    """

    def __init__(self, step: str = "", parent: ActionTree | None = None) -> None:
        self.step = step
        self.parent = parent
        self.children: dict[str, ActionTree] = {}  # possible next steps, by step, in the order of the plans
        self.valid = True  # false once the step, or every step after it, has failed

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


class TreePlannerNode(PlanNode):
    """Samples plans, then goes down their action tree, choosing among the plans' next steps (paper, listing 4).

    A single next step is taken without asking. A failed step removes everything after it. The next choice is then at
    the nearest earlier step with a step left; a truncated plan that goes no further is treated the same way. Earlier
    steps stay done.

    Status:
        SUCCESS if the end of a plan is chosen.
        FAILURE if every plan has failed.
        Otherwise as for :class:`~reactree_ros.tree.goal_node.GoalNode`.

    Its turns are its messages, the offered steps and its choices.
    """

    action_tree = OfAttempt[ActionTree | None](lambda _: None)  # the merged plans; None before they exist

    def __init__(self, instruction: str, context: RunContext, settings: TreePlannerSettings) -> None:
        super().__init__(instruction, context)
        self._settings = settings

    def program(self) -> Program:
        survey = yield from self.begin_plan()
        plans = yield from self._sample(survey)
        at: ActionTree | None = ActionTree.merge(plans)
        self.action_tree = at
        near: Observation = yield from self.look_around()
        self.shown_examples = ()
        system = Told(prompt(PROMPTS, "tree_planner.txt"), About.SYSTEM)
        self.prompt_head = (system,) if self.context.system_text else ()
        self.add(Saw(f"Currently, {near.full_text[:1].lower()}{near.full_text[1:]}", near), anew=True)
        self.add(task_turn(self.subgoal))
        objection, reply = "", Reply("")
        lesson: list[Turn] = [Saw(survey.full_text, survey), task_turn(self.subgoal)]
        while at is not None and at.branches:
            step, reply = yield from self._choose(at.branches, objection, reply)
            if step.step == DONE:
                self.lesson = (*lesson, step_said(DONE, DONE))
                return True
            near = yield from self.take_step(step.step, reply, near)
            if near.outcome is Outcome.DONE:
                objection, at = ("", step) if step.branches else (_NO_FURTHER, step.failed())
                lesson.append(step_said(step.step, step.step))
                self.see(near)
            else:
                objection = f'The action: "{step.step}" caused an error: {near.text} '
                at = step.failed()
        self.feedback_message = "no plan is left" if plans else "no plan has a step that can be read"
        return False

    def _sample(self, survey: Observation) -> Generator[Step, Any, list[list[str]]]:
        """Ask for all plans at once; together they count as one decision."""
        yield from self.hold()
        self.check_budget()
        self.context.budget.count()
        while True:
            try:
                return (yield from self._sampled(set(steps_of(survey))))
            except PromptTooLong as error:
                self.shorten(error)

    def _sampled(self, known: Collection[str]) -> Generator[Step, Any, list[list[str]]]:
        context, settings = self.context, self._settings
        requests = [
            self.make_request(
                self.prompt(),
                FreeText((f"\n{DONE}\n",)),
                temperature=settings.temperature,
                top_p=settings.top_p,
                seed=context.options.seed * settings.plans + number,
            )
            for number in range(settings.plans)
        ]
        waits = [self.send(request, "plan") for request in requests]
        plans = []
        try:
            for request, wait in zip(requests, waits, strict=True):
                reply = yield from self.receive(request, wait, context.budget.decisions)
                plan = plan_of(reply, known)
                if plan:
                    context.listener.decided(self, Think(", ".join(plan)), reply)
                    plans.append(plan)
                else:
                    context.listener.refused(self, Said(reply.text.strip()), "No step of this plan is known.")
        finally:
            for wait in waits:
                wait.pending.cancel()
        return plans

    def _choose(
        self, branches: Sequence[ActionTree], objection: str, before: Reply
    ) -> Generator[Step, Any, tuple[ActionTree, Reply]]:
        if len(branches) == 1:
            (only,) = branches
            if objection:
                self.tell(objection.rstrip(), About.REFUSAL)
            self.add(step_said(only.step, f"{_CHOSEN}{only.step}"))
            return only, before
        steps = {branch.step: branch for branch in branches}
        self.tell("\n".join([f"{objection}{_AMONG}", *steps]), About.REFUSAL if objection else About.ANSWER)
        begun = _CORRECTED if objection else _CHOSEN
        reply = yield from self.ask(Choice(tuple(steps)), begun=begun)
        self.context.budget.count()
        said = reply.text.strip()
        if said not in steps:
            raise GaveUp(f"'{said}' is none of the actions that were offered: {', '.join(steps)}")
        self.add(step_said(said, f"{begun}{said}"))
        return steps[said], reply


def plan_of(reply: Reply, known: Collection[str]) -> list[str]:
    """Return the plan in a reply: its lines that are known steps, up to ``done``; nothing without a step before that.

    A truncated reply has no end, and its last line is left out: it may be half a step.
    """
    lines = reply.text.split("\n")
    steps = [step for step in map(tidied, lines[:-1] if reply.cut else lines) if step in known]
    if DONE in steps:
        steps = steps[: steps.index(DONE)]
    elif reply.cut:
        return steps
    return [*steps, DONE] if steps else []


SPEC = PlannerSpec(
    name="tree_planner",
    summary="plans are sampled and merged into an action tree, then decided upon step by step",
    settings=TreePlannerSettings,
    build=TreePlannerNode,
)
