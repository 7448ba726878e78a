"""ReAcTree: an agent node that grows a tree of agent nodes (paper, section 4)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from reactree_ros.agent.decision import ALL_CONTROL_FLOWS, ControlFlow
from reactree_ros.planners.fixed_example import fixed_example
from reactree_ros.planners.spec import AgentNodeSettings, PlannerSpec
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import RunContext

#: What an expansion may use, by the names of the paper's ablation (section 5.4).
CONTROL_FLOWS = {
    "all": ALL_CONTROL_FLOWS,
    "seq+fb": (ControlFlow.SEQUENCE, ControlFlow.FALLBACK),
    "seq": (ControlFlow.SEQUENCE,),
}


class ReactreeSettings(AgentNodeSettings):
    """Options of ReAcTree."""

    control_flow: Literal["all", "seq+fb", "seq"] = Field(
        default="all", description="what an expansion may use (section 5.4)"
    )
    summarise_after: int = Field(
        default=0,
        ge=0,
        description="tokens of a node's own turns above which the older half is summarised in its prompt; 0: never",
    )
    re_expand: int = Field(
        default=0, ge=0, description="after how many failed expansions a node decides again, told what failed and why"
    )


def reactree(instruction: str, context: RunContext, settings: ReactreeSettings) -> AgentNode:
    """Build the tree for an instruction: one agent node; the rest grows."""
    household = context.household
    flows = tuple(flow for flow in CONTROL_FLOWS[settings.control_flow] if flow in household.control_flows)
    few = "" if flows == tuple(household.control_flows) else f"_{settings.control_flow.replace('+', '_')}"
    names = [f"reactree_wm{few}"] if context.working_memory is not None else []
    examples = fixed_example(household, *names, f"reactree{few}")  # without recalls it is an example, too
    abilities = Abilities(
        flows,
        settings.summarise_after,
        examples,
        settings.break_rounds,
        questions=settings.questions,
        re_expand=settings.re_expand,
    )
    return AgentNode(instruction, context, abilities)


SPEC = PlannerSpec(
    name="reactree",
    summary="agent nodes that think, act and expand into a growing tree",
    settings=ReactreeSettings,
    build=reactree,
    remembers=True,
)
