"""ReAct (Yao et al., 2023): one agent node that thinks and acts, and does not expand (paper, section 5.1)."""

from __future__ import annotations

from dataclasses import replace

from reactree_ros.planners.fixed_example import fix_example
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import RunContext


def react(instruction: str, context: RunContext) -> AgentNode:
    """Build the tree for an instruction: one agent node, which stays alone; without memory, with a fixed example."""
    context.options = replace(context.options, control_flows=())
    fix_example(context, "react")
    return AgentNode(instruction, context)
