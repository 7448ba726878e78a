"""What the world port adds to a bare environment: problems in PDDL by the port, and by unified-planning's simulator.

    .venv-worlds/bin/python benchmarks/worlds.py [--steps N]

A step lists what can be done and does one of it, drawn at random from a seed, as an episode does; by turns with the
port and without, on the same problems. The port tells besides what has changed or keeps a skill from being done.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from statistics import median

from reactree_ros.world.pddl.engine import read_problem
from reactree_ros.world.pddl.problems import MAKERS
from reactree_ros.world.pddl.world import PddlTask, PddlWorld, made_up

PROBLEMS = 10


def by_the_port(task: PddlTask, steps: int) -> Iterator[float]:
    """Yield the seconds of each step through the world port."""
    drawn = random.Random(0)
    with PddlWorld(task) as world:
        for _ in range(steps):
            begin = time.perf_counter()
            world.execute(drawn.choice(world.available_skills().result())).result()
            yield time.perf_counter() - begin


def bare(task: PddlTask, steps: int) -> Iterator[float]:
    """Yield the seconds of each step of the simulator alone."""
    from unified_planning.shortcuts import SequentialSimulator

    drawn = random.Random(0)
    with SequentialSimulator(read_problem(task.domain, task.problem)) as simulator:
        state = simulator.get_initial_state()
        for _ in range(steps):
            begin = time.perf_counter()
            action, arguments = drawn.choice(list(simulator.get_applicable_actions(state)))
            state = simulator.apply(state, action, arguments)
            yield time.perf_counter() - begin


def main() -> None:
    """Print a line a domain."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="of each of the problems")
    steps = parser.parse_args().steps
    print(f"a step, {PROBLEMS} problems a domain with {steps} steps each, median:")
    for domain in MAKERS:
        with_port, without = list[float](), list[float]()
        for seed in range(1, PROBLEMS + 1):
            task = made_up(domain, seed)
            with_port += by_the_port(task, steps)
            without += bare(task, steps)
        ours, theirs = median(with_port), median(without)
        print(f"{domain:12} {1000 * ours:6.2f} ms by the port, {1000 * theirs:6.2f} bare: {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
