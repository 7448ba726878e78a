"""Which nodes of BehaviorTree.CPP 4 stand for which of a routine, what its ports hold, and what has no counterpart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

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

_SCRIPT = "there are no scripts and no blackboard here"
_WAIT = "only conditions and skills are waited for: name a skill such as 'wait for {seconds} s', or use WaitFor"
_CHOICE = "it chooses by values that are not here; write it with Fallback, Sequence and Holds"
_INTERRUPTIBLE = "skills are never in one tick here, so it is a"
#: Nodes of BehaviorTree.CPP without a counterpart, each with the reason.
WITHOUT: Mapping[str, str] = {
    "SequenceWithMemory": "py_trees has no sequence that keeps its place after a failure; use Sequence",
    "AsyncSequence": f"{_INTERRUPTIBLE} Sequence",
    "AsyncFallback": f"{_INTERRUPTIBLE} Fallback",
    **dict.fromkeys(("IfThenElse", "WhileDoElse"), _CHOICE),
    **dict.fromkeys((f"Switch{number}" for number in range(2, 7)), _CHOICE),
    "TryCatch": "it has no counterpart; write it with Fallback",
    "KeepRunningUntilFailure": 'write it as <Repeat num_cycles="-1">',
    "RunOnce": "there is no skipping here",
    "Delay": _WAIT,
    "Sleep": _WAIT,
    **dict.fromkeys(("Script", "ScriptCondition", "Precondition", "SetBlackboard", "UnsetBlackboard"), _SCRIPT),
    **dict.fromkeys(("LoopInt", "LoopBool", "LoopDouble", "LoopString"), _SCRIPT),
    **dict.fromkeys(("WasEntryUpdated", "SkipUnlessUpdated", "WaitValueUpdate"), _SCRIPT),
}


class Port(NamedTuple):
    holds: str
    needed: bool = True  # whether it may not be left out
    gives: bool = False  # whether the node writes it


class Own(NamedTuple):
    kind: str  # one of `KINDS`
    about: str  # what it does
    ports: Mapping[str, Port]  # what each of its ports holds


_CONDITION = {"condition": Port("as the world says it, e.g. the printer has paper")}
AGENT, SKILL, SEARCH, WAIT, HOLDS = "AgentNode", "Skill", "Search", "WaitFor", "Holds"
REPEAT, WHILE = "RepeatUntil", "While"
#: The nodes of this package by name.
OWN: Mapping[str, Own] = {
    AGENT: Own("Action", "an agent node works on a goal", {"goal": Port("in natural language")}),
    SKILL: Own("Action", "carries a skill out", {"wording": Port("as it is said, e.g. pick up mug 1")}),
    SEARCH: Own(
        "Action",
        "looks for a thing or a place until the robot stands where it is",
        {
            "of": Port("what is looked for"),
            "finds": Port("what was found", gives=True),
            "order": Port("where to look first, places with ; between", needed=False),
        },
    ),
    WAIT: Own(
        "Action",
        "waits until a condition holds",
        {**_CONDITION, "seconds": Port("longest wait; without it, any", needed=False)},
    ),
    HOLDS: Own("Condition", "looks whether a condition holds", _CONDITION),
    REPEAT: Own("Control", "its children in order, again and again until a condition holds after a round", _CONDITION),
    WHILE: Own("Control", "its children in order, again and again while a condition holds before a round", _CONDITION),
}
#: Every name that no skill may have in a file.
RESERVED = frozenset(
    {*TURNS, *DECORATORS, *ALWAYS, *WITHOUT, *OWN, *KINDS, PARALLEL, TO_THE_END, TIMEOUT, SUBTREE, "root", "Root"}
)
#: What a skill carries beside its ports, where it differs from what its declaration says.
EXPECTED, NEEDS, EFFECT = "_expected", "_needs", "_effect"
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
    """Read what :func:`as_port` wrote."""
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
