"""The household of ALFRED, as its recordings have it (paper, listings 5 and 6)."""

from __future__ import annotations

from reactree_ros.agent.household import Household

#: AI2-THOR's skills, with their prompts and fixed examples.
ALFRED = Household(
    name="alfred",
    actions=("go to", "pick up", "put down", "slice", "open", "close", "turn on", "turn off"),
    control_flows={
        "sequence": ('"sequence" (achieve subgoals sequentially. If any subgoal fails, the sequence is interrupted)'),
        "fallback": (
            '"fallback" (Attempt subgoals in order until one succeeds. If a subgoal is successful, the remaining '
            "subgoals are not attempted)"
        ),
    },
    naming="{word} ({instance})",
    max_decisions=100,
    max_steps=200,
    prompts="reactree_lab.worlds.ai2thor:prompts",
)
