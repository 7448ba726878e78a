"""Which nodes of BehaviorTree.CPP stand for which of a routine, what its ports hold, and what has no counterpart."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reactree_ros.agent.parameters import Number, Parameter
from reactree_ros.agent.skill import Skill
from reactree_ros.routine.model import Fallback, Sequence

_TABLES = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
#: The kinds of node that a nodes model knows, and that the explicit form ``<Action ID="…"/>`` names.
KINDS = ("Action", "Condition", "Control", "Decorator")
#: Sequences and fallbacks by what they remember: with memory they go on where they were, as py_trees' do with
#: ``memory=True``; without, every tick begins with the first child.
TURNS: Mapping[str, tuple[type[Sequence] | type[Fallback], bool | str]] = {
    "Sequence": (Sequence, True),
    "ReactiveSequence": (Sequence, False),
    "Fallback": (Fallback, True),
    "ReactiveFallback": (Fallback, False),
    "SequenceWithMemory": (Sequence, "kept"),
    "RoundRobin": (Fallback, "kept"),
    "PipelineSequence": (Sequence, "again"),
    "AsyncSequence": (Sequence, True),
    "AsyncFallback": (Fallback, True),
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
SUBTREE, SUBTREES = "SubTree", ("SubTree", "SubTreePlus")
#: What says that a subtree has the names of the tree that it is in, in one version or another.
SAME_NAMES = ("_autoremap", "__autoremap", "__shared_blackboard")
#: What waits, with the port that says for how many milliseconds.
PAUSE, PAUSES = "Sleep", {"Sleep": "msec", "Delay": "delay_msec"}
#: What goes by a script, or by entries of the blackboard.
SCRIPT, CHECK, BRANCHES, WATCHED = "Script", "ScriptCondition", "IfThenElse", "WhileDoElse"
FOR_EACH = ("LoopInt", "LoopBool", "LoopDouble", "LoopString")
COMPARED = tuple(f"BlackboardCheck{kind}" for kind in ("Int", "Double", "String", "Bool"))
#: What says how soon its child is begun again after a success, with its ports; it is its child if nothing does that.
AS_ITS_CHILD: Mapping[str, list[str]] = _TABLES["as_its_child"]
RATE, HZ, SWITCHES = "RateController", 10.0, {f"Switch{cases}": cases for cases in range(2, 7)}
#: How a node may end that is not done.
ENDS = ("SUCCESS", "FAILURE", "SKIPPED")
#: How a node ends, and what it goes on after, if all that is in it is skipped; others end so as they are skipped.
SKIPPED_AS: Mapping[str, bool] = {
    **{tag: of is Sequence for tag, (of, _) in TURNS.items()},
    **{tag: does != "fail" and does != "repeat" for tag, (does, _) in DECORATORS.items() if does != "invert"},
    **{PARALLEL: True, TO_THE_END: True, TIMEOUT: True},
    **dict.fromkeys(FOR_EACH, True),
}
#: Scripts of a node that are looked at before it begins, in this order: how it ends, whether that is if they hold, and
#: whether they are looked at in each tick. And those that are carried out when it ends.
GUARDS: Mapping[str, tuple[str, bool, bool]] = {
    "_failureIf": ("FAILURE", True, False),
    "_successIf": ("SUCCESS", True, False),
    "_skipIf": ("SKIPPED", True, False),
    "_while": ("SKIPPED", False, True),
}
AFTER = ("_onSuccess", "_onFailure", "_post")
SCRIPTED = (*GUARDS, *AFTER)

AGENT, SKILL, SEARCH, WAIT, HOLDS = "AgentNode", "Skill", "Search", "WaitFor", "Holds"
REPEAT, WHILE = "RepeatUntil", "While"
#: Nodes of BehaviorTree.CPP without a counterpart, each with the reason.
WITHOUT: Mapping[str, str] = {name: why for why, names in _TABLES["without"].items() for name in names}
#: The nodes of this package by name: the kind of each, what it does, and its ports with what they hold.
OWN: Mapping[str, Mapping[str, Any]] = _TABLES["own"]
#: Names of version 3 and of py_trees, and of their ports, by what they are in version 4; nodes also in small letters.
OLD: Mapping[str, str] = {
    **{name.lower(): name for name in (*TURNS, *DECORATORS, *ALWAYS, *PAUSES, PARALLEL, TIMEOUT, SUBTREE)},
    **_TABLES["old"],
    **{name.lower(): meant for name, meant in _TABLES["old"].items()},
}
#: Nodes of Nav2 that ask or work out something and move nothing: they may be asked again.
LOOKS = frozenset(_TABLES["looks"])
#: Every name that no skill may have in a file.
RESERVED = frozenset(
    {
        *(*TURNS, *DECORATORS, *ALWAYS, *WITHOUT, *OWN, *KINDS, *SUBTREES, *PAUSES, *FOR_EACH, *COMPARED, *SWITCHES),
        *(*AS_ITS_CHILD, PARALLEL, TO_THE_END, TIMEOUT, SCRIPT, CHECK, BRANCHES, WATCHED, "SetBlackboard", "root"),
        *("Root", "KeepRunningUntilFailure", "Precondition", "TryCatch", "RecoveryNode"),
    }
)
#: How a skill has to end, where that is not well, and whether it only asks.
EXPECTED, ASKS = "_expected", "_asks"
#: What a tree carries: what its routine is called and for, and that several robots share a parallel.
NAME, GOAL, SHARED = "_name", "_goal", "_shared"
#: What only some nodes may carry.
SPECIAL_OF = {SKILL: (EXPECTED, ASKS), TO_THE_END: (SHARED,), SUBTREE: SAME_NAMES}
_SPECIAL = {
    name.replace("_", "").lower(): name
    for name in (*SCRIPTED, "_onHalted", *reversed(SAME_NAMES), EXPECTED, ASKS, NAME, GOAL, SHARED)
}


def meant(attribute: str) -> str:
    """Return which attribute that does something is meant; empty: it only tells an editor something."""
    known = {*_SPECIAL.values(), *SAME_NAMES}
    near = difflib.get_close_matches(attribute[:80].replace("_", "").lower(), _SPECIAL, 1, 0.8)
    return "" if attribute[:1] != "_" else attribute if attribute in known else _SPECIAL[near[0]] if near else ""


#: The types of a role that other programs write, by the kind that stands for them.
TYPES = {
    "text": ("std::string", "string", "AnyTypeAllowed"),
    "number": ("int", "unsigned", "unsigned int", "float", "double"),
}
_POINTER = re.compile(r"\{[^{}]+\}")


def kind_of(parameter: Parameter) -> str:
    return "number" if isinstance(parameter, Number) else "text"


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
