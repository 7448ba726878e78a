"""The budget: what a whole tree may decide, do and use, shared by every agent node of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from reactree_ros.agent.decision import ONE, Counts


class Limit(enum.Enum):
    """A limit that is reached.

    Attributes:
        line: The line that ends the agent node's text.
        end: How a run ended that reached it, as a value of :class:`reactree_ros.record.verdict.EpisodeEnd`.
        options: The run's options that set it.
    """

    STEPS = "Max steps", "out_of_steps", ("max_steps",)
    DECISIONS = "Max decisions", "out_of_decisions", ("max_decisions",)
    TOKENS = "Max tokens", "out_of_tokens", ("max_prompt_tokens", "max_output_tokens")
    SECONDS = "Max seconds", "out_of_time", ("max_seconds",)
    COST = "Max cost", "out_of_money", ("max_cost",)
    STUCK = "Stuck", "stuck", ("stuck_after",)

    def __init__(self, line: str, end: str, options: tuple[str, ...]) -> None:
        self.line, self.end, self.options = line, end, options


#: The options that limit a run.
LIMITS = tuple(name for limit in Limit for name in limit.options)
#: Limits whose use is told by its number alone, as the recordings have it.
COUNTED = (Limit.STEPS, Limit.DECISIONS)


_Price = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class Prices:
    """What a language model costs, for a million tokens, in whatever money."""

    input: _Price = 0.0  # of prompts
    cached: _Price = 0.0  # of what a prefix cache served of them; 0: as the others
    output: _Price = 0.0  # of replies, with what the model thought before them

    def __bool__(self) -> bool:
        return bool(self.input or self.output)

    def cost_of(self, prompt: float, cached: float, output: float) -> float:
        new = (prompt - cached) * self.input + cached * (self.cached or self.input)
        return (new + output * self.output) / 1e6


@dataclass
class Budget:
    """Counts what a whole tree has decided, done and used.

    Each kind of decision says what it adds: most add one decision, an act a step besides; ``done`` and ``failure`` add
    nothing. Limits of 0 are none, but of decisions and steps.
    """

    max_decisions: int = 200
    max_steps: int = 200
    max_prompt_tokens: int = 0
    max_output_tokens: int = 0  # tokens allowed that are generated, those of the reasoning too
    max_seconds: float = 0.0  # seconds allowed, from the first tick
    max_cost: float = 0.0
    prices: Prices = Prices()
    decisions: int = 0
    steps: int = 0
    questions: int = 0
    prompt_tokens: int = 0  # tokens of all prompts, with those of requests that were asked again or failed
    cached_tokens: int = 0  # how many of them a prefix cache served
    output_tokens: int = 0
    estimated: bool = False  # whether some of these tokens were not counted by the language model, but estimated
    time_is_up: bool = False
    stuck: str = ""  # what repeated, in words; empty as long as the run gets on
    whole: Budget | None = None  # what this is a part of; None: it is a whole

    def __post_init__(self) -> None:
        for name in ("max_decisions", "max_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")

    def part(self) -> Budget:
        """Return a part, in which decisions, steps and questions begin anew; they are counted here, too.

        Tokens, seconds and money are limited for the whole alone.
        """
        return Budget(self.max_decisions, self.max_steps, whole=self)

    @property
    def limits(self) -> dict[str, float]:
        names = [name for limit in Limit for name in limit.options if name.startswith(_MAX)]
        return {name.removeprefix(_MAX): getattr(self, name) for name in names if getattr(self, name)}

    @property
    def limits_tokens(self) -> bool:
        return bool(self.max_prompt_tokens or self.max_output_tokens or self.max_cost)

    @property
    def cost(self) -> float:
        return self.prices.cost_of(self.prompt_tokens, self.cached_tokens, self.output_tokens)

    def reached(self) -> Limit | None:
        """Return the limit that forbids a further decision: looked at before each one, steps before decisions."""
        if self.stuck:
            return Limit.STUCK
        if self.steps >= self.max_steps:
            return Limit.STEPS
        if self.decisions >= self.max_decisions:
            return Limit.DECISIONS
        return self._used_up() if self.whole is None else self.whole._used_up()

    def reached_for_all(self) -> Limit | None:
        """Return the limit that is reached of those that end all of a run, whatever each of its parts may still do."""
        return Limit.STUCK if self.stuck else self._used_up()

    def _used_up(self) -> Limit | None:
        if self.time_is_up:
            return Limit.SECONDS
        if 0 < self.max_prompt_tokens <= self.prompt_tokens or 0 < self.max_output_tokens <= self.output_tokens:
            return Limit.TOKENS
        return Limit.COST if 0 < self.max_cost <= self.cost else None

    def reason(self) -> str:
        limit, run = self.reached(), self.whole or self
        about = "about " if run.estimated else ""
        if limit is None or limit is Limit.STUCK:
            return self.stuck
        if limit is Limit.STEPS:
            return f"all of the {self.max_steps} steps are used up"
        if limit is Limit.DECISIONS:
            return f"all of the {self.max_decisions} decisions are used up"
        if limit is Limit.SECONDS:
            return f"the {run.max_seconds:g} seconds are over"
        if limit is Limit.COST:
            return f"the run has cost {about}{run.cost:.6g}, {run.max_cost:g} is allowed"
        if 0 < run.max_prompt_tokens <= run.prompt_tokens:
            return f"{about}{run.prompt_tokens} prompt tokens are used, {run.max_prompt_tokens} are allowed"
        return f"{about}{run.output_tokens} output tokens are used, {run.max_output_tokens} are allowed"

    def count(self, counts: Counts = ONE) -> None:
        self.decisions += counts.decisions
        self.steps += counts.steps
        self.questions += counts.questions
        if self.whole is not None:
            self.whole.count(counts)

    def count_tokens(self, prompt: int, cached: int, output: int, *, estimated: bool = False) -> None:
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        self.output_tokens += output
        self.estimated |= estimated


_MAX = "max_"
