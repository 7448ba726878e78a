"""Which nodes of BehaviorTree.CPP 4 stand for which of a routine, what its ports hold, and what has no counterpart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reactree_ros.agent.skill import Skill
from reactree_ros.routine.model import Fallback, Sequence

#: The kinds of node that a nodes model knows, and that the explicit form ``<Action ID="…"/>`` names.
KINDS = ("Action", "Condition", "Control", "Decorator")
#: What an element may carry that only tells people, or Groot2, about it.
LABELS = frozenset({"name", "_uid", "_fullpath", "_description", "_favorite"})

#: Sequences and fallbacks by what they remember: with memory they go on where they were, as py_trees' do with
#: ``memory=True``; without, every tick begins with the first child.
TURNS: Mapping[str, tuple[type[Sequence] | type[Fallback], bool]] = {
    "Sequence": (Sequence, True),
    "ReactiveSequence": (Sequence, False),
    "Fallback": (Fallback, True),
    "ReactiveFallback": (Fallback, False),
}
#: Decorators by what they do, with the port that counts; -1 there: for ever.
DECORATORS = {
    "Inverter": ("invert", ""),
    "ForceSuccess": ("succeed", ""),
    "ForceFailure": ("fail", ""),
    "RetryUntilSuccessful": ("retry", "num_attempts"),
    "Repeat": ("repeat", "num_cycles"),
}
#: Ends with the first failure; all have to succeed.
PARALLEL, ALL_SUCCEED = "Parallel", {"success_count": "-1", "failure_count": "1"}
#: Every child runs to its end; then so many failures make it one.
TO_THE_END, MOST_FAILURES = "ParallelAll", "max_failures"
#: A time limit, in milliseconds.
TIMEOUT, MSEC = "Timeout", "msec"
#: Leaves that end at once, and whether they succeed.
ALWAYS = {"AlwaysSuccess": True, "AlwaysFailure": False}
SUBTREE, AUTOREMAP = "SubTree", "_autoremap"

AGENT, SKILL, SEARCH, WAIT, HOLDS = "AgentNode", "Skill", "Search", "WaitFor", "Holds"
REPEAT, WHILE = "RepeatUntil", "While"
_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: Nodes of BehaviorTree.CPP without a counterpart, each with the reason.
WITHOUT: Mapping[str, str] = {name: why for why, names in _TABLES["without"].items() for name in names}
#: The nodes of this package by name: the kind of each, what it does, and its ports with what they hold.
OWN: Mapping[str, Mapping[str, Any]] = _TABLES["own"]
#: Every name that no skill may have in a file.
RESERVED = frozenset(
    {*TURNS, *DECORATORS, *ALWAYS, *WITHOUT, *OWN, *KINDS, PARALLEL, TO_THE_END, TIMEOUT, SUBTREE, "root", "Root"}
)
#: How a skill has to end, where that is not well.
EXPECTED = "_expected"
#: What a tree carries: what its routine is called and for, and that several robots share a parallel.
NAME, GOAL, SHARED = "_name", "_goal", "_shared"
#: The types of a role that other programs write, by the kind that stands for them.
TYPES = {
    "text": ("std::string", "string", "AnyTypeAllowed"),
    "number": ("int", "unsigned", "unsigned int", "float", "double"),
}
_POINTER = re.compile(r"\{[^{}]+\}")


def most_failures(children: int) -> int:
    """Return after how many failures of so many children most of them have not succeeded."""
    return (children + 1) // 2


def as_port(text: str) -> str:
    """Write a text as a port's value.

    What begins and ends with a brace is a reference for BehaviorTree.CPP. A text that does, and is none, is put in
    single quotes.
    """
    return f"'{text}'" if _is_quoted(text) else text


def of_port(value: str) -> str:
    return value[1:-1] if value[:1] == value[-1:] == "'" and _is_quoted(value[1:-1]) else value


def _is_quoted(text: str) -> bool:
    while len(text) > 1 and text[0] == text[-1] == "'":
        text = text[1:-1]
    inner = text.strip(" ")
    return inner[:1] == "{" and inner[-1:] == "}" and not _POINTER.fullmatch(text)


#: What may be the name of a node or of a port, for XML and for BehaviorTree.CPP.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def by_node_name(skills: Iterable[Skill]) -> dict[str, Skill]:
    """Return skills by the names of their nodes; one whose names cannot be written in XML has none."""
    found: dict[str, Skill] = {}
    for skill in skills:
        name = skill.name.replace(" ", "_")
        ports = all(_NAME.fullmatch(port) and port not in ("name", "ID") for port in skill.parameters)
        if ports and _NAME.fullmatch(name) and name not in RESERVED:
            found.setdefault(name, skill)
    return found
