"""Does the tree help? Small models for each planner, trained alike, compared in houses that none was trained in.

    .venv-torch/bin/python benchmarks/trained_planners.py --out FOLDER [--config FILE] [--tasks WAH_NL_TASKS]

One model learns all planners from the same tasks of the same houses, with as many tokens of each planner. First it
learns from the expert (`together`), then from the expert's corrections of its own runs as each planner (`corrected`,
DAgger). If you give a model that has learnt this, both steps are left out. So the common part is learnt once, above all
how to find a wanted item in a list.

That model plans for each planner. With settings of `alone`, each planner gets its own model instead, which starts from
it and learns as many more tokens of that planner only. With `apart`, each planner's model learns nothing from other
planners except finding. The models differ only in their planner's prompts. A flat prompt is longer: as many tokens hold
fewer tasks.

The script runs `reactree` commands that resume after an interruption: repeat its command to continue. The folder gets
the datasets, the models with their curves, and a bench with its report for each suite (GSR and SSR by number of goals,
with intervals and paired tests): `generated`, and `wah_nl` if you name its tasks.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import Field

from reactree_ros.errors import UserError
from reactree_ros.lab.dataset.lines import bare
from reactree_ros.planners import spec
from reactree_ros.plugins.settings import Settings, read_settings

CONFIG = Path(__file__).parents[1] / "config" / "trained_planners.yaml"
#: First seeds of varied houses, of houses that the common model acts in, and of short exercises; a bench has others.
_VARIED, _CORRECTIONS, _SHORT = 2_000_000, 3_000_000, 4_000_000

Kind = TypeVar("Kind", bound=Settings)


class Shares(Settings):
    """Shares of the tokens by kind, relative to each other."""

    exercises: float = Field(default=1, gt=0, description="exercises, in the common training")
    plain: float = Field(default=1, gt=0, description="plain houses, for each planner")
    varied: float = Field(default=0.4, gt=0, description="varied houses, for each planner")
    corrections: float = Field(default=1, gt=0, description="corrections of the common model's own runs")


class Compared(Settings):
    """Settings of training and comparison."""

    planners: list[str] = Field(min_length=1, description="planners, with options")
    presets: list[str] = Field(min_length=1, description="shapes of models")
    seeds: list[int] = Field(default=[0], min_length=1, description="seeds of weights and order")
    apart: bool = Field(default=False, description="train each model only on its planner and the exercises")
    start: str = Field(
        default="", description="a model of that shape to start from; empty: train one from scratch, by exercises"
    )
    houses: int = Field(ge=1, description="plain houses with the expert's decisions, one task each")
    varied: int = Field(ge=1, description="varied houses, likewise")
    corrections: int = Field(ge=1, description="plain houses in which the common model acts and the expert corrects it")
    exercises: int = Field(
        default=20_000, ge=1, description="exercises, in the training of finding and in the common training"
    )
    short: int = Field(
        default=15_000, ge=1, description="short exercises, from which a model from scratch learns to find"
    )
    shares: Shares = Field(default=Shares(), description="shares of the tokens by kind")
    finding: dict[str, Any] = Field(
        default_factory=dict, description="settings of `reactree train`: mostly short exercises"
    )
    together: dict[str, Any] = Field(
        default_factory=dict, description="settings of the common training on all planners; none: leave it out"
    )
    corrected: dict[str, Any] = Field(
        default_factory=dict, description="settings of the training on that model's own runs; none: leave it out"
    )
    alone: dict[str, Any] = Field(
        default_factory=dict, description="settings of each planner's own training after that; none: leave it out"
    )
    suite: dict[str, Any] = Field(default_factory=dict, description="settings of the suite `generated`")

    @property
    def groups(self) -> list[list[str]]:
        """The planners that one model learns together, for each such model of a shape and seed."""
        return [[planner] for planner in self.planners] if self.apart else [self.planners]

    @property
    def begins_alike(self) -> bool:
        """Whether every seed and shape starts with the unchanged model `start`."""
        return bool(self.start) and not self.together


def reactree(*arguments: object) -> None:
    """Run a command.

    Raises:
        UserError: It failed and has printed why.
    """
    command = [sys.executable, "-m", "reactree_ros.cli", *map(str, arguments)]
    print("$ reactree", *arguments, flush=True)
    if code := subprocess.call(command):
        raise UserError(f"reactree {arguments[0]} ended with {code}")


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as options of a command."""
    return [part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))]


def suite_options(settings: Mapping[str, Any]) -> list[str]:
    """Settings of a suite as options of a command."""
    return [part for name, value in settings.items() for part in ("--suite-option", f"{name}={value}")]


def train(data: Mapping[Path, float], settings: Mapping[str, Any], out: Path) -> Path:
    """Train a model on datasets with their shares of the tokens; return its folder."""
    named = [part for folder in data for part in ("--data", folder)]
    shares = ",".join(f"{share:g}" for share in data.values())
    reactree("train", *named, *flags({**settings, "shares": shares}), "--out", out)
    return out / "model"


def folder_of(planner: str) -> str:
    """A folder's name for a planner with its options."""
    return planner.replace(":", "-").replace("=", "-")


def contender(name: str) -> str:
    """Return a planner for the comparison: with the learnt prompts, and without circles if it supports that."""
    known = bare(name)
    return f"{known}:break_rounds=true" if hasattr(spec.planner(known).settings, "break_rounds") else known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--config", type=Path, default=CONFIG, help="settings of training and comparison")
    parser.add_argument("--tasks", type=Path, help="a file of WAH-NL tasks to compare in, too")
    options = parser.parse_args()
    Comparison(read(options.config, Compared), options.out.resolve()).carry_out(options.tasks)


def read(config: Path, kind: type[Kind]) -> Kind:
    """Read the settings.

    Raises:
        UserError: The file cannot be read, or is wrong.
    """
    try:
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"--config {config}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UserError(f"--config {config}: holds no settings; {CONFIG.parent} shows such files")
    return read_settings(kind, values, where=str(config))


@dataclass(frozen=True)
class Comparison:
    """Settings and folder of a comparison.

    Attributes:
        compared: Settings of training and comparison.
        out: The folder.
    """

    compared: Compared
    out: Path

    def carry_out(self, tasks: Path | None) -> None:
        """Make the data, train, run the benches, report."""
        compared, contenders = self.compared, {}
        if compared.together or compared.corrected or not compared.start:
            reactree("dataset", "--exercises", compared.exercises, "--out", self._data("exercises"))
        if not compared.start:
            short = ("--exercises", compared.short, "--short", "--first-seed", _SHORT)
            reactree("dataset", *short, "--out", self._data("short"))
        for planner in compared.planners:
            plain = ("--houses", compared.houses, "--no-varied", "--unclear", 0)
            varied = ("--houses", compared.varied, "--first-seed", _VARIED)
            for kind, houses in (("plain", plain), ("varied", varied)):
                reactree("dataset", *houses, "--planner", planner, "--out", self._data(kind, planner))
        for preset, seed in product(compared.presets, compared.seeds):
            for name, model in self._models({"preset": preset, "seed": seed}):
                who = {"planner": contender(name)}
                contenders[f"{name}, {preset}, seed {seed}"] = {**who, "llm": "small", "model": str(model)}
        file = self.out / "contenders.yaml"
        file.write_text(yaml.safe_dump(contenders, sort_keys=False), encoding="utf-8")
        suites = {"generated": compared.suite, **({"wah_nl": {"tasks": tasks.resolve()}} if tasks else {})}
        for suite, settings in suites.items():
            everybody = ("--contenders", file, "--workers", os.cpu_count())
            bench = self.out / f"bench_{suite}"
            reactree("bench", "--suite", suite, *suite_options(settings), *everybody, "--out", bench)
            reactree("report", bench)

    def _models(self, shape: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
        """Train the models of a shape and seed; yield each planner with the folder of its model."""
        compared = self.compared
        begun = Path(compared.start) if compared.start else self._finding(shape)
        for planners in compared.groups:
            common = self._common(shape, planners, begun)
            for planner in planners:
                model = common
                if compared.alone:
                    alone = {**shape, "start": common, **compared.alone}
                    model = self._train(folder_of(planner), self._of(planner, shape), alone)
                yield planner, model

    def _finding(self, shape: Mapping[str, Any]) -> Path:
        """Train a model from scratch that can find, and knows the words of all planners; return its folder."""
        planners = self.compared.planners
        words = {self._data("varied", planner): 0.6 / len(planners) for planner in planners}
        data = {self._data("short"): 18, self._data("exercises"): 0.4, **words}
        return self._train("finding", data, {**shape, **self.compared.finding})

    def _common(self, shape: Mapping[str, Any], planners: Sequence[str], begun: Path) -> Path:
        """Train a model on several planners, with as many tokens of each; return its folder."""
        compared, common = self.compared, begun
        whose = f"_{folder_of(planners[0])}" if compared.apart else ""
        data = {self._data("exercises"): compared.shares.exercises}
        for planner in planners:
            data |= self._of(planner)
        if compared.together:
            common = self._train(f"together{whose}", data, {**shape, "start": common, **compared.together})
        if compared.corrected or compared.alone:
            for planner in planners:
                houses = ("--houses", compared.corrections, "--first-seed", _CORRECTIONS, "--no-varied", "--unclear", 0)
                who = ("--planner", planner, "--on-policy", "small", "--model", common)
                reactree("dataset", *houses, *who, "--out", self._corrections(planner, shape))
                data |= self._of(planner, shape)
        if compared.corrected:
            common = self._train(f"corrected{whose}", data, {**shape, "start": common, **compared.corrected})
        return common

    def _of(self, planner: str, shape: Mapping[str, Any] | None = None) -> dict[Path, float]:
        """Return a planner's data and shares; with a shape, include the corrections of its common model's runs."""
        shares = self.compared.shares
        data = {self._data("plain", planner): shares.plain, self._data("varied", planner): shares.varied}
        return data if shape is None else {**data, self._corrections(planner, shape): shares.corrections}

    def _corrections(self, planner: str, shape: Mapping[str, Any]) -> Path:
        return self._data("corrections", planner, *map(str, () if self.compared.begins_alike else shape.values()))

    def _data(self, *names: str) -> Path:
        return self.out / "data" / "_".join(map(folder_of, names))

    def _train(self, name: str, data: Mapping[Path, float], settings: Mapping[str, Any]) -> Path:
        return train(data, settings, self.out / "models" / f"{name}_{settings['preset']}_{settings['seed']}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
