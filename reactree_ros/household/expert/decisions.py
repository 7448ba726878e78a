"""The expert's decisions in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reactree_ros.agent.decision import DONE, FAILURE
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.ask import Ask
from reactree_ros.agent.kinds.think import Think

DONE_SAID, FAILURE_SAID = str(Act(DONE)), str(Act(FAILURE))


def think(thought: str) -> str:
    return str(Think(thought))


def act(skill: str) -> str:
    return str(Act(skill))


def ask(question: str) -> str:
    return str(Ask(question))


def expand(control_flow: str, subgoals: Iterable[str]) -> str:
    return f"Expand:\n- control flow: {control_flow}\n- subgoals: {', '.join(subgoals)}"


def after(thought: str, decision: str, thoughts: Collection[str]) -> str:
    """Return a decision if its thought has been said, otherwise the thought."""
    return decision if thought in thoughts else think(thought)
