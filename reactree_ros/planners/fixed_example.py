"""The fixed example in place of episodic memory (paper, section 5.3)."""

from __future__ import annotations

import contextlib

from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt_files import prompt


def fixed_example(household: Household, *names: str) -> tuple[str, ...]:
    """Return a household's fixed example for a planner: a trajectory or, for a tree, those of all agent nodes.

    Args:
        household: The household with the prompt folder; without such a file, it has no fixed example.
        names: Possible file names without their ending, e.g. ``reactree_wm``; the first existing one counts.
    """
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            return (prompt(household.prompts, f"{name}.txt"),)
    return ()
