"""The fixed example that stands in for episodic memory (paper, section 5.3)."""

from __future__ import annotations

import contextlib

from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt_files import prompt


def fixed_example(household: Household, *names: str) -> tuple[str, ...]:
    """Return a household's fixed example for a planner: a trajectory; of a tree, all agent nodes' one after the other.

    Args:
        household: Whose prompt folder it is in; one without such a file has no fixed example.
        names: What the file is called without its ending, e.g. ``reactree_wm``; the first that is there counts.
    """
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            return (prompt(household.prompts, f"{name}.txt"),)
    return ()
