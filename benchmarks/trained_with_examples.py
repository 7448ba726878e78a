"""Does memory carry over? Examples in the prompt, on object classes and goal types that were never trained on.

    .venv-torch/bin/python benchmarks/trained_with_examples.py --out FOLDER [--config config/trained_with_examples.yaml]

Two small models learn from as many tokens of the same tasks, without the held-out subjects. One learns without
examples, the other with the most similar experience of an episodic memory in each agent node's prompt. Then both decide
in tasks about the held-out subjects: decision by decision against the expert, and in whole runs. The second model is
tested with two memories: one as old as its training, and one that also contains such tasks, like the memory of a robot
with more experience.

The script runs `reactree` commands that resume after an interruption, and needs sentence-transformers.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field
from trained_planners import contender, reactree, read, suite_options, train

from reactree_lab.dataset.lines import bare
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import Settings

CONFIG = Path(__file__).parents[1] / "config" / "trained_with_examples.yaml"
#: First seeds of the memories' houses and of the tested houses; a dataset has others.
_MEMORY, _SUBJECTS_MEMORY, _TESTED = 6_000_000, 6_500_000, 7_000_000


class WithExamples(Settings):
    """Settings of training and comparison."""

    planner: str = Field(description="the planner, with options")
    subjects: list[str] = Field(min_length=1, description="object classes and types of task to hold out")
    preset: str = Field(description="shape of the models")
    exercises: int = Field(ge=1, description="exercises that both learn first")
    houses: int = Field(ge=1, description="plain houses with the expert's decisions, one task each")
    memory_houses: int = Field(ge=1, description="houses whose runs fill a memory")
    tested_houses: int = Field(ge=1, description="houses whose decisions are compared")
    runs: int = Field(default=0, ge=0, description="houses with whole runs")
    finding: dict[str, Any] = Field(
        default_factory=dict, description="settings of `reactree lab train`: mostly exercises"
    )
    training: dict[str, Any] = Field(default_factory=dict, description="settings of the training after that")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--config", type=Path, default=CONFIG, help="settings of training and comparison")
    options = parser.parse_args()
    CarryingOver(read(options.config, WithExamples), options.out.resolve()).carry_out()


@dataclass(frozen=True)
class CarryingOver:
    """Settings and folder of the experiment.

    Attributes:
        compared: Settings of training and comparison.
        out: The folder.
    """

    compared: WithExamples
    out: Path

    def carry_out(self) -> None:
        """Fill the memories, make the data, train, test."""
        self.out.mkdir(parents=True, exist_ok=True)
        compared, held_out = self.compared, ",".join(self.compared.subjects)
        without, about = ("--without", held_out), ("--about", held_out)
        old, new = self.out / "old_memory.db", self.out / "new_memory.db"
        for memory in (old, new):
            self._remember(memory, f"without={held_out}", _MEMORY)
        self._remember(new, f"about={held_out}", _SUBJECTS_MEMORY)
        exercises = self._dataset("exercises", "--exercises", compared.exercises, *without)
        houses = ("--houses", compared.houses, "--no-varied", "--unclear", 0, *without)
        none = self._dataset("none", *houses)
        one = self._dataset("one", *houses, "--examples", 1, "--memory", old)
        begun = self._train("finding", {exercises: 10, none: 1, one: 1}, compared.finding)
        tested = ("--houses", compared.tested_houses, "--first-seed", _TESTED, "--no-varied", "--unclear", 0, *about)
        tested = (*tested, "--noise", 0, "--held-out", 0.5)
        for name, data, memory in (("none", none, None), ("one", one, old), ("one", one, new)):
            model = self._train(name, {data: 1}, {"start": begun, **compared.training})
            found = () if memory is None else ("--memory", memory)
            examples = ("--examples", 1, *found) if found else ()
            kind = "none" if memory is None else memory.stem
            reactree(
                "lab", "eval", model, "--data", self._dataset(f"tested_{kind}", *tested, *examples), "--decisions", 0
            )
            if compared.runs:
                self._run(kind, model, found)

    def _run(self, kind: str, model: Path, found: Sequence[object]) -> None:
        """Run a model on whole tasks about the held-out subjects, with a way to find examples."""
        subjects = ",".join(self.compared.subjects)
        suite = {"about": subjects, "houses": self.compared.runs, "first_seed": _TESTED, "tasks_per_house": 1}
        who = ("--planner", contender(self.compared.planner), "--llm", "small", "--model", model)
        bench, most = self.out / f"bench_{kind}", ("--option", "max_examples=1") if found else ()
        workers = ("--workers", os.cpu_count())
        reactree(
            "lab", "bench", "--suite", "generated", *suite_options(suite), *who, *found, *most, *workers, "--out", bench
        )
        reactree("lab", "report", bench)

    def _remember(self, memory: Path, which: str, seed: int) -> None:
        """Fill a memory with the expert's runs."""
        houses = {"houses": self.compared.memory_houses, "first_seed": seed, "tasks_per_house": 1}
        who = ("--llm", "expert", "--planner", bare(self.compared.planner))
        suite = ("--suite", "generated", *suite_options(houses), "--suite-option", which)
        reactree("lab", "bootstrap", *suite, *who, "--memory", memory)

    def _dataset(self, name: str, *arguments: object) -> Path:
        folder = self.out / "data" / name
        reactree("lab", "dataset", *arguments, "--planner", self.compared.planner, "--out", folder)
        return folder

    def _train(self, name: str, data: dict[Path, int], settings: dict[str, Any]) -> Path:
        return train(data, {"preset": self.compared.preset, **settings}, self.out / "models" / name)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
