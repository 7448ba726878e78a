"""A rule-based household policy in place of a language model: it reads prompts and makes decisions."""

from reactree_ros.household.expert.model import decide

__all__ = ["decide"]
