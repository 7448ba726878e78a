"""The prompt of an agent node (paper, appendix E.1), as turns; rendered, byte for byte as the recordings have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reactree_ros.agent.control_flow import ControlFlow, flow_named
from reactree_ros.agent.decision import DONE, FAILURE
from reactree_ros.agent.foreign import framed, in_lines
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.turns import About, Told

_INTRODUCTION = "You are an advanced robot with ability to {}. You can perform one of the following tasks:"
_TREE_ABILITIES = "think, act, and expand behavior tree nodes in decision-making process"
_FLAT_ABILITIES = "think and act"


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
    """Return the system text (paper, listings 1, 2, 5 and 6).

    Args:
        household: Of the world.
        control_flows: What an expansion may use (paper, section 5.4); None: all of the household's (ReAcTree); empty:
            without the Expand task (ReAct).
        recall: With working memory's ``recall location of`` action or without.
        asks: Whether a person can be asked, which the paper has not.
        more: The names of further kinds of decision.
    """
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
    said = DecisionGrammar((DONE,), tuple(map(flow_named, texts)), questions=0 if asks else None, more=more)
    rules = [kind.rule for kind in said.kinds if kind.is_told(said)]
    for name, words in names.items():
        rules = [rule.replace(name, words) for rule in rules]
    numbered = [f"{number}. {rule}" for number, rule in enumerate(rules, 1)]
    return "\n".join([_INTRODUCTION.format(_TREE_ABILITIES if texts else _FLAT_ABILITIES), *numbered])


def task_turn(subgoal: str, siblings: Siblings | None = None) -> Told:
    """Return the first lines of an agent node's own text: where it stands, and its task."""
    lines = []
    if siblings is not None:
        *first, last = siblings.subgoals
        names = f"{', '.join(first)}, and {last}" if first else last
        lines.append(f"Your primary goal is to: {in_lines(siblings.goal, first=False)}")
        lines.append(
            f"To achieve this, you should perform your sibling tasks {siblings.control_flow.told}. "
            f"At this level, your sibling tasks are: {in_lines(names, first=False)}."
        )
    return Told("\n".join([*lines, f"Your task is to: {in_lines(subgoal, first=False)}"]), About.TASK)


def start_turn(system: str, examples: Sequence[str]) -> Told:
    """Return what stands before a node's own turns: system text and in-context examples, as far as there are any."""
    source = ["Source domain:", "\n".join(map(framed, examples))] if system or examples else []
    return Told("\n".join([*([system] if system else []), *source, "Target_domain:"]), About.SYSTEM)


def shortened(examples: Sequence[str], excess: int, *, count: Callable[[str], int]) -> list[str]:
    """Return what is left of in-context examples, the most similar first, once so many tokens are gone."""
    kept = list(examples)
    while kept and excess > 0:
        excess -= count(kept.pop())
    return kept
