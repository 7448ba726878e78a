"""ReAcTree: an agent node that grows a tree of agent nodes (paper, section 4)."""

from __future__ import annotations

from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import RunContext


def reactree(instruction: str, context: RunContext) -> AgentNode:
    """Build the tree for an instruction: one agent node; the rest grows."""
    return AgentNode(instruction, context)
