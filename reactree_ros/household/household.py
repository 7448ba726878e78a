"""The household of VirtualHome, as the WAH-NL recordings have it (paper, listings 1 and 2)."""

from __future__ import annotations

from reactree_ros.agent.household import Household

#: VirtualHome's skills, with their prompts and fixed examples.
WAH_NL = Household(
    name="wah_nl",
    actions=("go to", "pick up", "put down", "open", "close", "turn on"),
    max_decisions=200,
    max_steps=200,
    prompts="reactree_ros.household:prompts",
)

#: Extra text about the skills for a robot that holds one thing at a time.
ONE_HAND = "You have one hand: it must be empty when you pick up, open or close something."
