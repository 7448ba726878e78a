"""For which planner a model was trained, as ``reactree train`` writes it into the model's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json, text_of

#: The file in a model's folder that says how it was trained.
ABOUT = "training.json"


def trained_for(model: str | Path) -> tuple[str, ...]:
    """Return the planners, with their options, that a model was trained for; none where its folder does not say.

    Args:
        model: Its folder; whatever else names a model says nothing.
    """
    try:
        named = parse_json(text_of(Path(model) / ABOUT))["planner"]
    except (UserError, ValueError, KeyError, TypeError):
        return ()
    return tuple(named.split(",")) if isinstance(named, str) else ()


def as_trained(planner: str, trained: Sequence[str]) -> str:
    """Return a planner that is named without options as a language model was trained for it; any other as it is.

    Args:
        planner: The planner; empty: the first one that it was trained for, if any.
        trained: Those that the language model was trained for.
    """
    if not planner:
        return next(iter(trained), "")
    alike = [one for one in trained if one.partition(":")[0] == planner]
    return alike[0] if len(alike) == 1 else planner


def strange(planner: str, trained: Sequence[str]) -> str:
    """Say that a language model was trained for other planners than one; empty where it was not.

    Args:
        planner: The planner, with its options.
        trained: Those that it was trained for; none: it is for any.
    """
    if not trained or _prompts(planner) in map(_prompts, trained):
        return ""
    return f"{planner}: the language model was trained for {', '.join(trained)}, and may say nothing of use"


def _prompts(planner: str) -> tuple[str, frozenset[str]]:
    """What a planner's prompts depend on: its name and options, but for what only leaves skills out."""
    name, *options = planner.split(":")
    return name, frozenset(option for option in options if not option.startswith("break_rounds="))
