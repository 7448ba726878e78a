"""Does the tree help? A small model for each planner, trained alike, and compared in houses that none was trained in.

    .venv-torch/bin/python benchmarks/trained_planners.py --out FOLDER [--config config/trained_planners.yaml]

All have one architecture and as many parameters, begin with the same weights, which have learnt exercises and nothing
of any planner, and learn from as many tokens: of what the expert decides as that planner in the same tasks of the same
houses. What differs is what a planner's prompts hold. A flat prompt is longer, so that as many tokens hold fewer tasks.

It runs commands of `reactree`, each of which goes on where it was broken off: the same command goes on with all of it.
The folder has the datasets, the models with their curves, and `bench` with the report (GSR and SSR by number of goals,
with intervals and paired tests).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from reactree_ros.dataset.lines import bare
from reactree_ros.errors import UserError
from reactree_ros.settings import Settings, read_settings

CONFIG = Path(__file__).parents[1] / "config" / "trained_planners.yaml"


class Compared(Settings):
    """What is trained and compared."""

    planners: list[str] = Field(min_length=1, description="who plans, with options")
    presets: list[str] = Field(min_length=1, description="shapes of models")
    seeds: list[int] = Field(default=[0], min_length=1, description="of weights and order")
    houses: int = Field(ge=1, description="houses in which the expert shows what to decide")
    exercises: int = Field(ge=1, description="exercises that are learnt before")
    beginning: dict[str, Any] = Field(default_factory=dict, description="settings of `reactree train`: exercises")
    training: dict[str, Any] = Field(default_factory=dict, description="settings of `reactree train`: houses")
    suite: dict[str, Any] = Field(default_factory=dict, description="settings of the suite `generated`")


def reactree(*arguments: object) -> None:
    """Run a command.

    Raises:
        UserError: It failed; it has said why.
    """
    command = [sys.executable, "-m", "reactree_ros.cli", *map(str, arguments)]
    print("$ reactree", *arguments, flush=True)
    if code := subprocess.call(command):
        raise UserError(f"reactree {arguments[0]} ended with {code}")


def flags(settings: dict[str, Any]) -> list[str]:
    """Settings as options of a command."""
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def folder_of(planner: str) -> str:
    """A folder's name for a planner with its options."""
    return planner.replace(":", "-").replace("=", "-")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder")
    parser.add_argument("--config", type=Path, default=CONFIG, help="what is trained and compared")
    options = parser.parse_args()
    compare(read(options.config), options.out.resolve())


def read(config: Path) -> Compared:
    """Read what is compared.

    Raises:
        UserError: The file cannot be read, or is wrong.
    """
    try:
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"--config {config}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UserError(f"--config {config}: holds no settings; {CONFIG} shows them")
    return read_settings(Compared, values, where=str(config))


def compare(compared: Compared, out: Path) -> None:
    """Make the data, train, run the bench, report."""
    models, shapes = out / "models", list(product(compared.presets, compared.seeds))
    exercises, learnt = out / "data" / "exercises", models / "exercises"
    reactree("dataset", "--exercises", compared.exercises, "--out", exercises)
    for preset, seed in shapes:
        chosen = flags({"preset": preset, "seed": seed, **compared.beginning})
        reactree("train", "--data", exercises, *chosen, "--out", learnt / f"{preset}_{seed}")
    contenders = {}
    for planner in compared.planners:
        short = bare(planner)
        data = out / "data" / folder_of(planner)
        houses = ("--houses", compared.houses, "--no-varied", "--unclear", 0)
        reactree("dataset", *houses, "--planner", short, "--out", data)
        for preset, seed in shapes:
            folder = models / folder_of(planner) / f"{preset}_{seed}"
            start = learnt / f"{preset}_{seed}" / "model"
            chosen = flags({"preset": preset, "seed": seed, "start": start, **compared.training})
            reactree("train", "--data", data, *chosen, "--out", folder)
            model = {"llm": "small", "model": str(folder / "model")}
            contenders[f"{planner}, {preset}, seed {seed}"] = {"planner": short, **model}
    file = out / "contenders.yaml"
    file.write_text(yaml.safe_dump(contenders, sort_keys=False), encoding="utf-8")
    suite = [part for name, value in compared.suite.items() for part in ("--suite-option", f"{name}={value}")]
    who = ("--contenders", file, "--workers", os.cpu_count())
    reactree("bench", "--suite", "generated", *suite, *who, "--out", out / "bench")
    reactree("report", out / "bench")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
