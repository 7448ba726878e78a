"""What a check found out about a language model, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import comb

from reactree_ros.agent.grammar import LONGEST_THOUGHT
from reactree_ros.agent.tokens import approximate_tokens
from reactree_ros.agent.turns import ToldStart, render
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.check.asking import Score, Way
from reactree_ros.llm.check.first_prompt import FirstPrompt
from reactree_ros.llm.decoding import Method
from reactree_ros.llm.port import Reply

#: Methods that hold a reply to what is allowed from the first request on.
HOLDING = frozenset(one.value for one in Method) - {Method.UNCONSTRAINED.value, Method.FREE_FIRST.value}
#: How many more free replies must be right before decisions are asked for freely first: one more is chance.
_CLEARLY = 2
#: With a larger chance that guessing does as well, nothing is understood.
_LUCK = 0.11


@dataclass(frozen=True)
class Given:
    """Settings of the language model as the user has them; None: automatic, or the model has no such setting."""

    examples: Examples | None = None
    method: Method | None = None
    request_timeout: float | None = None
    sees: bool | None = None


@dataclass(frozen=True)
class Findings:
    """What was found.

    Attributes:
        first: What the planner's first prompt took.
        status: What the model says of itself.
        given: The settings of the model.
        max_tokens: The longest reply of a run, in tokens.
        nearer: What the replies were worth that name the skill that brings the task nearer, by way.
        thoughts: Of thoughts, how many ended.
        refusals: Of refusals, how many were followed.
        sight: Of drawn squares, of how many it named the colour.
        blind: What keeps it from seeing; empty: nothing, or it was not looked.
        remembered: Whether the best way is remembered.
    """

    first: FirstPrompt
    status: Mapping[str, str]
    given: Given
    max_tokens: int
    nearer: Mapping[Way, Score] = field(default_factory=dict)
    thoughts: Score = field(default_factory=Score)
    refusals: Score = field(default_factory=Score)
    sight: Score = field(default_factory=Score)
    blind: str = ""
    remembered: bool = False

    @property
    def free(self) -> Way:
        """The free way whose replies are allowed most often, then right; of equal ones the first."""
        return max(
            (way for way in self.nearer if not way.held),
            key=lambda way: (self.nearer[way].allowed, self.nearer[way].right),
        )

    @property
    def held(self) -> Way | None:
        """The same way, held to what is allowed; None if it was not asked."""
        return next((way for way in self.nearer if way.held), None)

    @property
    def examples(self) -> Examples | None:
        """How examples stand best; None if there was no choice."""
        return self.free.examples if sum(not way.held for way in self.nearer) > 1 else None

    @property
    def method(self) -> Method | None:
        """How to ask for a decision; None if the best method that the model obeys is best."""
        if self.given.method is not None or self.held is None:
            return None
        better = self.nearer[self.free].right - self.nearer[self.held].right
        return Method.FREE_FIRST if better >= _CLEARLY else None

    @property
    def is_held(self) -> bool:
        """Whether a run's replies are held to what is allowed from the first request on."""
        return self.held is not None and self.method is None

    @property
    def best(self) -> Score:
        """What the replies were worth in the way in which a run asks."""
        return self.nearer[self.held if self.held is not None and self.is_held else self.free]

    @property
    def is_luck(self) -> bool:
        """Whether guessing would do as well."""
        return chance(self.best.right, self.best.asked) > _LUCK

    def in_words(self) -> dict[str, str]:
        """Return all of it in words."""
        return {**self._first_in_words(), **self._nearer_in_words(), **self._habits_in_words()}

    def _first_in_words(self) -> dict[str, str]:
        said = {
            "a decision, cold": reply_in_words(*self.first.cold),
            "a decision, cached": reply_in_words(*self.first.cached),
            "the planner's first prompt": self._prompt_in_words(),
            "it said": repr(self.first.cached[0].text[:100]),
        }
        if limit := self.given.request_timeout:
            cold = self.first.cold[1]
            holds = f"holds it {limit / cold:.1f} times" if limit > cold > 0.05 * limit else "holds it easily"
            said["request_timeout"] = f"{limit:g} s {holds if cold < limit else f'is {cold - limit:.0f} s too short'}"
        if thought := self.first.cached[0].reasoning:
            said["it thought"] = repr(thought[:100])
        return said

    def _prompt_in_words(self) -> str:
        start, tokens = self.first.start, self.first.tokens
        examples = len(start.examples) if isinstance(start, ToldStart) else 0
        told = f"about {approximate_tokens(start.text)} tokens" if tokens is None else f"{tokens} tokens"
        told += f" with {examples} example{'' if examples == 1 else 's'}"
        if self.first.left_out:
            return f"{told}; {self.first.left_out} more did not fit"
        return told if self.spare is None else f"{told}; the context has room for {self.spare} tokens more"

    @property
    def context(self) -> int:
        """Length of the context in tokens; 0 if nobody says."""
        said = self.status.get("context in tokens", "")
        return self.first.context or (int(said) if said.isdecimal() else 0)

    @property
    def spare(self) -> int | None:
        """Tokens of the context that are left after the first prompt and its longest reply; None if unknown."""
        tokens = self.first.tokens
        return None if tokens is None or not self.context else self.context - tokens - self.max_tokens

    def _nearer_in_words(self) -> dict[str, str]:
        return {
            f"three skills, {way}": f"{score.right} of {score.asked} right (guessing: {score.asked // 3}); "
            f"{score.readable} readable, {score.allowed} allowed"
            for way, score in self.nearer.items()
        }

    def _habits_in_words(self) -> dict[str, str]:
        said = {}
        if asked := self.thoughts.asked:
            said["a thought ends by itself"] = f"{self.thoughts.right} of {asked} within {LONGEST_THOUGHT} characters"
        if asked := self.refusals.asked:
            said["a refusal is followed"] = f"{self.refusals.right} of {asked} times"
        if asked := self.sight.asked:
            said["the colour of a drawn square"] = f"{self.sight.right} of {asked} right (guessing: {asked // 4})"
        return said


def small(start: ToldStart) -> ToldStart:
    """Return the start of a prompt with its shortest example alone."""
    shortest = sorted(start.examples, key=lambda one: len(render(one)))
    return ToldStart(system=start.system, examples=tuple(shortest[:1]), rule=start.rule)


def chance(right: int, asked: int) -> float:
    """Return how likely it is that guessing one of three is right as often."""
    return float(sum(comb(asked, hits) * 2 ** (asked - hits) for hits in range(right, asked + 1)) / 3**asked)


def reply_in_words(reply: Reply, seconds: float) -> str:
    """Say what a reply took."""
    if reply.prompt_tokens is None:
        return f"{seconds:.2f} s"
    cached = "unknown" if reply.cached_tokens is None else str(reply.cached_tokens)
    thought = f" ({reply.reasoning_tokens} of them for thinking)" if reply.reasoning_tokens else ""
    asked = f" in {reply.requests} requests" if reply.requests > 1 else ""
    return (
        f"{seconds:.2f} s, {reply.prompt_tokens} prompt tokens ({cached} cached), "
        f"{reply.output_tokens} output tokens{thought}{asked}"
    )
