"""Decisions of an engine in this process for one run at a time and for several at once, as `--at-once` has it.

    python benchmarks/at_once.py [--llm vllm] [--llm-option model=FOLDER] [--at-once 1,24] [--profile]

The requests are those of the expert's runs in generated houses, the answers are the model's own and lead nowhere. Each
run asks for one decision after the other. Without a model, the tiny random one of the tests is made.

- decisions a second, and how many times that of the first number of runs at once.
- read: prompt tokens of a decision that no earlier prompt began with. said: tokens of its answer.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.run_spec import RunSpec
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.spec import make_model, model_settings

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "llm"))
from tiny import make_tiny_model

PLANNER = "reactree_wm:system_text=false:fixed_example=false"


class Noting(ExpertModel):
    """The expert; it notes what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[DecisionRequest] = []

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked.append(request)
        return super().decide(request)


def requests_of(seed: int, most: int) -> list[DecisionRequest]:
    """The first requests of the expert's run in a generated house."""
    (task,) = parse_tasks(generate_house(seed=seed, rooms=4, tasks=1))
    expert = Noting()
    with SymbolicWorld(task) as world:
        assemble(RunSpec(planner=PLANNER).of_task(task, task.task_id), world=world, model=expert).run()
    return [replace(one, max_tokens=32) for one in expert.asked[:most]]  # a random model would not end a thought


def ask(model: LanguageModel, runs: Sequence[Sequence[DecisionRequest]], at_once: int) -> tuple[float, list[Reply]]:
    """Ask for the decisions of each run one after the other, of several runs at once; return seconds and replies."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(at_once) as threads:
        replies = threads.map(lambda run: [model.decide(one).result(timeout=3600) for one in run], runs)
        told = [reply for run in replies for reply in run]
    return time.perf_counter() - begin, told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", default="vllm")
    parser.add_argument("--llm-option", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--at-once", default="1,24")
    parser.add_argument("--runs", type=int, default=24)
    parser.add_argument("--decisions", type=int, default=8, help="most decisions of each run")
    parser.add_argument("--profile", action="store_true", help="show where the time goes with the most runs at once")
    given = parser.parse_args()
    options = dict(option.partition("=")[::2] for option in given.llm_option)
    if given.llm == "vllm" and "model" not in options:
        options["model"] = str(make_tiny_model(Path(tempfile.gettempdir()) / "reactree-tiny"))
    numbers = [int(one) for one in given.at_once.split(",")]
    first: float | None = None
    for turn, number in enumerate(numbers):
        runs = [requests_of(seed, given.decisions) for seed in range(1000 * turn, 1000 * turn + given.runs)]
        model = make_model(*model_settings(given.llm, {"max_concurrent": 256, **options}, where="--llm-option"))
        model.ready().result()
        profile = cProfile.Profile() if given.profile and number == max(numbers) else None
        if profile is not None:
            profile.enable()
        seconds, replies = ask(model, runs, number)
        if profile is not None:
            profile.disable()
        model.close()
        rate = len(replies) / seconds
        first = first or rate
        read = sum((one.prompt_tokens or 0) - (one.cached_tokens or 0) for one in replies) / len(replies)
        said = sum(one.output_tokens or 0 for one in replies) / len(replies)
        print(
            f"{number:3} at once: {rate:7.2f} decisions a second, {rate / first:5.2f} times the first, "
            f"{read:6.1f} read and {said:5.1f} said a decision"
        )
        if profile is not None:
            pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


if __name__ == "__main__":
    main()
