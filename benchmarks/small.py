"""Decisions per second of a small model on one core: `llm: small` against vLLM's server with the same weights.

    .venv-torch/bin/python benchmarks/small.py MODEL --data DATASET --vllm .venv-llm/bin/python
    .venv/bin/python benchmarks/small.py MODEL --data DATASET --alone      # without vLLM

First `llm: small` runs alone, in its own process on one core. Measured are the time until it is ready (from the start
of the process, against a process that imports numpy), the time of a decision, and the peak memory of the whole process.

Then both make held-out decisions of a dataset, each among the allowed ones. A planner asks for those of one goal node
after the other, so that a prompt begins like the one before. 1 and 32 planners ask at once, for as many nodes. `llm:
small` has one core for everything; vLLM's server has one core for itself, and its clients have the others. Both are
asked in turns, after one warm-up.

- decisions/s, and the first column over the second.
- differ: number of decisions on which the two differ, of how many.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from reactree_lab.training.dataset import HELD_OUT, read_lines
from reactree_ros.agent.control_flow import flow_named
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.turns import About, Told
from reactree_ros.llm.port import DecisionRequest, LanguageModel
from reactree_ros.llm.spec import make_model, model_settings

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "llm"))
AT_ONCE = 32
Node = list[DecisionRequest]


def nodes_of(data: Path, count: int) -> list[Node]:
    """So many held-out goal nodes, with their requests for decisions."""
    learnable = (line for line in read_lines(data / HELD_OUT) if line.get("learn", True) and line.get("may_say"))
    grouped = groupby(learnable, key=lambda line: (line["house"], line["task"], line["node"]))
    return [list(requests(lines)) for _, lines in islice(grouped, count)]


def requests(lines: Iterator[dict[str, Any]]) -> Iterator[DecisionRequest]:
    for line in lines:
        flows = tuple(map(flow_named, line["may_say"]["control_flows"]))
        grammar = DecisionGrammar(tuple(line["may_say"]["skills"]), flows)
        planner = f"{line['task']} {line['node']}"
        yield DecisionRequest([Told(line["prompt"].removesuffix("\n"), About.TASK)], grammar, planner=planner)


def ask(model: LanguageModel, nodes: Sequence[Node], at_once: int) -> tuple[float, list[list[str]]]:
    """Let planners ask at once, each for one node after the other; return decisions per second, and the texts."""
    begin = time.perf_counter()
    with ThreadPoolExecutor(at_once) as planners:
        said = list(planners.map(lambda node: [model.decide(one).result(timeout=600).text for one in node], nodes))
    return sum(map(len, nodes)) / (time.perf_counter() - begin), said


@contextmanager
def on(cores: set[int]) -> Iterator[None]:
    """Run this process and its children on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def alone(model: Path, data: Path, count: int) -> None:
    """Decide one at a time in this process, and print the cost as JSON."""
    small = make_model(*model_settings("small", {"model": str(model)}, where="small"))
    small.ready().result(timeout=60)
    ready = time.clock_gettime(time.CLOCK_BOOTTIME) - _begun()
    seconds = []
    for node in nodes_of(data, count):
        for one in node:
            begin = time.perf_counter()
            small.decide(one).result(timeout=60)
            seconds.append(time.perf_counter() - begin)
    small.close()
    middle, tail = statistics.median(seconds), statistics.quantiles(seconds, n=10)[-1]
    status = Path("/proc/self/status").read_text(encoding="ascii")
    most = int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) / 1e3
    print(json.dumps({"ready": ready, "median": middle, "p90": tail, "megabytes": most, "decisions": len(seconds)}))


def _begun() -> float:
    """Start time of this process, in seconds since the machine's start."""
    after_name = Path("/proc/self/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return int(after_name[19]) / os.sysconf("SC_CLK_TCK")


def show_alone(model: Path, data: Path, count: int) -> None:
    """Measure a process that decides on one core, and print its cost."""
    with on({min(os.sched_getaffinity(0))}):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import numpy"], check=True)
        bare = time.perf_counter() - begin
        command = [sys.executable, __file__, str(model), "--data", str(data), "--nodes", str(count), "--in-child"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(
        "alone on one core: ready after {ready:.2f} s ({ratio:.1f} times a process that imports numpy); {decisions} "
        "decisions, median {median:.1f} ms, p90 {p90:.1f} ms; {megabytes:.0f} MB".format(
            ratio=found["ready"] / bare,
            **found | {"median": found["median"] * 1e3, "p90": found["p90"] * 1e3},
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of a model that `reactree lab train` made")
    parser.add_argument("--data", type=Path, required=True, help="a dataset")
    parser.add_argument("--vllm", default=sys.executable, help="an interpreter that has vLLM")
    parser.add_argument("--nodes", type=int, default=2 * AT_ONCE, help="goal nodes")
    parser.add_argument("--alone", action="store_true", help="no vLLM")
    parser.add_argument("--in-child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_child:
        alone(options.model, options.data, options.nodes)
        return
    show_alone(options.model, options.data, options.nodes)
    if not options.alone:
        against_vllm(options)


def against_vllm(options: argparse.Namespace) -> None:
    """Decide in turns with vLLM's server, and print the decisions per second of both."""
    from tiny import TinyServer

    nodes = nodes_of(options.data, options.nodes)
    core, *others = sorted(os.sched_getaffinity(0))
    with on({core}):
        many = {"model": str(options.model), "max_concurrent": AT_ONCE}
        small = make_model(*model_settings("small", many, where="small"))
        small.ready().result(timeout=60)
        server = TinyServer(options.model, max_model_len=8192, python=options.vllm)
        server.start()
    server.wait_until_ready()
    url = {"base_url": server.base_url, "chat": False, "max_concurrent": AT_ONCE}
    served = make_model(*model_settings("openai", url, where="vllm"))
    served.ready().result(timeout=120)
    print(f"{len(nodes)} goal nodes, {sum(map(len, nodes))} decisions")
    print(f"{'at once':>8} {'small':>8} {'vLLM':>8} {'ratio':>6}   differ")
    for at_once in (1, AT_ONCE):
        for _ in range(2):
            with on({core}):
                ours, said = ask(small, nodes, at_once)
            with on(set(others) or {core}):
                theirs, said_there = ask(served, nodes, at_once)
        pairs = [pair for one in zip(said, said_there, strict=True) for pair in zip(*one, strict=True)]
        differ = sum(one != other for one, other in pairs)
        print(f"{at_once:>8} {ours:8.1f} {theirs:8.1f} {ours / theirs:6.2f}   {differ} of {len(pairs)}")
    small.close()
    served.close()
    server.stop()


if __name__ == "__main__":
    main()
