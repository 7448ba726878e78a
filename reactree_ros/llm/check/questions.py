"""What a language model is asked in a check: each question is a value that says what it asks and what is right."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from reactree_ros.agent.grammar import LONGEST_THOUGHT, DecisionGrammar, listed
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.kinds.think import Think
from reactree_ros.agent.reading import Unreadable, read, whole_part
from reactree_ros.agent.turns import About, Said, Told, Turn
from reactree_ros.llm.port import FreeText, MaySay

#: What ends a free reply: a blank line, and what follows a decision.
_ENDS = ("\n\n", "\nOK.", "\nYou ")
_NOT_THERE = "99"  # no house has so many of one thing


@dataclass(frozen=True)
class Moment:
    """A moment of a run that reached its goal.

    Attributes:
        turns: The task, and what was done and seen last.
        may_say: What could be said.
        acts: Three skills of the run, in the order in which they were done.
        now: Which of them was done at this moment, from 0. An earlier one is done already, a later one comes too early.
    """

    turns: tuple[Turn, ...]
    may_say: DecisionGrammar
    acts: tuple[str, ...]
    now: int

    def asked(self, question: str) -> tuple[Turn, ...]:
        """Return the turns with a question: what was seen stays last, as it is when a run asks for a decision."""
        return (*self.turns[:-1], Told(question, About.ANSWER), self.turns[-1])


@dataclass(frozen=True)
class Lesson:
    """What a check asks about, from real runs.

    Attributes:
        first: The turns of a planner's first prompt.
        may_say: What may be said after them.
        max_tokens: The longest reply, in tokens.
        moments: Small situations.
    """

    first: tuple[Turn, ...]
    may_say: MaySay
    max_tokens: int
    moments: Sequence[Moment] = ()


@dataclass(frozen=True)
class Mark:
    """What a reply to a question is worth.

    Attributes:
        readable: Whether it is a decision, or a thought, allowed or not.
        allowed: Whether it may be said now.
        right: Whether it is what is asked for.
        said: The reply in one line.
    """

    readable: bool = False
    allowed: bool = False
    right: bool = False
    said: str = ""


@dataclass(frozen=True)
class Question:
    """A question about a small situation.

    Attributes:
        turns: What is asked, after the start of the prompt.
        grammar: What is allowed as a reply.
        right: The skill that is right; empty: any decision that is allowed.
        begun: How the reply is begun, for models that go on with a text.
        max_tokens: The longest reply.
    """

    turns: tuple[Turn, ...]
    grammar: DecisionGrammar
    right: str = ""
    begun: str = ""
    max_tokens: int = 40

    def may_say(self, *, held: bool) -> MaySay:
        """Return what the model is held to: what is allowed, or nothing."""
        return self.grammar if held else FreeText(_ENDS)

    def worth(self, mark: Mark) -> str:
        """Return in words what a reply is worth."""
        if mark.right:
            return "right"
        return "wrong" if mark.allowed else "not allowed" if mark.readable else "no decision"

    def mark(self, text: str, *, cut: bool) -> Mark:
        """Return what a reply is worth."""
        if whole := whole_part(f"{text}\n", self.grammar):  # a run's request ends there
            text, cut = whole, False
        said = " ".join(text.split())
        form = replace(self.grammar, free=True, longest_thought=LONGEST_THOUGHT)
        if not _read(text, form, cut=cut):
            return Mark(said=said)
        found = _read(text, self.grammar, cut=cut)
        skill = next((one.decision.skill_asked for one in reversed(found) if one.decision is not None), "")
        return Mark(True, bool(found), bool(found) and self.right in ("", skill), said)


def _read(text: str, grammar: DecisionGrammar, *, cut: bool) -> tuple[Said, ...]:
    try:
        return read(text, grammar, cut=cut)
    except Unreadable:
        return ()


def which_is_nearer(moments: Sequence[Moment]) -> Iterator[Question]:
    """Ask which of three skills brings the task nearer; the right one stands at each place equally often."""
    for number, moment in enumerate(moments):
        first = (moment.now - _place(number, moment)) % len(moment.acts)
        order = (*moment.acts[first:], *moment.acts[:first])
        named = listed(f"{Act.opening}{skill}" for skill in order)
        turns = moment.asked(f"After this, say the one of these that brings your task nearer: {named}.")
        grammar = DecisionGrammar(order, (), longest_thought=0)
        yield Question(turns, grammar, right=moment.acts[moment.now])


def _place(number: int, moment: Moment) -> int:
    """Return where the right one stands: another place for each moment of a run, and for each run."""
    return (2 * moment.now + 1 + number // len(moment.acts)) % len(moment.acts)


class ThoughtQuestion(Question):
    """Asks for a thought; right is one that ends by itself before it is too long."""

    def worth(self, mark: Mark) -> str:
        """Return in words whether the thought has ended."""
        return "it ends" if mark.right else "it does not end" if mark.readable else "no thought"

    def mark(self, text: str, *, cut: bool) -> Mark:
        """Return whether the thought has ended."""
        thought = text.strip().removeprefix(Think.opening.strip()).strip()
        ended = bool(thought) and not cut and len(thought) <= LONGEST_THOUGHT
        return Mark(bool(thought), bool(thought), ended, " ".join(text.split()))


def a_thought(moments: Sequence[Moment]) -> Iterator[Question]:
    """Ask for a thought in the second moment of each run."""
    begun = Think.opening.strip()
    for moment in moments:
        if moment.now == 1:
            turns = moment.asked(f"After this, say one short thought that begins with '{begun}'.")
            yield ThoughtQuestion(turns, moment.may_say, begun=begun, max_tokens=128)


def after_a_refusal(moments: Sequence[Moment]) -> Iterator[Question]:
    """Refuse a skill with a thing that is not there, in the first moment of each run, and ask again."""
    for moment in moments:
        if moment.now == 0:
            said = f"{Act.opening}{re.sub('[0-9]+', _NOT_THERE, moment.acts[0])}"
            try:
                read(said, moment.may_say)
            except Unreadable as refusal:
                turns = (*moment.turns, Said(said), Told(str(refusal), About.REFUSAL))
                yield Question(turns, moment.may_say, max_tokens=80)  # an expansion is longer than an act
