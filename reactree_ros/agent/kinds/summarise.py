"""Summaries of what a node has done."""

from __future__ import annotations

from dataclasses import dataclass

from reactree_ros.agent.decision import Look
from reactree_ros.agent.kinds.think import Aside


@dataclass(frozen=True)
class Summarise(Aside):
    """A thought that says what was done and seen before, so that it need not be shown any more (section 3.3)."""

    name = "summarise"
    look = Look("Summarise", "{summarise}")

    summary: str


def summarised(thought: str, summary: str) -> Summarise:
    return Summarise(thought, summary)
