"""What somebody says who understands the small questions of ``reactree llm check``."""

from __future__ import annotations

_QUESTION = "After this, take the one of these actions that brings your task nearer: "


def options(prompt: str) -> list[str]:
    """Return the decisions that a prompt asks to choose from; none if it asks for something else."""
    skills = prompt.rpartition(_QUESTION)[2].partition("\n")[0].split("'")[1::2] if _QUESTION in prompt else []
    return [f"Act: {skill}" for skill in skills]


def understood(prompt: str) -> str:
    """Return the decision that goes with what was seen last; empty if none is to be chosen."""
    seen = prompt.partition("\nActions that are possible now")[0].strip().rpartition("\n")[2]
    verb = "pick up" if "You hold" not in seen else "put down" if seen.startswith("You arrive") else "go to"
    return next((option for option in options(prompt) if option.startswith(f"Act: {verb}")), "")
