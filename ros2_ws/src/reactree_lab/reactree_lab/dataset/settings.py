"""Settings of a dataset, its recipe, and its file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from reactree_lab.household.generator import check_subjects
from reactree_ros.plugins.settings import Settings

#: Version of the layout of a dataset's folder; see ``docs/reference/dataset.md``.
SCHEMA = 1
#: The description, and both files of decisions without ``.jsonl``.
ABOUT, TRAIN, HELD_OUT = "dataset.json", "train", "held_out"


class DatasetSettings(Settings):
    houses: int = Field(default=0, ge=0, description="generated houses in which the expert acts")
    first_seed: int = Field(
        default=1_000_000,
        ge=0,
        description="seed of the first house, and of the first exercise; a bench's seeds start at 0",
    )
    exercises: int = Field(
        default=0, ge=0, description="made-up searches, to learn only whether the wanted thing is there"
    )
    short: bool = Field(
        default=False, description="make only the easiest exercises, for a model from scratch to learn first"
    )
    rooms: int = Field(default=0, ge=0, le=8, description="rooms of each house, 3 to 8; 0: drawn")
    tasks_per_house: int = Field(default=1, ge=1, lt=100, description="tasks in each house")
    varied: bool = Field(default=True, description="more types of task, many more words, fuller houses")
    without: str = Field(
        default="",
        description="object classes and types of task that no task of a house may have, separated by commas, e.g. "
        "pudding,prepare_snack; no exercise searches for them",
    )
    about: str = Field(
        default="",
        description="likewise, but each task of a house must have at least one of them; empty: any",
    )
    decisions: int = Field(
        default=0, ge=0, description="most decisions of each task: 2 show how to break an instruction up; 0: all"
    )
    unclear: float = Field(default=0.02, ge=0, le=0.5, description="share of instructions that no robot can carry out")
    people: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of houses where people live: most say tasks in many more words, half call things by names "
        "that no class has, in some things are moved or several robots work",
    )
    everyday: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of houses with small errands that are said in a few words; half of these houses call their "
        "things and furniture by names that no class has",
    )
    asking: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of tasks with a person to ask; most of their instructions leave something open",
    )
    noise: float = Field(default=0.05, ge=0, le=0.5, description="share of decisions that leave the expert's path")
    beta: float = Field(
        default=0.3, ge=0, le=1, description="share of decisions by the expert while a model acts (DAgger)"
    )
    examples: int = Field(default=0, ge=0, description="most examples in a prompt")
    held_out: float = Field(default=0.05, ge=0, le=0.5, description="share of held-out houses")
    may_say: bool = Field(
        default=True, description="write the decoding constraint of each decision; three quarters of the size"
    )
    all_runs: bool = Field(default=False, description="include records of runs that did not reach their goal")
    format: Literal["plain", "prompt", "chat"] = Field(
        default="plain", description="additional layout for TRL: prompt and completion, or chat messages"
    )

    _known = field_validator("without", "about")(check_subjects)

    @field_validator("short")
    @classmethod
    def _of_exercises(cls, short: bool, others: ValidationInfo) -> bool:
        if short and not others.data.get("exercises"):
            raise ValueError("there are no exercises to be short; set their number with `exercises`")
        return short

    @field_validator("rooms")
    @classmethod
    def _possible(cls, rooms: int) -> int:
        if rooms in (1, 2):
            raise ValueError("a house has 3 to 8 rooms; 0: drawn")
        return rooms


@dataclass(frozen=True, kw_only=True)
class Recipe:
    settings: DatasetSettings
    planner: str  # the planner in generated houses, with its options
    records: Mapping[str, str] = field(default_factory=dict)  # paths of records, each with the SHA-256 of its content
    #: The language model that acts instead of the expert, as :func:`reactree_ros.llm.spec.model_to_dict` writes it;
    #: empty for none.
    pupil: Mapping[str, Any] = field(default_factory=dict)
    memory: str = ""  # the episodic memory for examples; empty for none

    def as_dict(self) -> dict[str, Any]:
        return {
            "planner": self.planner,
            **self.settings.model_dump(mode="json"),
            "records": dict(self.records),
            "pupil": dict(self.pupil),
            "memory": self.memory,
        }
