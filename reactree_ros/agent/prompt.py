"""The prompt of an agent node (paper, appendix E.1), as turns; rendered, byte for byte as the recordings have it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from reactree_ros.agent.control_flow import ControlFlow, flow_named
from reactree_ros.agent.decision import DONE, FAILURE, Decision
from reactree_ros.agent.foreign import in_lines
from reactree_ros.agent.grammar import DecisionGrammar, listed
from reactree_ros.agent.household import Household
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Told, ToldStart

_INTRODUCTION = "You are an advanced robot with ability to {}. You can perform one of the following tasks:"
_TREE_ABILITIES = "think, act, and expand behavior tree nodes in decision-making process"
_FLAT_ABILITIES = "think and act"
_PLACE = "To achieve this, you should perform your sibling tasks {}. At this level, your sibling tasks are: {}."
_TOLD_PLACE = re.compile("^" + re.escape(_PLACE).replace(r"\{\}", "(.*?)"), re.MULTILINE)
#: How a chat is told what a reply is.
ONE_DECISION = "Each reply is one decision and nothing else."


@dataclass(frozen=True)
class Siblings:
    """Where a child agent node stands: its parent's goal, the control flow over it, all subgoals at its level."""

    goal: str
    control_flow: ControlFlow
    subgoals: tuple[str, ...]


def system_text(
    household: Household,
    *,
    control_flows: Sequence[type[ControlFlow]] | None = None,
    recall: bool = True,
    asks: bool = False,
    more: Sequence[str] = (),
) -> str:
    """Return the system text (paper, listings 1, 2, 5 and 6)."""
    actions = [*household.listed, *(["recall location of"] if recall else []), DONE, FAILURE]
    texts = household.control_flows
    if control_flows is not None:
        given = {flow.name: flow.text for flow in control_flows}
        texts = {flow: text for flow, text in {**texts, **given, **texts}.items() if flow in given}
    *first, last = texts.values() or [""]
    names = {
        "{actions}": ", ".join(actions),
        "{control_flows}": f"{', '.join(first)}{',' if len(first) > 1 else ''} or {last}" if first else last,
    }
    rules = [kind.rule for kind in _told(tuple(map(flow_named, texts)), asks, more)]
    for name, words in names.items():
        rules = [rule.replace(name, words) for rule in rules]
    numbered = [f"{number}. {rule}" for number, rule in enumerate(rules, 1)]
    return "\n".join([_INTRODUCTION.format(_TREE_ABILITIES if texts else _FLAT_ABILITIES), *numbered])


def reply_rule(control_flows: Sequence[type[ControlFlow]], *, asks: bool = False, more: Sequence[str] = ()) -> str:
    openings = [kind.opening for kind in _told(control_flows, asks, more)]
    return f"{ONE_DECISION} It starts with {listed(openings)}."


def _told(control_flows: Sequence[type[ControlFlow]], asks: bool, more: Sequence[str]) -> Sequence[type[Decision]]:
    said = DecisionGrammar((DONE,), control_flows, questions=0 if asks else None, more=more)
    return [kind for kind in said.kinds if kind.is_told(said)]


def task_turn(subgoal: str, siblings: Siblings | None = None) -> Told:
    lines = []
    if siblings is not None:
        *first, last = siblings.subgoals
        names = f"{', '.join(first)}, and {last}" if first else last
        lines.append(f"Your primary goal is to: {in_lines(siblings.goal, first=False)}")
        lines.append(_PLACE.format(siblings.control_flow.told, in_lines(names, first=False)))
    return Told("\n".join([*lines, f"Your task is to: {in_lines(subgoal, first=False)}"]), About.TASK)


def flow_told(text: str) -> str:
    """Return under which control flow a node's own text says that it stands, in words; empty for the root's."""
    told = _TOLD_PLACE.search(text)
    return "" if told is None else told[1]


def start_turn(system: str, examples: Sequence[Example], rule: str = "") -> ToldStart:
    """Return what stands before a node's own turns: system text and in-context examples, as far as there are any.

    ``rule`` says what a reply is, for chats. Of what was said in an example only the words are kept.
    """
    told = (tuple(Said(turn.text) if isinstance(turn, Said) else turn for turn in one.turns) for one in examples)
    return ToldStart(system=system, examples=tuple(told), rule=rule)


@cache
def prompt(place: str, name: str) -> str:
    """Return the text of a prompt file without the final line end. Raises FileNotFoundError."""
    package, _, folder = place.partition(":")
    try:
        return (files(package) / folder / name).read_text(encoding="utf-8").removesuffix("\n")
    except (FileNotFoundError, NotADirectoryError, ModuleNotFoundError, TypeError, ValueError) as error:
        raise FileNotFoundError(f"there is no prompt file {name} in {place or 'no folder at all'}") from error
