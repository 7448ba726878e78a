"""What a decision of `llm: mind` costs, and the same by llama.cpp's server with the same file, adapter and prompts.

    .venv-mind/bin/python -m pip install openai
    .venv-mind/bin/python benchmarks/mind.py [--threads 2] [--tasks 1] [--adapter FILE]

First `llm: mind` carries out tasks of a generated house alone, in its own process. Measured are the time from the start
of the process to the first decision, the time of a decision, the peak memory of the whole process, and the tokens that
were read and said.

Then it does so again, and llama.cpp's server (xllamacpp), in another process, is asked for each decision after it. So
both have the same prompts in the same order, a prompt cache, a grammar, and the machine to themselves. The server has
as many threads, and one slot with its cache in memory. The ratio is ours over the server's.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from reactree_ros.agent.grammar import Grammar
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.generator import generate_house
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.mind.engine import ADAPTER, PACKAGED, base
from reactree_ros.llm.port import Around, DecisionRequest, LanguageModel, Reply
from reactree_ros.llm.settings import make_model, model_settings
from reactree_ros.llm.trained import trained_for
from reactree_ros.planners.spec import planner

#: Seed of the house, far from those of what ships.
HOUSE = 9_000_200
#: Longest wait for a decision, in seconds.
PATIENCE = 600.0
_SERVER = """
import sys, threading
from xllamacpp import CommonAdapterLoraInfo, CommonParams, Server
settings = CommonParams()
settings.model.path, settings.port, settings.hostnames = sys.argv[1], 0, ["127.0.0.1"]
settings.lora_adapters = [CommonAdapterLoraInfo(sys.argv[2], 1.0)]
settings.n_ctx, settings.n_batch, settings.n_parallel = 8192, 512, 1
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = int(sys.argv[3])
server = Server(settings)
print("at", server.listening_address, flush=True)
threading.Event().wait()
"""


class Measured(Around):
    """A language model that notes each decision, and asks others for the same."""

    def __init__(self, model: LanguageModel, *others: LanguageModel) -> None:
        super().__init__(model)
        self.replies: list[list[Reply]] = []
        self.seconds: list[list[float]] = []
        self.first = 0.0
        self._others = others

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        replies, seconds = [], []
        for model in (self.model, *self._others):
            begin = time.perf_counter()
            replies.append(model.decide(request).result(PATIENCE))
            seconds.append(time.perf_counter() - begin)
        self.first = self.first or time.clock_gettime(time.CLOCK_BOOTTIME)
        if isinstance(request.may_say, Grammar):
            self.replies.append(replies)
            self.seconds.append(seconds)
        done: Pending[Reply] = Pending()
        done.set_result(replies[0])
        return done


def run(model: LanguageModel, tasks: int, adapter: Path) -> None:
    """Carry out tasks of the house, with the planner that the adapter was trained for."""
    (name, *_) = trained_for(adapter.parent)
    for task in parse_tasks(generate_house(seed=HOUSE, tasks=tasks)):
        with SymbolicWorld(task) as world:
            Episode(task.instruction, world=world, model=model, planner=planner(name)).run()


def mind(options: argparse.Namespace) -> LanguageModel:
    values = {"adapter": str(options.adapter), "threads": options.threads}
    return make_model(*model_settings("mind", values, where="mind"))


def alone(options: argparse.Namespace) -> None:
    """Carry out the tasks in this process, and print the cost as JSON."""
    measured = Measured(mind(options))
    run(measured, options.tasks, options.adapter)
    measured.close()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    began = int(Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()[19])
    replies = [reply for (reply,) in measured.replies]
    cost = {
        "first": measured.first - began / 100,
        **times([seconds for (seconds,) in measured.seconds]),
        "megabytes": int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1e3,
        "decisions": len(replies),
        "prompt": statistics.mean(reply.prompt_tokens or 0 for reply in replies),
        "read": statistics.mean((reply.prompt_tokens or 0) - (reply.cached_tokens or 0) for reply in replies),
        "said": statistics.mean(reply.output_tokens or 0 for reply in replies),
    }
    print(json.dumps(cost))


def times(seconds: list[float]) -> dict[str, float]:
    return {
        "median": statistics.median(seconds),
        "p95": statistics.quantiles(seconds, n=20)[-1],
        "mean": statistics.mean(seconds),
    }


@contextmanager
def served(options: argparse.Namespace) -> Iterator[LanguageModel]:
    """Yield llama.cpp's server of the same file and adapter, as a language model."""
    command = [sys.executable, "-c", _SERVER, str(base()), str(options.adapter), str(options.threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            at = next(line.split()[1] for line in process.stdout if line.startswith("at "))
            values: dict[str, Any] = {"base_url": f"{at}/v1", "chat": False, "remember": False, "request_timeout": 600}
            model = make_model(*model_settings("openai", values, where="server"))
            yield model
            model.close()
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2, help="threads of each")
    parser.add_argument("--tasks", type=int, default=1, help="tasks of the house")
    parser.add_argument("--adapter", type=Path, default=PACKAGED / ADAPTER, help="another GGUF adapter")
    parser.add_argument("--in-child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_child:
        alone(options)
        return
    command = [sys.executable, __file__, *sys.argv[1:], "--in-child"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    print(
        "alone, {threads} threads: first decision after {first:.2f} s from the start of the process; {decisions} "
        "decisions, median {median:.2f} s, p95 {p95:.2f} s, mean {mean:.2f} s; {megabytes:.0f} MB; a decision has "
        "{prompt:.0f} prompt tokens, reads {read:.0f} of them and says {said:.0f}".format(
            threads=options.threads, **found
        )
    )
    with served(options) as server:
        both = Measured(mind(options), server)
        run(both, options.tasks, options.adapter)
        both.close()
    ours, theirs = (times([one[which] for one in both.seconds]) for which in (0, 1))
    differ = sum(one.text.strip() != other.text.strip() for one, other in both.replies)
    print(f"{'seconds':>8} {'mind':>8} {'server':>8} {'ratio':>6}")
    for name, seconds in ours.items():
        print(f"{name:>8} {seconds:8.2f} {theirs[name]:8.2f} {seconds / theirs[name]:6.2f}")
    print(f"{differ} of {len(both.replies)} decisions differ")


if __name__ == "__main__":
    main()
