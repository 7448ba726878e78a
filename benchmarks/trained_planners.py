"""Does the tree help? Small models for each planner, trained alike, compared in houses that none was trained in.

    .venv-torch/bin/python benchmarks/trained_planners.py --out FOLDER [--config FILE] [--tasks WAH_NL_TASKS] \
        [--base MODEL]

One model learns all planners from the same tasks of the same houses, with as many tokens of each planner. First it
learns from the expert (`together`), then from the expert's corrections of its own runs as each planner (`corrected`,
DAgger). If you give a model that has learnt this, both steps are left out. So the common part is learnt once, above all
how to find a wanted item in a list.

That model plans for each planner. With settings of `alone`, each planner gets its own model instead, which starts from
it and learns as many more tokens of that planner only. With `apart`, each planner's model learns nothing from other
planners except finding. The models differ only in their planner's prompts. A flat prompt is longer: as many tokens hold
fewer tasks.

With a pretrained `base`, LoRA matrices of it are learnt instead of a model from scratch. They run with the language
model `llm` of the settings. A base learns no exercises.

The script runs `reactree` commands that resume after an interruption: repeat its command to continue. The folder gets
the datasets, the models with their curves, and a bench with its report for each suite (GSR and SSR by number of goals,
with intervals and paired tests): `generated`, those of `suites`, and `wah_nl` if you name its tasks.
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
from types import MappingProxyType
from typing import Any, TypeVar

import yaml
from pydantic import Field, model_validator

from reactree_lab.dataset.lines import bare
from reactree_lab.training.settings import ADAPTER, GGUF
from reactree_ros.errors import UserError
from reactree_ros.planners import spec
from reactree_ros.plugins.settings import Settings, read_settings

CONFIG = Path(__file__).parents[1] / "config" / "trained_planners.yaml"
WITH_BASE = CONFIG.with_name("trained_with_base.yaml")
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
    presets: list[str] = Field(default=[], description="shapes of models from scratch")
    base: str = Field(
        default="",
        description="a pretrained model, as for `reactree lab train --base`, whose LoRA matrices are learnt",
    )
    llm: str = Field(default="transformers", description="language model that runs a base with its LoRA matrices")
    llm_options: dict[str, Any] = Field(default={"chat": False}, description="settings of that language model")
    workers: int = Field(default=0, ge=0, description="processes with a model each that act; 0: one per core")
    at_once: int = Field(default=1, ge=1, description="runs of each such process at the same time")
    seeds: list[int] = Field(default=[0], min_length=1, description="seeds of weights and order")
    apart: bool = Field(default=False, description="train each model only on its planner and the exercises")
    start: str = Field(
        default="",
        description="a model of that shape, or LoRA matrices of the base, to start from; empty: train one from "
        "scratch, by exercises",
    )
    houses: int = Field(ge=1, description="plain houses with the expert's decisions, one task each")
    varied: int = Field(ge=1, description="varied houses, likewise")
    people: float = Field(
        default=0, description="share of these where people live, see `reactree lab dataset --people`"
    )
    corrections: int = Field(ge=1, description="plain houses in which the common model acts and the expert corrects it")
    exercises: int = Field(
        default=20_000, ge=1, description="exercises, in the training of finding and in the common training"
    )
    short: int = Field(
        default=15_000, ge=1, description="short exercises, from which a model from scratch learns to find"
    )
    shares: Shares = Field(default=Shares(), description="shares of the tokens by kind")
    finding: dict[str, Any] = Field(
        default_factory=dict, description="settings of `reactree lab train`: mostly short exercises"
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
    suites: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="further benches in generated houses, with settings beyond those of `suite`"
    )

    @model_validator(mode="after")
    def _possible(self) -> Compared:
        if bool(self.presets) == bool(self.base):
            raise ValueError("name either `presets` of models from scratch, or a base (--base MODEL)")
        if self.base and not (self.start or self.together):
            raise ValueError("a `base` needs `together`, or LoRA matrices as `start`: it has learnt no planner")
        return self

    @property
    def shapes(self) -> list[dict[str, Any]]:
        """What each model is trained from: a shape's name or a base, and a seed."""
        named = [("preset", preset) for preset in self.presets] or [("base", self.base)]
        return [{kind: name, "seed": seed} for (kind, name), seed in product(named, self.seeds)]

    @property
    def exercised(self) -> bool:
        """Whether a model learns exercises."""
        return not self.base and bool(self.together or self.corrected or not self.start)

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


def suite_options(settings: Mapping[str, Any], option: str = "--suite-option") -> list[str]:
    """Settings as options of a command: the option's name, then NAME=VALUE."""
    return [part for name, value in settings.items() for part in (option, f"{name}={value}")]


def train(data: Mapping[Path, float], settings: Mapping[str, Any], out: Path) -> Path:
    """Train a model on datasets with their shares of the tokens; return its folder, or that of its LoRA matrices."""
    named = [part for folder in data for part in ("--data", folder)]
    shares = ",".join(f"{share:g}" for share in data.values())
    reactree("lab", "train", *named, *flags({**settings, "shares": shares}), "--out", out)
    return out / (ADAPTER if settings.get("base") else "model")


def folder_of(planner: str) -> str:
    """A folder's name for a planner with its options."""
    return planner.replace(":", "-").replace("=", "-")


def named(shape: Mapping[str, Any]) -> str:
    """The name of a shape, or of a base without its folders."""
    return Path(shape.get("base") or shape["preset"]).name


def called(shape: Mapping[str, Any]) -> str:
    """A name for a shape or base and a seed, for folders."""
    return f"{named(shape)}_{shape['seed']}"


def contender(name: str) -> str:
    """Return a planner for the comparison: with the learnt prompts, and without circles if it supports that."""
    known = bare(name)
    return f"{known}:break_rounds=true" if hasattr(spec.planner(known).settings, "break_rounds") else known


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    parser.add_argument("--config", type=Path, help=f"settings; default: {CONFIG.name}, for a base {WITH_BASE.name}")
    parser.add_argument("--tasks", type=Path, help="a file of WAH-NL tasks to compare in, too")
    parser.add_argument("--base", help="a pretrained model, instead of models from scratch")
    options = parser.parse_args()
    given = {"base": options.base} if options.base else {}
    compared = read(options.config or (WITH_BASE if given else CONFIG), Compared, given)
    Comparison(compared, options.out.resolve()).carry_out(options.tasks)


def read(config: Path, kind: type[Kind], given: Mapping[str, Any] = MappingProxyType({})) -> Kind:
    """Read the settings; given ones override them.

    Raises:
        UserError: The file cannot be read, or is wrong.
    """
    try:
        values = yaml.safe_load(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"--config {config}: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UserError(f"--config {config}: holds no settings; {CONFIG.parent} shows such files")
    return read_settings(kind, {**values, **given}, where=str(config))


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
        if compared.exercised:
            reactree("lab", "dataset", "--exercises", compared.exercises, "--out", self._data("exercises"))
        if not (compared.start or compared.base):
            short = ("--exercises", compared.short, "--short", "--first-seed", _SHORT)
            reactree("lab", "dataset", *short, "--out", self._data("short"))
        for planner in compared.planners:
            plain = ("--houses", compared.houses, "--no-varied", "--unclear", 0)
            varied = ("--houses", compared.varied, "--first-seed", _VARIED, "--people", compared.people)
            for kind, houses in (("plain", plain), ("varied", varied)):
                reactree("lab", "dataset", *houses, "--planner", planner, "--out", self._data(kind, planner))
        for shape in compared.shapes:
            for name, model in self._models(shape):
                who = {"planner": contender(name), **self._run_by(model)}
                contenders[f"{name}, {named(shape)}, seed {shape['seed']}"] = who
        file = self.out / "contenders.yaml"
        file.write_text(yaml.safe_dump(contenders, sort_keys=False), encoding="utf-8")
        generated = {"generated": {}, **compared.suites}
        benches = [(name, "generated", {**compared.suite, **more}) for name, more in generated.items()]
        if tasks:
            benches.append(("wah_nl", "wah_nl", {"tasks": tasks.resolve()}))
        for name, suite, settings in benches:
            workers = ("--workers", compared.workers or os.cpu_count(), "--at-once", compared.at_once)
            everybody = ("--contenders", file, *workers)
            bench = self.out / f"bench_{name}"
            reactree("lab", "bench", "--suite", suite, *suite_options(settings), *everybody, "--out", bench)
            reactree("lab", "report", bench)

    def _run_by(self, model: Path) -> dict[str, Any]:
        """Return the language model, with its settings, that runs a trained model or LoRA matrices."""
        compared = self.compared
        if not compared.base:
            return {"llm": "small", "model": str(model)}
        adapter = model / GGUF if compared.llm == "llama" else model
        return {"llm": compared.llm, "model": compared.base, **compared.llm_options, "adapter": str(adapter)}

    def _models(self, shape: Mapping[str, Any]) -> Iterator[tuple[str, Path]]:
        """Train the models of a shape and seed; yield each planner with the folder of its model."""
        compared = self.compared
        begun = compared.start or ("" if compared.base else self._finding(shape))
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

    def _common(self, shape: Mapping[str, Any], planners: Sequence[str], begun: Path | str) -> Path:
        """Train a model on several planners, with as many tokens of each; return its folder."""
        compared, common = self.compared, Path(begun)
        whose = f"_{folder_of(planners[0])}" if compared.apart else ""
        data = {self._data("exercises"): compared.shares.exercises} if compared.exercised else {}
        for planner in planners:
            data |= self._of(planner)
        if compared.together:
            common = self._train(f"together{whose}", data, {**shape, "start": begun, **compared.together})
        if compared.corrected or compared.alone:
            for planner in planners:
                houses = ("--houses", compared.corrections, "--first-seed", _CORRECTIONS, "--no-varied", "--unclear", 0)
                acting = self._run_by(common)
                who = ("--planner", planner, "--on-policy", acting.pop("llm"), "--model", acting.pop("model"))
                how = (*suite_options(acting, "--on-policy-option"), "--workers", compared.workers)
                how = (*how, "--at-once", compared.at_once)
                reactree("lab", "dataset", *houses, *who, *how, "--out", self._corrections(planner, shape))
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
        return self._data("corrections", planner, *(() if self.compared.begins_alike else (called(shape),)))

    def _data(self, *names: str) -> Path:
        return self.out / "data" / "_".join(map(folder_of, names))

    def _train(self, name: str, data: Mapping[Path, float], settings: Mapping[str, Any]) -> Path:
        return train(data, settings, self.out / "models" / f"{name}_{called(settings)}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
