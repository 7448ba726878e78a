"""Cost of the world port above bare environments.

    .venv-worlds/bin/python benchmarks/worlds.py [--steps N]    # PDDL, ScienceWorld, pyrobosim, WebShop
    .venv-games/bin/python benchmarks/worlds.py [--steps N]     # ALFWorld, jericho, WebShop

The bare environments are unified-planning's simulator of PDDL, ALFWorld's games on TextWorld, ScienceWorld's own
client, jericho's interpreter, pyrobosim's robots, and bare requests to WebShop's server.

A step lists the available skills and takes one, as an episode does. PDDL and ALFWorld take a random one from a seed,
the others the next one on a way to the goal. Steps with and without the port alternate, on the same problems. In PDDL
the port also reports effects and unmet conditions. In jericho it asks another process, which asks the game for its
score. In pyrobosim a step is a walk and a look, as fast as possible. WebShop's server is the tests' local peer with a
small shop.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar
from urllib.request import Request, urlopen

from reactree_lab.worlds.alfworld.games import TASK_TYPES
from reactree_lab.worlds.alfworld.games import made_up as made_up_game
from reactree_lab.worlds.alfworld.world import AlfworldWorld
from reactree_lab.worlds.jericho.world import JerichoWorld
from reactree_lab.worlds.pddl.engine import MAKERS, read_problem
from reactree_lab.worlds.pddl.world import PddlWorld, made_up
from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim
from reactree_lab.worlds.pyrobosim.player import Player
from reactree_lab.worlds.pyrobosim.world import SPEC as PYROBOSIM
from reactree_lab.worlds.pyrobosim.world import PyrobosimSettings
from reactree_lab.worlds.scienceworld.world import ScienceWorld, borrowed, described
from reactree_lab.worlds.webshop.world import WebShop, WebShopTask
from reactree_ros.errors import UserError
from reactree_ros.world.port import World
from reactree_ros.world.spec import WORLDS

sys.path[:0] = [str(Path(__file__).parents[1] / of) for of in ("test", "ros2_ws/src/reactree_lab/test/simulators")]

PROBLEMS = 10
TYPES = ("melt", "find-animal", "power-component", "use-thermometer")
T = TypeVar("T")
#: The seconds of each step, with and without the port.
Turns = Iterator[tuple[Iterable[float], Iterable[float]]]


def seconds(step: Callable[[T], object], of: Iterable[T]) -> Iterator[float]:
    """Yield how long each step takes."""
    for one in of:
        begin = time.perf_counter()
        step(one)
        yield time.perf_counter() - begin


def at_random(world: World, steps: int) -> Iterator[float]:
    """Yield the seconds of steps through the world port, drawn from the available skills."""
    drawn = random.Random(0)
    with world:
        world.observe().result()
        yield from seconds(
            lambda _: world.execute(drawn.choice(world.available_skills().result())).result(), range(steps)
        )


def along(world: World, path: Sequence[str]) -> Iterator[float]:
    """Yield the seconds of each step on a way through the world port."""
    with world:
        world.observe().result()
        yield from seconds(lambda said: (world.available_skills().result(), world.execute(said).result()), path)


def pddl(domain: str, steps: int) -> Turns:
    """Problems of a domain, with the bare simulator."""
    from unified_planning.shortcuts import SequentialSimulator

    def bare(simulator: Any) -> Iterator[float]:
        drawn, state = random.Random(0), simulator.get_initial_state()

        def step(_: int) -> None:
            nonlocal state
            action, arguments = drawn.choice(list(simulator.get_applicable_actions(state)))
            state = simulator.apply(state, action, arguments)

        yield from seconds(step, range(steps))

    for seed in range(1, PROBLEMS + 1):
        task = made_up(domain, seed)
        with SequentialSimulator(read_problem(task.domain, task.problem)) as simulator:
            yield at_random(PddlWorld(task), steps), bare(simulator)


def alfworld(steps: int) -> Turns:
    """A game of each type, with ALFWorld's own environment in this process."""
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
    from textworld.envs.pddl import PddlEnv

    environment = AlfredDemangler(PddlEnv(textworld.EnvInfos(facts=True, admissible_commands=True)))

    def bare() -> Iterator[float]:
        drawn, state = random.Random(0), environment.reset()

        def step(_: int) -> None:
            nonlocal state
            state, _, _ = environment.step(drawn.choice(state["admissible_commands"]))

        yield from seconds(step, range(steps))

    for task_type in TASK_TYPES:
        game = made_up_game(task_type, 1)
        environment.load(game.data())
        yield at_random(AlfworldWorld(game), steps), bare()


def scienceworld() -> Turns:
    """The simulator's own solutions, with its own client, which lists the available actions at every step."""
    from scienceworld import ScienceWorldEnv

    client = ScienceWorldEnv("", envStepLimit=10**9)
    for name in TYPES:
        with borrowed() as engine:
            engine.load(name, 0, gold=True)
            path = engine.gold()
        client.load(name, 0, "")
        client.reset()
        yield along(ScienceWorld(described(name, 0, "")), path), seconds(client.step, path)


def pyrobosim() -> Turns:
    """A walk to every piece of furniture of a house, with pyrobosim's robot in this process."""
    task = tasks_as_pyrobosim(seed=1)[1]
    furniture = [one["name"] for one in task.source.document["locations"]]
    player = Player()

    def step(name: str) -> None:
        for kind, target in (("navigate", name), ("detect", "")):
            player.begin("robot", kind, target, -1.0)
            while not player.wait("robot", 1.0)["ended"]:
                pass

    for _ in range(PROBLEMS):
        player.load("", task.source.document, task.source.metadata, 0, 0.0)
        world = PYROBOSIM.make(PyrobosimSettings(), task)
        yield along(world, [f"go to {name.replace('_', ' ')}" for name in furniture]), seconds(step, furniture)


def jericho() -> Turns:
    """The way through one of our games, with jericho's environment in this process."""
    from greywater import PATH, compiled, greywater
    from jericho import FrotzEnv

    warnings.simplefilter("ignore")
    environment = FrotzEnv(str(compiled()))
    for _ in range(PROBLEMS):
        environment.reset()
        yield along(JerichoWorld(greywater()), PATH), seconds(environment.step, PATH)


def webshop() -> Turns:
    """Ways to the wanted products, with bare requests."""
    from webshop_catalogue import GOALS
    from webshop_peer import WebShopPeer
    from webshop_plans import parts_of

    def ask(url: str, **values: object) -> Any:
        request = Request(url, json.dumps(values).encode() if values else None, {"Content-Type": "application/json"})
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)

    with WebShopPeer() as peer:
        environment = json.load(urlopen(Request(f"{peer.url}/create", b"{}"), timeout=60))

        def step(action: str) -> None:
            ask(f"{peer.url}/available_actions?env_idx={environment}")
            ask(f"{peer.url}/step", env_idx=environment, action=action)

        for session in [*range(len(GOALS))] * PROBLEMS:
            path = [said.removeprefix("Act: ").lower() for part in parts_of(GOALS[session]).values() for said in part]
            ask(f"{peer.url}/reset", env_idx=environment, session_id=session)
            yield along(WebShop(WebShopTask(peer.url, 60.0, session)), path), seconds(step, path)


def compare(name: str, turns: Turns) -> None:
    """Print a line."""
    with_port, without = list[float](), list[float]()
    for ours, theirs in turns:
        with_port += ours
        without += theirs
    port, bare = median(with_port), median(without)
    print(f"{name:12} {1000 * port:6.2f} ms with the port, {1000 * bare:6.2f} bare: {port / bare:.2f}", flush=True)


def main() -> None:
    """Print a line for each PDDL domain, and for each other environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=50, help="steps in each problem of PDDL and each game of ALFWorld")
    steps = parser.parse_args().steps
    rows = [
        *((domain, "pddl", pddl(domain, steps)) for domain in MAKERS),
        ("alfworld", "alfworld", alfworld(steps)),
        ("scienceworld", "scienceworld", scienceworld()),
        ("pyrobosim", "pyrobosim", pyrobosim()),
        ("jericho", "jericho", jericho()),
        ("webshop", "webshop", webshop()),
    ]
    print("per step, median:")
    for name, world, turns in rows:
        try:
            WORLDS.get(world).check_installed()
        except UserError as error:
            print(f"{name:12} {error}")
        else:
            compare(name, turns)


if __name__ == "__main__":
    main()
