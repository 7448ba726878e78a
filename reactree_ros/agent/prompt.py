"""The prompt of an agent node (paper, appendix E.1), byte for byte as the recordings have it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reactree_ros.agent.decision import ControlFlow

_INTRODUCTION = "You are an advanced robot with ability to {}. You can perform one of the following tasks:"
_TREE_ABILITIES = "think, act, and expand behavior tree nodes in decision-making process"
_FLAT_ABILITIES = "think and act"
_THINK = "1. Think: Use reasoning to satisfy the current goal condition."
_ACT = (
    "2. Act: Execute a specific action to accomplish the current goal condition. "
    "You should use one of actions of this list: [{actions}]"
)
_EXPAND = (
    "3. Expand: Decompose the current goal condition into more detailed subgoals. When expanding, generate "
    "appropriate control flow and subgoals. Control flow can be "
)
_PHRASES = {
    ControlFlow.SEQUENCE: "in sequence",
    ControlFlow.FALLBACK: "using a fallback strategy",
    ControlFlow.PARALLEL: "in parallel",
}


class Domain(enum.Enum):
    """The household whose system text a prompt starts with."""

    WAH_NL = "wah_nl"
    ALFRED = "alfred"


_ACTIONS = {
    Domain.WAH_NL: ("go to", "pick up", "put down", "open", "close", "turn on"),
    Domain.ALFRED: ("go to", "pick up", "put down", "slice", "open", "close", "turn on", "turn off"),
}
_CONTROL_FLOW_TEXTS = {
    Domain.WAH_NL: {
        ControlFlow.SEQUENCE: (
            '"sequence" (achieve subgoals sequentially; if any subgoal fails, the sequence is interrupted)'
        ),
        ControlFlow.FALLBACK: (
            '"fallback" (attempt subgoals in order until one succeeds; if a subgoal is successful, the remaining '
            "subgoals are not attempted)"
        ),
        ControlFlow.PARALLEL: (
            '"parallel" (achieve subgoals in parallel; this enables tasks to continue independently, even if one '
            "subgoal fails)"
        ),
    },
    Domain.ALFRED: {
        ControlFlow.SEQUENCE: (
            '"sequence" (achieve subgoals sequentially. If any subgoal fails, the sequence is interrupted)'
        ),
        ControlFlow.FALLBACK: (
            '"fallback" (Attempt subgoals in order until one succeeds. If a subgoal is successful, the remaining '
            "subgoals are not attempted)"
        ),
    },
}
#: Control flows that a domain's system text speaks of.
CONTROL_FLOWS = {domain: tuple(texts) for domain, texts in _CONTROL_FLOW_TEXTS.items()}


def name_of(word: str, instance: int, domain: Domain) -> str:
    """Return what one thing is called: ``juice 1``, in ALFRED ``Juice (1)``."""
    return f"{word} ({instance})" if domain is Domain.ALFRED else f"{word} {instance}"


@dataclass(frozen=True)
class Siblings:
    """Where a child agent node stands: its parent's goal, the control flow over it, all subgoals at its level."""

    goal: str
    control_flow: ControlFlow
    subgoals: tuple[str, ...]


def system_text(domain: Domain, *, control_flows: Sequence[ControlFlow] | None = None, recall: bool = True) -> str:
    """Return the system text (paper, listings 1, 2, 5 and 6).

    Args:
        domain: Which household.
        control_flows: What an expansion may use (paper, section 5.4); None: all of the household's (ReAcTree); empty:
            without the Expand task (ReAct).
        recall: With working memory's ``recall location of`` action or without.
    """
    actions = [*_ACTIONS[domain], *(["recall location of"] if recall else []), "done", "failure"]
    act = _ACT.format(actions=", ".join(actions))
    texts = _CONTROL_FLOW_TEXTS[domain]
    *first, last = [text for flow, text in texts.items() if control_flows is None or flow in control_flows] or [""]
    if not last:
        return "\n".join([_INTRODUCTION.format(_FLAT_ABILITIES), _THINK, act])
    listed = f"{', '.join(first)}{',' if len(first) > 1 else ''} or {last}" if first else last
    return "\n".join([_INTRODUCTION.format(_TREE_ABILITIES), _THINK, act, f"{_EXPAND}{listed}."])


def header(subgoal: str, siblings: Siblings | None, observation: str) -> str:
    """Return the first lines of an agent node's text: where it stands, its task, its starting observation."""
    lines = []
    if siblings is not None:
        *first, last = siblings.subgoals
        names = f"{', '.join(first)}, and {last}" if first else last
        lines.append(f"Your primary goal is to: {siblings.goal}")
        lines.append(
            f"To achieve this, you should perform your sibling tasks {_PHRASES[siblings.control_flow]}. "
            f"At this level, your sibling tasks are: {names}."
        )
    lines.append(f"Your task is to: {subgoal}")
    return "\n".join([*lines, observation, ""])


TARGET = "\nTarget_domain:\n"
"""What separates system text and examples from the agent node's own text."""


def shortened(examples: Sequence[str], excess: int, *, count: Callable[[str], int]) -> list[str]:
    """Return what is left of in-context examples, the most similar first, once so many tokens are gone.

    Args:
        examples: The examples.
        excess: Tokens that are too many.
        count: Counts the tokens of a text.
    """
    kept = list(examples)
    while kept and excess > 0:
        excess -= count(kept.pop())
    return kept


def prompt_start(system: str, examples: Sequence[str]) -> str:
    """Return what stands before an agent node's own text: system text and in-context examples."""
    return f"{system}\nSource domain:\n{chr(10).join(examples)}{TARGET}"
