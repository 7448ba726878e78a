"""Plans of skills in words, made without seeing: the common part of ZSP and Tree-Planner (appendix C).

A plan's steps name no instance to pick up or put down (``pick up apple``), because instances are unknown without
seeing. The instance is chosen when the step is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable
from typing import Any

from reactree_ros.agent.decision import DONE
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.prompt import prompt, task_turn
from reactree_ros.agent.skill import lines_of
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import Said, Saw
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Reply
from reactree_ros.planners.spec import fixed_example
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.program_node import Step
from reactree_ros.world.port import Observation, Outcome

#: Folder of the prompts of planners that plan first.
PROMPTS = "reactree_lab.planners:prompts"

_CARRIED = ("pick up ", "put down ")
_DOORS, _SWITCHES = {"OPEN", "CLOSED"}, {"ON", "OFF"}
_EMPHASIS = re.compile(r"[*`\"“”]|\B'|'\B")
#: Marks that models put before a step of a list.
_MARKS = re.compile(r"^(?:(?:[-+•>]|#+|\[[ x]?\]|\(?\d+\s*[.:)]|(?:step|action|act)\s*(?:\d+\s*)?[.:)-])\s*)+")
_ARTICLE = re.compile(r"\b(?:the|an?) ")
_BRACKETED = re.compile(r"(?<!\s)\s*(?:\(#?|#)(\d+)\)?")
#: A remark of the model after a step, unless it doubts or changes the step.
_REMARK = re.compile(r" [-–—(]")
_TAKES_BACK = re.compile(r"\b(?:no|not|never|skip|or|if|unless|instead)\b|n't")
_INSTANCE = re.compile(r" \d+$")


def tidied(line: str) -> str:
    """Return a step in a form to compare: lower case, without decoration and without the instance of a carried thing.

    It is empty if the line has nothing else.
    """
    step = _MARKS.sub("", _EMPHASIS.sub("", line).strip().lower())
    step = _without_remark(_BRACKETED.sub(r" \1", _ARTICLE.sub("", step)))
    step = " ".join(step.rstrip(".,;:! ").split())
    return _INSTANCE.sub("", step) if step.startswith(_CARRIED) else step


def _without_remark(step: str) -> str:
    last = max((match.start() for match in _TAKES_BACK.finditer(step)), default=0)
    remark = _REMARK.search(step, last)
    return step[: remark.start()] if remark else step


def only_introduces(line: str) -> bool:
    """Return whether a line is not a step: a heading, a code fence, a mark alone, or a line that ends with a colon."""
    bare = _EMPHASIS.sub("", line).strip()
    return not tidied(line) or bare.endswith(":") or line.lstrip().startswith(("#", "```", "~~~"))


def steps_of(survey: Observation) -> list[str]:
    """List the sensible steps in a fully described world, with ``done`` at the end."""
    going = [f"go to {room}" for room in survey.rooms]
    carried: dict[str, None] = {}
    operated = []
    for seen in survey.seen:
        name = f"{seen.word} {seen.instance}"
        going.append(f"go to {name}")
        carried[seen.word] = None
        if _DOORS & set(seen.states):
            operated += [f"open {name}", f"close {name}"]
        if _SWITCHES & set(seen.states):
            operated.append(f"turn on {name}")
    return [*going, *(f"{verb}{word}" for word in carried for verb in _CARRIED), *operated, DONE]


def skill_for(step: str, available: Iterable[str], near: Observation) -> str | None:
    """Return the available skill for a step; of several instances, one that is near or held."""
    if not step.startswith(_CARRIED):
        return step if step in available else None
    found = [skill for skill in available if _INSTANCE.sub("", skill) == step]
    held = step.startswith("put down ")
    names = tuple(f" {seen.word} {seen.instance}" for seen in near.seen if seen.held is held)
    return next((skill for skill in found if skill.endswith(names)), found[0] if found else None)


class PlanNode(GoalNode):
    """Common part of nodes that plan before they look; see :class:`~reactree_ros.tree.goal_node.GoalNode`."""

    def __init__(self, instruction: str, context: RunContext) -> None:
        if not context.household.naming:
            raise UserError(
                "zsp and tree_planner plan with things that have a word and a number, and the household "
                f"{context.household.name} has none; use another planner, e.g. react or reactree"
            )
        super().__init__(instruction, context)

    def begin_plan(self) -> Generator[Step, Any, Observation]:
        """Begin the prompt for a plan (paper, listing 3), and the turns with the task; return what is seen."""
        context = self.context
        survey = yield from self.survey()
        found = yield from self.find_examples()
        fixed = fixed_example(context.household, "plan") if context.fixed_example else ()
        self.begin_prompt(prompt(PROMPTS, "plan.txt"), [Example((experience.turns,)) for experience in found] or fixed)
        self.add(Saw(survey.full_text, survey), anew=True)
        self.add(task_turn(self.subgoal))
        return survey

    def take_step(self, step: str, reply: Reply, near: Observation) -> Generator[Step, Any, Observation]:
        context = self.context
        available = lines_of((yield from self.available_skills()))
        skill = skill_for(step, available, near)
        if skill is None:
            reason = f"'{step}' is not executable now."
            context.listener.refused(self, step_said(step), reason)
            return Observation(reason, Outcome.PRECONDITION)
        self.check_budget()
        context.budget.steps += 1
        context.listener.decided(self, Act(skill), reply)
        return (yield from self.perform(skill))


def step_said(step: str, words: str = "") -> Said:
    """Return a step of a plan as a turn, in these words or in those of an act."""
    act = Act(step)
    return Said(words or str(act), act)
