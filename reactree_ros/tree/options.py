"""What a user may choose about a run with any planner; command line and ROS parameters are made from it."""

from __future__ import annotations

import enum
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from reactree_ros.plugins.settings import Settings, did_you_mean


class ParallelPolicy(enum.Enum):
    """When a parallel, all of whose children have ended, succeeds."""

    MAJORITY = "majority"
    """More than half of the children succeeded (paper, section 4.1); they take turns."""
    ALL = "all"
    """Every child succeeded (the authors' code); they take turns."""
    CONCURRENT = "concurrent"
    """As ``majority``, but at once: each child by a robot of its own, or while skills use different resources."""
    TURNS = "turns"
    """As ``majority``, of which it is another name: in their order, as in the paper."""


class Offers(enum.Enum):
    """Which skills an agent node is offered."""

    AUTO = "auto"
    """As ``possible``; all if the model is trained for the planner, as it was trained on all."""
    POSSIBLE = "possible"
    """Those that knowledge allows."""
    ALL = "all"
    """All that the world lists."""


#: What agent nodes may be told beside what their world says; that depends on the model, or is nothing.
TELLS = ("line", "missing", "names", "rules")
AUTO, NONE = "auto", "none"


def _tells(words: str) -> str:
    for word in words.split("+") if words not in (AUTO, NONE) else ():
        if word not in TELLS:
            raise ValueError(f"'{word}' is nothing to tell; {did_you_mean(word, (AUTO, NONE, *TELLS))}")
    return words


class Routines(enum.Enum):
    """What is done by a routine instead of a language model's decisions."""

    OFF = "off"
    """Nothing; no routine is learnt."""
    PROPOSE = "propose"
    """What a person agrees to, each time."""
    ON = "on"
    """What a routine fits."""


#: The deepest agent node of all: a hundred in one another. Every tick goes through all of them, by Python's stack, and
#: takes time with the square of their number.
DEEPEST = 199
_Count = Annotated[int, Field(ge=0)]
_Amount = Annotated[float, Field(ge=0)]
_Day = Annotated[float, Field(gt=0, le=86400)]


def _as(default: Any, description: str) -> Any:
    return Field(default=default, description=description)


class RunOptions(Settings):
    max_decisions: _Count = _as(0, "decisions allowed; 0: as many as the household allows")
    max_steps: _Count = _as(0, "skills and recalls allowed; 0: as many as the household allows")
    max_prompt_tokens: _Count = _as(0, "tokens of all prompts allowed, also of requests that failed; 0: any number")
    max_output_tokens: _Count = _as(0, "generated tokens allowed, those of the reasoning too; 0: any number")
    max_seconds: Annotated[float, Field(ge=0, le=31536000)] = _as(
        0.0, "longest run, in seconds; what is under way then is canceled; 0: any"
    )
    max_cost: _Amount = _as(0.0, "money allowed, by the prices that are set; 0: any")
    price_input: _Amount = _as(0.0, "price of a million prompt tokens, in whatever money")
    price_cached: _Amount = _as(0.0, "price of a million prompt tokens that a prefix cache served; 0: as the others")
    price_output: _Amount = _as(0.0, "price of a million generated tokens")
    stuck_after: _Count = _as(
        12, "how often the same may come without anything new, before the run ends as stuck; 0: for ever"
    )
    thoughts_in_a_row: _Count = _as(
        0, "most thoughts in a row of an agent node; 0: one, and any number if the model is trained for it"
    )
    refused_in_a_row: _Count = _as(
        3, "how often a node's same reply may be refused in a row, before it ends as refused; 0: for ever"
    )
    refused_share: Annotated[float, Field(ge=0, le=1)] = _as(
        0.8, "share of a node's last 20 requests that may be refused; with more it ends as refused; 1: all"
    )
    max_depth: Annotated[int, Field(ge=0, le=DEEPEST)] = _as(
        20, f"deepest agent node (the root is 1, then 3, …); 0: {DEEPEST}, the deepest of all"
    )
    max_tokens: Annotated[int, Field(ge=1)] = _as(512, "longest decision, in tokens of the language model")
    temperature: _Amount = _as(0.0, "sampling temperature of the language model")
    seed: int = _as(0, "seed of the language model, and of the choice among similar examples")
    max_examples: _Count = _as(0, "most examples of an agent node; 0: as many as 5,000 tokens hold")
    parallel: ParallelPolicy = _as(
        ParallelPolicy.CONCURRENT,
        "when a parallel succeeds, and whether its children run at the same time if robots, or resources, allow it",
    )
    offers: Offers = _as(
        Offers.AUTO,
        "skills that an agent node is offered: possible (what knowledge allows), all, or auto (possible, and "
        "all if the model is trained for the planner)",
    )
    tells: Annotated[str, AfterValidator(_tells)] = _as(
        AUTO,
        "what an agent node is told beside its world's words, joined by +: line (what is known, before each decision), "
        "missing (what a refused skill lacks), names (as skills write them), rules (what skills are for); auto: all, "
        "or nothing if the model is trained for the planner; none",
    )
    routines: Routines = _as(
        Routines.OFF,
        "use and learn routines, which repeat an earlier task, with --memory: off, propose (a person agrees to "
        "each) or on",
    )
    check_done: bool = _as(
        True,
        "tell an agent node, once, that says it is done though its last skill was refused, or nothing was done with "
        "what its goal names; not if the model is trained for it",
    )
    decision_timeout: _Day = _as(
        120.0,
        "longest wait for a decision, a look around or examples, in seconds; for a decision longer if its prompt is "
        "long or the model slow",
    )
    answer_timeout: _Day = _as(60.0, "longest wait for a person's answer to a question, in seconds")
    skill_timeout: _Day = _as(600.0, "longest wait for a skill, in seconds")
    hold_timeout: Annotated[float, Field(gt=0, le=604800)] = _as(
        3600.0, "longest hold by an emergency stop or a pause, in seconds"
    )

    @model_validator(mode="after")
    def _money_needs_prices(self) -> RunOptions:
        if self.max_cost and not (self.price_input or self.price_output):
            raise ValueError(
                f"max_cost is {self.max_cost:g} and no price is set: set price_input and price_output, too"
            )
        return self


class TreeOptions(RunOptions):
    """A run's options with those that only a replay of recordings changes."""

    #: Repeated thoughts, subgoals that equal a goal above, skills that are not available, corrections by a person and
    #: prompts that fit without examples neither are left as they are, as the authors' code did.
    as_recorded: bool = False

    @property
    def is_trained(self) -> bool:
        """Whether the language model is trained for its planner: nothing keeps it from repeating itself."""
        return not self.thoughts_in_a_row

    @property
    def offers_all(self) -> bool:
        return self.offers is Offers.ALL or (self.offers is Offers.AUTO and self.is_trained)

    def told(self, what: str) -> bool:
        """Whether agent nodes are told one of :data:`TELLS`."""
        return not self.is_trained if self.tells == AUTO else what in self.tells.split("+")


#: The method as it was when the authors recorded their runs; a replay uses it.
AS_RECORDED = TreeOptions(
    parallel=ParallelPolicy.ALL,
    max_depth=0,
    stuck_after=0,
    check_done=False,
    refused_in_a_row=0,
    refused_share=1.0,
    as_recorded=True,
    offers=Offers.ALL,
    tells=NONE,
)
