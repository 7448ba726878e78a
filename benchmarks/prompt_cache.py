"""What a prefix cache could serve of a task's prompts, and what a task costs, in two orders of the examples.

    python benchmarks/prompt_cache.py [--tasks FILE] [--every 12] [--planners react_wm,reactree_wm] [--tells none]
    python benchmarks/prompt_cache.py --every 72 --gguf FILE --read 16    # a real model reads the prompts, too

The expert carries every so many-th task out, with examples of each node's own, and with those that the nodes of a tree
share. Prompts are those of a model that was not trained; ``--tells none`` leaves out what else that is told. Tokens are
those of the package's rule of thumb. A perfect cache serves each line of a prompt that an earlier one of the run has
after the same lines. A task's costs are in thousandths of a dollar. With ``--gguf``, llama.cpp reads so many first
prompts of each run, in order, and says one token to each.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from reactree_lab.bench.comparison import read_prices
from reactree_local.llama import Served
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.llm.chat import chat_messages
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.memory.spec import shipped
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import AUTO, TreeOptions

ROOT = Path(__file__).parents[1]
tokens = cache(approximate_tokens)


class Run(ExpertModel):
    """A run of the expert: its requests, and the tokens of prompts, of these in a perfect cache, and of replies."""

    def __init__(self, task: Task, name: str, options: TreeOptions) -> None:
        super().__init__({task.instruction: goals_of(task.goal)})
        self.requests: list[DecisionRequest] = []
        self.output = 0
        brought = shipped(WAH_NL.name, name.partition(":")[0])
        memory, world = None if brought is None else brought.open(), SymbolicWorld(task)
        Episode(task.instruction, world=world, model=self, planner=planner(name), memory=memory, options=options).run()
        self.prompt, self.cached = perfectly_cached(self.requests)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.requests.append(replace(request, turns=tuple(request.turns)))
        reply = super().decide(request)
        self.output += tokens(reply.result().text)
        return reply


def perfectly_cached(requests: Iterable[DecisionRequest]) -> tuple[int, int]:
    seen: dict[str, Any] = {}
    prompt = cached = 0
    for request in requests:
        at = seen
        text = "".join(f"{one['role']}\n{one['content']}\n" for one in chat_messages(request.turns))
        for line in text.splitlines(keepends=True):
            prompt, cached = prompt + tokens(line), cached + (tokens(line) if line in at else 0)
            at = at.setdefault(line, {})
    return prompt, cached


def read_by(gguf: Path, runs: Sequence[Run], most: int) -> str:
    server = Served(str(gguf), context=16384).start()
    read = prompt = cached = seconds = 0.0
    for request in (one for run in runs for one in run.requests[:most]):
        asked = {"messages": chat_messages(request.turns), "max_tokens": 1}
        took = server.handle_chat_completions(asked)["timings"]
        read, seconds = read + 1, seconds + took["prompt_ms"] / 1000
        prompt, cached = prompt + took["prompt_n"] + took["cache_n"], cached + took["cache_n"]
    counted = f"{read:.0f} requests, {prompt:.0f} prompt tokens, {cached / prompt:.1%} cached"
    return f"    {gguf.stem}: {counted}, {prompt - cached:.0f} read in {seconds:.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tasks = ROOT.parent / "shared" / "data" / "wah_nl" / "tasks.json"
    parser.add_argument("--tasks", type=Path, default=tasks, help="task file in the WAH-NL schema")
    parser.add_argument("--every", type=int, default=12, help="take every so many-th task")
    parser.add_argument("--planners", default="react,react_wm,reactree,reactree_wm", help="separated by commas")
    parser.add_argument("--tells", default=AUTO, help="option of the run")
    parser.add_argument("--prices", type=Path, default=ROOT / "config" / "prices.yaml", help="price lists")
    parser.add_argument("--gguf", type=Path, help="a model that reads the prompts")
    parser.add_argument("--read", type=int, default=16, help="how many prompts of a run it reads")
    given = parser.parse_args()
    options = TreeOptions(thoughts_in_a_row=1, tells=given.tells)
    for name in [f"{one}:own_examples={own}" for one in given.planners.split(",") for own in ("true", "false")]:
        runs = [Run(task, name, options) for task in load_tasks(given.tasks)[:: given.every]]
        prompt, cached, output = (fmean(getattr(run, of) for run in runs) for of in ("prompt", "cached", "output"))
        asked = f"{len(runs)} tasks, {fmean(len(run.requests) for run in runs):.1f} requests"
        print(f"{name}: {asked}, {prompt:.0f} prompt tokens, {cached / prompt:.1%} cached, {output:.0f} output tokens")
        for listed, of in read_prices(given.prices).items():
            with_it, without = (1000 * of.cost_of(prompt, some, output) for some in (cached, 0))
            print(f"    {listed}: {with_it:.1f} with the cache, {without:.1f} without")
        if given.gguf:
            print(read_by(given.gguf, runs, given.read))


if __name__ == "__main__":
    main()
