"""What the world port adds to a bare environment: unified-planning's simulator of PDDL, ScienceWorld's own client, and
ALFWorld's games on TextWorld.

    .venv-worlds/bin/python benchmarks/worlds.py [--steps N]

A step lists what can be done and does something, as an episode does: in PDDL and ALFWorld one of it, drawn at random
from a seed, in ScienceWorld the next of the simulator's own way; by turns with the port and without, on the same
problems. In PDDL the port tells besides what has changed or keeps a skill from being done.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

from reactree_ros.world.alfworld.games import TASK_TYPES, AlfworldTask
from reactree_ros.world.alfworld.games import made_up as made_up_game
from reactree_ros.world.alfworld.world import AlfworldWorld
from reactree_ros.world.pddl.engine import read_problem
from reactree_ros.world.pddl.problems import MAKERS
from reactree_ros.world.pddl.world import PddlTask, PddlWorld, made_up
from reactree_ros.world.port import World
from reactree_ros.world.scienceworld.engine import borrowed
from reactree_ros.world.scienceworld.tasks import described
from reactree_ros.world.scienceworld.world import ScienceWorld

PROBLEMS = 10
TYPES = ("melt", "find-animal", "power-component", "use-thermometer")


def by_the_port(world: World, steps: int) -> Iterator[float]:
    """Yield the seconds of each step through the world port."""
    drawn = random.Random(0)
    with world:
        world.observe().result()
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


def bare_alfworld(environment: Any, task: AlfworldTask, steps: int) -> Iterator[float]:
    """Yield the seconds of each step of a game by ALFWorld's own environment."""
    drawn = random.Random(0)
    environment.load(task.data())
    state = environment.reset()
    for _ in range(steps):
        begin = time.perf_counter()
        state, _, _ = environment.step(drawn.choice(state["admissible_commands"]))
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


def print_ratio(name: str, with_port: list[float], without: list[float]) -> None:
    """Print a line."""
    ours, theirs = median(with_port), median(without)
    print(f"{name:12} {1000 * ours:6.2f} ms by the port, {1000 * theirs:6.2f} bare: {ours / theirs:.2f}", flush=True)


def main() -> None:
    """Print a line a domain, and one of ALFWorld and of ScienceWorld."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="of each of the problems")
    steps = parser.parse_args().steps
    print(f"a step, {PROBLEMS} problems a domain with {steps} steps each, median:")
    for domain in MAKERS:
        with_port, without = list[float](), list[float]()
        for seed in range(1, PROBLEMS + 1):
            task = made_up(domain, seed)
            with_port += by_the_port(PddlWorld(task), steps)
            without += bare(task, steps)
        print_ratio(domain, with_port, without)

    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    environment = AlfredDemangler(PddlEnv(textworld.EnvInfos(facts=True, admissible_commands=True)))
    with_port, without = [], []
    for task_type in TASK_TYPES:
        game = made_up_game(task_type, 1)
        with_port += by_the_port(AlfworldWorld(game), steps)
        without += bare_alfworld(environment, game, steps)
    print_ratio("alfworld", with_port, without)

    from scienceworld import ScienceWorldEnv

    client, with_port, without = ScienceWorldEnv("", envStepLimit=10**9), [], []
    for name in TYPES:
        path = gold_path(name)
        with_port += science_by_the_port(name, path)
        without += bare_science(client, name, path)
    print_ratio("scienceworld", with_port, without)


if __name__ == "__main__":
    main()
