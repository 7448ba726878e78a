"""The planners that a model was trained for, as ``reactree lab train`` writes them into its folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json, text_of

#: The file in a model's folder that describes its training.
ABOUT = "training.json"


def trained_for(model: str | Path) -> tuple[str, ...]:
    """Return the planners, with options, that a model was trained for; none if its folder does not say."""
    try:
        named = parse_json(text_of(Path(model) / ABOUT))["planner"]
    except (UserError, ValueError, KeyError, TypeError):
        return ()
    return tuple(named.split(",")) if isinstance(named, str) else ()


def as_trained(planner: str, trained: Sequence[str]) -> str:
    """Return a planner as a model was trained for it, unless it has own options; if empty, the first of ``trained``."""
    if not planner:
        return next(iter(trained), "")
    alike = [one for one in trained if one.partition(":")[0] == planner]
    return alike[0] if len(alike) == 1 else planner


def strange(planner: str, trained: Sequence[str]) -> str:
    """Return a warning if a language model was trained for other planners, otherwise an empty text."""
    if not trained or _prompts(planner) in map(_prompts, trained):
        return ""
    return f"{planner}: the language model was trained for {', '.join(trained)}, and its decisions may be useless here"


def _prompts(planner: str) -> tuple[str, frozenset[str]]:
    """Return what a planner's prompts depend on: name and options, without options that only leave skills out."""
    name, *options = planner.split(":")
    return name, frozenset(option for option in options if not option.startswith("break_rounds="))
