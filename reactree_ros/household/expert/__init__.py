"""A rule-based household policy in the place of a language model: it reads prompts and says decisions."""

from reactree_ros.household.expert.policy import decide

__all__ = ["decide"]
