"""Shows a run in the terminal as it happens: the growing tree, each decision, each observation, the result."""

from __future__ import annotations

import py_trees
from py_trees.common import Status
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from reactree_ros.agent.decision import Act, Decision, Expand
from reactree_ros.agent.turns import Said
from reactree_ros.episode import EpisodeResult
from reactree_ros.llm.port import Reply
from reactree_ros.tree.context import Listener
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.skill_leaf import SkillLeaf
from reactree_ros.world.port import Observation, Outcome

_STYLES = {Status.SUCCESS: "green", Status.FAILURE: "red", Status.RUNNING: "blue", Status.INVALID: "yellow"}
_MARKS = {Status.SUCCESS: "✓", Status.FAILURE: "✗", Status.RUNNING: "→", Status.INVALID: "·"}


class TerminalListener(Listener):
    """Prints what happens, indented by where in the tree it happens.

    Args:
        console: Where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console

    def node_started(self, node: GoalNode) -> None:
        """Print the agent node's subgoal."""
        self._print(node, f"● {node.name}", "bold")

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        """Print the decision; an expansion as the branch that grows."""
        if isinstance(decision, Expand):
            self._print(node, f"  ⊕ {decision.control_flow.value}", "magenta")
            for subgoal in decision.subgoals:
                self._print(node, f"    ○ {subgoal}", "magenta")
        else:
            self._print(node, f"  {decision}", "cyan" if isinstance(decision, Act) else "")

    def refused(self, node: GoalNode, said: Said, reason: str) -> None:
        """Print what was not carried out, and why."""
        self._print(node, f"  {said.text}", "yellow")
        self._print(node, f"  ✗ {reason}", "yellow")

    def shortened(self, node: GoalNode, dropped: int, excess: int) -> None:
        """Print that examples were dropped."""
        self._print(node, f"  the prompt was {excess} tokens too long: {dropped} examples dropped", "yellow")

    def observed(self, node: GoalNode, observation: Observation) -> None:
        """Print the observation."""
        self._print(node, f"    {observation.text}", "dim" if observation.outcome is Outcome.DONE else "yellow")

    def node_ended(self, node: GoalNode) -> None:
        """Print how the agent node ended."""
        mark, style = _MARKS[node.status], _STYLES[node.status]
        self._print(node, f"{mark} {node.name}: {node.feedback_message}", style)

    def _print(self, node: GoalNode, text: str, style: str) -> None:
        words = text.lstrip(" ")
        indent = 2 * (node.depth - 1) + len(text) - len(words)
        self._console.print(Padding(Text(words, style=style), (0, 0, 0, indent), expand=False))


def show_tree(root: py_trees.behaviour.Behaviour, console: Console) -> None:
    """Print the whole tree: agent nodes and control flow, with how each ended."""
    for behaviour, depth in _walk(root, 0):
        mark, style = _MARKS[behaviour.status], _STYLES[behaviour.status]
        kind = "" if isinstance(behaviour, GoalNode) else " ⊕"
        console.print(Text(f"{'  ' * depth}{mark}{kind} {behaviour.name}", style=style, overflow="ellipsis"))


def _walk(behaviour: py_trees.behaviour.Behaviour, depth: int) -> list[tuple[py_trees.behaviour.Behaviour, int]]:
    found = [(behaviour, depth)]
    for child in behaviour.children:
        if not isinstance(child, SkillLeaf):
            found += _walk(child, depth + 1)
    return found


def show_result(result: EpisodeResult, console: Console) -> None:
    """Print what came of a run in one or two lines."""
    word, style = ("Success", "bold green") if result.achieved else ("Not achieved", "bold red")
    score = "" if result.gsr is None else f", GSR {result.gsr:.2f}, SSR {result.ssr:.2f}"
    console.print(Text(f"{word} (end: {result.end}{score})", style=style))
    console.print(
        f"{result.decisions} decisions, {result.steps} steps, {result.agent_nodes} agent nodes, "
        f"depth {result.max_depth}, {result.seconds:.2f} s",
        highlight=False,
    )
    if result.prompt_tokens:
        cached = "" if result.cached_tokens is None else f" ({result.cached_tokens / result.prompt_tokens:.0%} cached)"
        reasoning = f" ({result.reasoning_tokens} of them reasoning)" if result.reasoning_tokens else ""
        console.print(
            f"{result.prompt_tokens} prompt tokens{cached}, {result.output_tokens} output tokens{reasoning}, "
            f"{result.model_seconds:.2f} s of the language model",
            highlight=False,
        )
    if result.message:
        console.print(Text(result.message, style="red"))
