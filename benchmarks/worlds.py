"""What the world port adds to a bare environment: unified-planning's simulator of PDDL, ScienceWorld's client, jericho.

    .venv-worlds/bin/python benchmarks/worlds.py [--steps N]

A step lists what can be done and does something, as an episode does: in PDDL one of it, drawn at random from a seed, in
ScienceWorld the next of the simulator's own way, in jericho the next of the way through a game of ours; by turns with
the port and without, on the same problems. In PDDL the port tells besides what has changed or keeps a skill from being
done; in jericho it asks another process, and that one the game for its score.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from reactree_ros.world.jericho.world import JerichoWorld
from reactree_ros.world.pddl.engine import read_problem
from reactree_ros.world.pddl.problems import MAKERS
from reactree_ros.world.pddl.world import PddlTask, PddlWorld, made_up
from reactree_ros.world.scienceworld.engine import borrowed
from reactree_ros.world.scienceworld.tasks import described
from reactree_ros.world.scienceworld.world import ScienceWorld

sys.path.insert(0, str(Path(__file__).parents[1] / "test" / "worlds"))
from greywater import PATH, compiled, greywater

PROBLEMS = 10
TYPES = ("melt", "find-animal", "power-component", "use-thermometer")


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


def gold_path(name: str) -> list[str]:
    """Return the simulator's own way through the first task of a type."""
    with borrowed() as engine:
        engine.load(name, 0, gold=True)
        return engine.gold()


def science_by_the_port(name: str, path: list[str]) -> Iterator[float]:
    """Yield the seconds of each step of a way through the world port."""
    with ScienceWorld(described(name, 0, "")) as world:
        world.observe().result()
        for action in path:
            begin = time.perf_counter()
            world.available_skills().result()
            world.execute(action).result()
            yield time.perf_counter() - begin


def bare_science(client: Any, name: str, path: list[str]) -> Iterator[float]:
    """Yield the seconds of each step of a way by the simulator's own client, which lists what can be done with it."""
    client.load(name, 0, "")
    client.reset()
    for action in path:
        begin = time.perf_counter()
        client.step(action)
        yield time.perf_counter() - begin


def jericho_by_the_port() -> Iterator[float]:
    """Yield the seconds of each step through our game through the world port."""
    with JerichoWorld(greywater()) as world:
        world.observe().result()
        for said in PATH:
            begin = time.perf_counter()
            world.available_skills().result()
            world.execute(said).result()
            yield time.perf_counter() - begin


def bare_jericho(environment: Any) -> Iterator[float]:
    """Yield the seconds of each step through our game by jericho's environment, in this process."""
    environment.reset()
    for said in PATH:
        begin = time.perf_counter()
        environment.step(said)
        yield time.perf_counter() - begin


def print_ratio(name: str, with_port: list[float], without: list[float]) -> None:
    """Print a line."""
    ours, theirs = median(with_port), median(without)
    print(f"{name:12} {1000 * ours:6.2f} ms by the port, {1000 * theirs:6.2f} bare: {ours / theirs:.2f}", flush=True)


def main() -> None:
    """Print a line a domain, and one of ScienceWorld and of jericho."""
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
        print_ratio(domain, with_port, without)

    from scienceworld import ScienceWorldEnv

    client, with_port, without = ScienceWorldEnv("", envStepLimit=10**9), [], []
    for name in TYPES:
        path = gold_path(name)
        with_port += science_by_the_port(name, path)
        without += bare_science(client, name, path)
    print_ratio("scienceworld", with_port, without)

    from jericho import FrotzEnv

    warnings.simplefilter("ignore")
    environment, with_port, without = FrotzEnv(str(compiled())), [], []
    for _ in range(steps):
        with_port += jericho_by_the_port()
        without += bare_jericho(environment)
    print_ratio("jericho", with_port, without)


if __name__ == "__main__":
    main()
