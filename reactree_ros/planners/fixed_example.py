"""The fixed example in place of episodic memory (paper, section 5.3)."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from reactree_ros.agent.example import Example
from reactree_ros.agent.household import Household
from reactree_ros.agent.prompt_files import prompt


def fixed_example(household: Household, *names: str) -> tuple[Example, ...]:
    """Return a household's fixed example for a planner: a trajectory or, for a tree, those of all agent nodes.

    A file ``NAME_short.txt`` beside it is the example for prompts that the long one does not fit into. That of a tree
    has sequences and fallbacks alone, so that it serves ``NAME_seq_fb``, too.
    """
    for name in names:
        if long := _of_file(household, name):
            return (replace(long, short=_of_file(household, f"{name.removesuffix('_seq_fb')}_short")),)
    return ()


def _of_file(household: Household, name: str) -> Example | None:
    with contextlib.suppress(FileNotFoundError):
        return Example.of_text(prompt(household.prompts, f"{name}.txt"), start_line=household.start_line)
    return None
