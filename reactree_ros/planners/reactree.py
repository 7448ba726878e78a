"""ReAcTree: an agent node that grows a tree of agent nodes (paper, section 4)."""

from __future__ import annotations

from dataclasses import replace

from reactree_ros.agent.decision import ControlFlow
from reactree_ros.errors import UserError
from reactree_ros.planners.fixed_example import fix_example
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import RunContext

#: What an expansion may use, by the names of the paper's ablation (section 5.4); None: all of the household's.
CONTROL_FLOWS = {
    "all": None,
    "seq+fb": (ControlFlow.SEQUENCE, ControlFlow.FALLBACK),
    "seq": (ControlFlow.SEQUENCE,),
}
#: How the files of their fixed examples end.
_SUFFIXES = {"seq+fb": "_seq_fb", "seq": "_seq"}


def reactree(
    instruction: str, context: RunContext, *, control_flow: str = "all", summarise_after: int = 0
) -> AgentNode:
    """Build the tree for an instruction: one agent node; the rest grows.

    Args:
        instruction: What to do, in natural language.
        context: What the agent nodes share. Where it has no examples, all agent nodes of one task together are the
            fixed example (paper, section 5.3).
        control_flow: What an expansion may use: ``all``, ``seq+fb`` or ``seq``.
        summarise_after: Tokens of an agent node's own decisions and observations above which the older half is
            summarised in its prompt, as HiAgent does; 0: never.

    Raises:
        UserError: There is no such control flow, or summarise_after is negative.
    """
    if control_flow not in CONTROL_FLOWS:
        raise UserError(f"control_flow is '{control_flow}'; it must be one of {', '.join(CONTROL_FLOWS)}")
    if summarise_after < 0:
        raise UserError(f"summarise_after is {summarise_after}; it must be a number of tokens, or 0 for never")
    context.options = replace(context.options, summarise_after=summarise_after or context.options.summarise_after)
    if control_flow != "all":
        context.options = replace(context.options, control_flows=CONTROL_FLOWS[control_flow])
    fix_example(context, "reactree", _SUFFIXES.get(control_flow, ""))
    return AgentNode(instruction, context)
