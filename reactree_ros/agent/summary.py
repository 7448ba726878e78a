"""Summarised observations: the request that folds what was done and seen into one line (Hu et al., appendix C.1)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from reactree_ros.agent.foreign import in_lines
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import About, Said, Told, Turn, render

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
