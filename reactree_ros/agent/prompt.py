"""The prompt of an agent node (paper, appendix E.1), as turns; rendered, byte for byte as the recordings have it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from reactree_ros.agent.control_flow import ControlFlow, flow_named
from reactree_ros.agent.decision import DONE, FAILURE, Decision
from reactree_ros.agent.grammar import DecisionGrammar, listed
from reactree_ros.agent.household import Household
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.labels import in_lines
from reactree_ros.agent.transcript import Example
from reactree_ros.agent.turns import About, Said, Told, ToldStart, Turn, render

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
    return DecisionGrammar((DONE,), control_flows, questions=1 if asks else None, more=more).allowed


def task_turn(subgoal: str, siblings: Siblings | None = None) -> Told:
    lines = []
    if siblings is not None:
        *first, last = siblings.subgoals
        names = f"{', '.join(first)}, and {last}" if first else last
        lines.append(f"Your primary goal is to: {in_lines(siblings.goal, first=False)}")
        lines.append(_PLACE.format(siblings.control_flow.in_words, in_lines(names, first=False)))
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


#: Where a model goes on after a summary, or instead of one, with a trajectory of its own making.
SUMMARY_STOPS = ("\n##Trajectory", f"\n{Act.word}:", "\nAction:")

_LEFT_OUT = Told("(earlier actions are left out)", About.SUMMARY)
_NOT = re.compile(r"\b(?:not|never|no|un ?met)\b|n't\b", re.IGNORECASE)
_MET = re.compile(r"\b(?:un)?met\b", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.;!])\s+")
_WHOLE_SENTENCES = re.compile(r".*[.!?](?=\s|$)")
_MADE_UP = re.compile(r"^[ \t]*act(?:ion)?[ \t]*:", re.IGNORECASE | re.MULTILINE)
_HEADING = re.compile(r"#[^.]*|\*\*[^*]*\*\*|```\w*|.*:")


def summary_request(trajectory: Sequence[Turn], subgoal: str) -> Told:
    asked = prompt("reactree_ros.agent:prompts", "summary.txt")
    return Told(
        f"{asked}\n\n##Trajectory\n{render(trajectory)}\n\n##Subgoal:\n{in_lines(subgoal)}\n\n###Output:", About.TASK
    )


def without_oldest(trajectory: Sequence[Turn], excess: int, *, count: Callable[[str], int]) -> list[Turn]:
    """Leave out the oldest actions with what came of them, until so many tokens are gone; a line says so.

    The rest begins with an action; there is none where no action is left.
    """
    rest = [turn for turn in trajectory if turn != _LEFT_OUT]
    excess += count(_LEFT_OUT.text)
    while rest and (excess > 0 or not isinstance(rest[0], Said)):
        excess -= count(rest.pop(0).text)
    return [_LEFT_OUT, *rest] if rest else []


def read_summary(reply: str, otherwise: str, *, cut: bool = False) -> str:
    """Return the summary in a reply, as one line; headings and marks of lists are none of it.

    ``otherwise`` stands in if there is none. An action and what follows it are left out: the model made them up. Of a
    reply that was cut the last sentence is left out, unless it is whole.
    """
    reply = _MADE_UP.split(reply, maxsplit=1)[0]
    lines = [line for line in map(str.strip, reply.splitlines()) if not _HEADING.fullmatch(line)]
    summary = " ".join(" ".join(line.replace("**", "").lstrip("#-*• ") for line in lines).split())
    if cut:
        whole = _WHOLE_SENTENCES.match(summary)
        summary = "" if whole is None else whole[0]
    return summary or otherwise


def judgement(summary: str) -> bool | None:
    """Return whether a summary says that its subgoal is met; None if it does not say."""
    said = [sentence for sentence in _SENTENCE.split(summary) if _MET.search(sentence)]
    return None if not said else _NOT.search(said[-1]) is None


@dataclass
class ContextWindow:
    """A node's turns as far as they stand in its prompt."""

    head: int  # how many turns, from the first, always stand in it
    hidden: int = 0  # up to which turn they are not shown after these
    summary: str = ""  # what stands for what is not shown; empty if nothing does
    _tokens: list[int] = field(default_factory=list, repr=False)  # of each turn that was counted so far

    def __post_init__(self) -> None:
        self.hidden = max(self.hidden, self.head)

    def shown(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        if self.hidden == self.head:
            return turns
        return [*turns[: self.head], *self._summary, *turns[self.hidden :]]

    def excess(self, turns: Sequence[Turn], *, limit: int, count: Callable[[str], int]) -> int | None:
        """Return up to which turn they should be hidden now; None if they need not be.

        Where what is shown of decisions and observations takes more than the limit, the latest of it stays: whole
        decisions with what came of them, up to half of the limit, the last one in any case. So the prompt grows at
        its end alone until it has doubled. A turn is counted once.
        """
        self._count(turns, count)
        starts = [at for at in range(self.hidden, len(turns)) if isinstance(turns[at], Said)]
        if len(starts) < 2 or sum(self._tokens[self.hidden :]) <= limit:
            return None
        kept = starts[-1]
        for start in reversed(starts[1:-1]):
            if 2 * sum(self._tokens[start:]) > limit:
                break
            kept = start
        return kept

    def room(self, turns: Sequence[Turn], *, excess: int, count: Callable[[str], int]) -> int:
        """Return how many tokens those that are shown after the head may take if they are so many too long."""
        self._count(turns, count)
        return max(0, sum(self._tokens[self.hidden :]) - max(1, excess))

    def _count(self, turns: Sequence[Turn], count: Callable[[str], int]) -> None:
        self._tokens += [count(f"{turn.text}\n") for turn in turns[len(self._tokens) :]]

    def trajectory(self, turns: Sequence[Turn], until: int) -> Sequence[Turn]:
        return [*self._summary, *turns[self.hidden : until]]

    def hide(self, until: int, summary: str) -> None:
        self.hidden, self.summary = until, summary

    @property
    def _summary(self) -> list[Turn]:
        return [Told(f"Summary of what was done before: {self.summary}", About.SUMMARY)] if self.summary else []
