"""What the world port adds to a bare environment: unified-planning's simulator of PDDL, ScienceWorld's own client, and
bare requests to WebShop's server, which is the tests' local peer with a small shop.

    .venv-worlds/bin/python benchmarks/worlds.py [--steps N]

A step lists what can be done and does something, as an episode does: in PDDL one of it, drawn at random from a seed, in
ScienceWorld and WebShop the next of a way to the goal; by turns with the port and without, on the same problems. In
PDDL the port tells besides what has changed or keeps a skill from being done.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from reactree_ros.world.pddl.engine import read_problem
from reactree_ros.world.pddl.problems import MAKERS
from reactree_ros.world.pddl.world import PddlTask, PddlWorld, made_up
from reactree_ros.world.scienceworld.engine import borrowed
from reactree_ros.world.scienceworld.tasks import described
from reactree_ros.world.scienceworld.world import ScienceWorld
from reactree_ros.world.webshop.world import WebShop, WebShopTask

sys.path[:0] = [str(Path(__file__).parents[1] / "test" / folder) for folder in (".", "worlds")]

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


def shopping_by_the_port(server: str, session: int, path: list[str]) -> Iterator[float]:
    """Yield the seconds of each step of a way through the world port."""
    with WebShop(WebShopTask(server, 60.0, session)) as world:
        world.observe().result()
        for action in path:
            begin = time.perf_counter()
            world.available_skills().result()
            world.execute(action).result()
            yield time.perf_counter() - begin


def bare_shopping(server: str, session: int, path: list[str]) -> Iterator[float]:
    """Yield the seconds of each step of a way by requests alone."""

    def ask(path: str, **values: object) -> Any:
        body = json.dumps(values).encode() if values or path == "/create" else None
        request = Request(f"{server}{path}", body, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)

    environment = ask("/create")
    ask("/reset", env_idx=environment, session_id=session)
    ask(f"/observation?env_idx={environment}")
    for action in path:
        begin = time.perf_counter()
        ask(f"/available_actions?env_idx={environment}")
        ask("/step", env_idx=environment, action=action)
        yield time.perf_counter() - begin


def print_ratio(name: str, with_port: list[float], without: list[float]) -> None:
    """Print a line."""
    ours, theirs = median(with_port), median(without)
    print(f"{name:12} {1000 * ours:6.2f} ms by the port, {1000 * theirs:6.2f} bare: {ours / theirs:.2f}", flush=True)


def main() -> None:
    """Print a line a domain, one of WebShop, and one of ScienceWorld."""
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

    from webshop_catalogue import GOALS
    from webshop_peer import WebShopPeer
    from webshop_plans import parts_of

    with_port, without = [], []
    with WebShopPeer() as peer:
        for session in [*range(len(GOALS))] * PROBLEMS:
            path = [said.removeprefix("Act: ").lower() for part in parts_of(GOALS[session]).values() for said in part]
            with_port += shopping_by_the_port(peer.url, session, path)
            without += bare_shopping(peer.url, session, path)
    print_ratio("webshop", with_port, without)

    from scienceworld import ScienceWorldEnv

    client, with_port, without = ScienceWorldEnv("", envStepLimit=10**9), [], []
    for name in TYPES:
        path = gold_path(name)
        with_port += science_by_the_port(name, path)
        without += bare_science(client, name, path)
    print_ratio("scienceworld", with_port, without)


if __name__ == "__main__":
    main()
