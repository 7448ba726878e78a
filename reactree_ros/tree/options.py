"""What a user may choose about a run, whoever plans; command line and ROS parameters are made from it."""

from __future__ import annotations

import enum

from pydantic import Field

from reactree_ros.settings import Settings


class ParallelPolicy(enum.Enum):
    """When a parallel, all of whose children have ended, succeeds."""

    MAJORITY = "majority"
    """More than half of the children succeeded (paper, section 4.1); they take turns."""
    ALL = "all"
    """Every child succeeded (the authors' code); they take turns."""
    CONCURRENT = "concurrent"
    """As ``majority``; with several robots the children run at the same time, each by a robot of its own."""


#: The deepest agent node of all: a hundred in one another. Every tick goes through all of them, by Python's stack, and
#: takes time with the square of their number.
DEEPEST = 199


class RunOptions(Settings):
    """Choices that hold for a whole run."""

    max_decisions: int = Field(default=0, ge=0, description="decisions allowed; 0: as many as the household allows")
    max_steps: int = Field(
        default=0, ge=0, description="skills and recalls allowed; 0: as many as the household allows"
    )
    max_depth: int = Field(
        default=20,
        ge=0,
        le=DEEPEST,
        description=f"deepest agent node (the root is 1, then 3, …); 0: {DEEPEST}, the deepest of all",
    )
    max_tokens: int = Field(default=512, ge=1, description="longest decision, in tokens of the language model")
    temperature: float = Field(default=0.0, ge=0, description="sampling temperature of the language model")
    seed: int = Field(default=0, description="seed of the language model, and of the choice among similar examples")
    max_examples: int = Field(
        default=0, ge=0, description="most examples of an agent node; 0: as many as 5,000 tokens hold"
    )
    parallel: ParallelPolicy = Field(
        default=ParallelPolicy.CONCURRENT,
        description="when a parallel succeeds, and whether its children run at the same time where there are robots",
    )
    answer_repeats: bool = Field(
        default=True, description="tell an agent node that has the same thought again that it had it already"
    )
    decision_timeout: float = Field(
        default=120.0, gt=0, le=86400, description="longest wait for a decision, a look around or examples, in seconds"
    )
    answer_timeout: float = Field(
        default=60.0, gt=0, le=86400, description="longest wait for a person's answer to a question, in seconds"
    )
    skill_timeout: float = Field(default=600.0, gt=0, le=86400, description="longest wait for a skill, in seconds")
    hold_timeout: float = Field(
        default=3600.0, gt=0, le=604800, description="longest hold by an emergency stop or a pause, in seconds"
    )


class TreeOptions(RunOptions):
    """A run's options with those that only a replay of recordings changes.

    Attributes:
        plain_reading: Read decisions in the words of the grammar alone, as the recordings have them, and leave a final
            ``and `` in the last subgoal.
        refuse_recursion: Refuse an expansion whose subgoal equals a goal above it.
        refuse_unavailable: Refuse a skill that is not available, instead of leaving that to the world.
    """

    plain_reading: bool = False
    refuse_recursion: bool = True
    refuse_unavailable: bool = True


#: The method as it was when the authors recorded their runs; a replay uses it.
AS_RECORDED = TreeOptions(
    parallel=ParallelPolicy.ALL,
    max_depth=0,
    answer_repeats=False,
    plain_reading=True,
    refuse_recursion=False,
    refuse_unavailable=False,
)
