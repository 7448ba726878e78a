"""Plans of skills in words, made before anything is seen: what ZSP and Tree-Planner have in common (appendix C).

A plan's steps name no instance of what is picked up or put down (``pick up apple``): nothing is seen yet that could
tell one from another. Which one it is shows when the step is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Sequence
from typing import Any

from reactree_ros.agent.decision import DONE, Act
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.llm.port import Reply
from reactree_ros.tree.program_node import ProgramNode, Step, Wait
from reactree_ros.world.port import Observation, Outcome

_CARRIED = ("pick up ", "put down ")
_DOORS, _SWITCHES = {"OPEN", "CLOSED"}, {"ON", "OFF"}
#: What models put before a step of a list.
_MARK = re.compile(r"^(?:[-*]|(?:step\s*)?\d+\s*[.:)])\s*", re.IGNORECASE)
_INSTANCE = re.compile(r" \d+$")


def tidied(line: str) -> str:
    """Return a step as it is compared: without list mark and final full stop, and, where it is carried, instance."""
    step = " ".join(_MARK.sub("", line.strip()).rstrip(".").lower().split())
    return _INSTANCE.sub("", step) if step.startswith(_CARRIED) else step


def steps_of(survey: Observation) -> list[str]:
    """List the steps that make sense in a world of which everything is told, with ``done`` at the end."""
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
    """Return the available skill that a step stands for; of several instances, one that is near or held.

    Args:
        step: A step of a plan.
        available: The skills that may be tried now.
        near: What was seen last.
    """
    if not step.startswith(_CARRIED):
        return step if step in available else None
    found = [skill for skill in available if _INSTANCE.sub("", skill) == step]
    held = step.startswith("put down ")
    names = tuple(f" {seen.word} {seen.instance}" for seen in near.seen if seen.held is held)
    return next((skill for skill in found if skill.endswith(names)), found[0] if found else None)


class PlanNode(ProgramNode):
    """What nodes that plan before they look share; see :class:`~reactree_ros.tree.program_node.ProgramNode`."""

    def plan_prompt(self, survey: Observation) -> Generator[Step, Any, str]:
        """Return the prompt for a plan (paper, listing 3), and begin the text with what it says of the task."""
        context = self._context
        examples = (yield from self.find_examples()) or (prompt(f"{context.world.domain.value}/plan.txt"),)
        self.text = f"{survey.text}\nYour task is to: {self.subgoal}\n"
        return f"{prompt('plan/system.txt')}\nSource domain:\n{chr(10).join(examples)}\nTarget_domain:\n{self.text}"

    def take(self, step: str, reply: Reply, near: Observation) -> Generator[Step, Any, Observation]:
        """Carry a step of a plan out; where no skill that is available fits, nothing is done and the text says so.

        Args:
            step: The step.
            reply: The reply in which it was decided.
            near: What was seen last.
        """
        context = self._context
        available: Sequence[str] = yield Wait("skills", context.world.available_skills())
        skill = skill_for(step, available, near)
        if skill is None:
            reason = f"'{step}' is not executable now."
            context.listener.refused(self, str(Act(step)), reason)
            return Observation(reason, Outcome.PRECONDITION)
        context.listener.decided(self, Act(skill), reply)
        return (yield from self.execute(skill))
