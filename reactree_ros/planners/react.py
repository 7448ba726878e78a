"""ReAct (Yao et al., 2023): one agent node that thinks and acts, and does not expand (paper, section 5.1)."""

from __future__ import annotations

from reactree_ros.planners.spec import AgentNodeSettings, PlannerSpec, fixed_example
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import RunContext


def flat_abilities(context: RunContext, settings: AgentNodeSettings) -> Abilities:
    names = ("react_wm", "react") if context.working_memory is not None else ("react",)
    examples = fixed_example(context.household, *names)
    return Abilities((), 0, examples, settings.break_rounds, settings.questions, more=settings.kinds)


def react(instruction: str, context: RunContext, settings: AgentNodeSettings) -> AgentNode:
    return AgentNode(instruction, context, flat_abilities(context, settings))


SPEC = PlannerSpec(
    name="react",
    summary="one agent node that thinks and acts",
    settings=AgentNodeSettings,
    build=react,
    remembers=True,
)
