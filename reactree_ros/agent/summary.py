"""Summarised observations: the request that folds what was done and seen into one line (Hu et al., appendix C.1)."""

from __future__ import annotations

import re

from reactree_ros.agent.prompt_files import prompt
from reactree_ros.agent.turns import About, Told

_NOT = re.compile(r"\b(?:not|never|no|un ?met)\b|n't\b", re.IGNORECASE)
_MET = re.compile(r"\b(?:un)?met\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.;!])\s+")


def summary_request(trajectory: str, subgoal: str) -> Told:
    """Return what asks for a summary of a trajectory and whether its subgoal is met.

    Args:
        trajectory: What was done and seen, line by line.
        subgoal: What it was done for.
    """
    asked = prompt("reactree_ros.agent:prompts", "summary.txt")
    return Told(f"{asked}\n\n## Trajectory\n{trajectory}\n\n## Subgoal:\n{subgoal}\n\n### Output:", About.TASK)


def read_summary(reply: str, otherwise: str) -> str:
    """Return the one line of a reply; where it is empty, what stands in for a summary."""
    return " ".join(reply.split()) or otherwise


def judgement(summary: str) -> bool | None:
    """Return whether a summary says that its subgoal is met; None where it does not say."""
    said = [sentence for sentence in _SENTENCE.split(summary) if _MET.search(sentence)]
    return None if not said else _NOT.search(said[-1]) is None
