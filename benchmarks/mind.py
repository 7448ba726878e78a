"""What a decision of `llm: mind` costs.

    .venv-mind/bin/python benchmarks/mind.py [--threads 2] [--tasks 1] [--adapter FILE]

It carries out tasks of a generated house, in this process. Measured are the time from the start of the process to the
first decision, the time of a decision, the peak memory of the whole process, and the tokens that were read and said.
"""

from __future__ import annotations

import argparse
import re
import statistics
import time
from pathlib import Path

from reactree_lab.household.generator import generate_house
from reactree_local.mind import ADAPTER
from reactree_ros.agent.grammar import Grammar
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import Around, DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.spec import make_model, model_settings, trained_for
from reactree_ros.planners.spec import planner

#: Seed of the house, far from those of what ships.
HOUSE = 9_000_200
#: Longest wait for a decision, in seconds.
PATIENCE = 600.0


class Measured(Around):
    """A language model that notes each decision."""

    def __init__(self, model: LanguageModel) -> None:
        super().__init__(model)
        self.replies: list[Reply] = []
        self.seconds: list[float] = []
        self.first = 0.0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        begin = time.perf_counter()
        reply = self.model.decide(request).result(PATIENCE)
        self.first = self.first or time.clock_gettime(time.CLOCK_BOOTTIME)
        if isinstance(request.may_say, Grammar):
            self.replies.append(reply)
            self.seconds.append(time.perf_counter() - begin)
        return Pending.ready(reply)


def run(model: LanguageModel, tasks: int, adapter: Path) -> None:
    """Carry out tasks of the house, with the planner that the adapter was trained for."""
    (name, *_) = trained_for(adapter.parent)
    for task in parse_tasks(generate_house(seed=HOUSE, tasks=tasks)):
        with SymbolicWorld(task) as world:
            Episode(task.instruction, world=world, model=model, planner=planner(name)).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads that compute")
    parser.add_argument("--tasks", type=int, default=1, help="tasks of the house")
    parser.add_argument("--adapter", type=Path, default=ADAPTER, help="another GGUF adapter")
    options = parser.parse_args()
    values = {"adapter": str(options.adapter), "threads": options.threads}
    measured = Measured(make_model(*model_settings("mind", values, where="mind")))
    run(measured, options.tasks, options.adapter)
    measured.close()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    began = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19]) / 100
    megabytes = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1e3
    seconds, replies = measured.seconds, measured.replies
    prompt = statistics.mean(one.prompt_tokens or 0 for one in replies)
    cached = statistics.mean(one.cached_tokens or 0 for one in replies)
    said = statistics.mean(one.output_tokens or 0 for one in replies)
    print(
        f"{options.threads} threads: first decision after {measured.first - began:.2f} s from the start of the "
        f"process; {len(seconds)} decisions, median {statistics.median(seconds):.2f} s, p95 "
        f"{statistics.quantiles(seconds, n=20)[-1]:.2f} s, mean {statistics.mean(seconds):.2f} s; {megabytes:.0f} MB; "
        f"a decision has {prompt:.0f} prompt tokens, reads {prompt - cached:.0f} of them and says {said:.0f}"
    )


if __name__ == "__main__":
    main()
