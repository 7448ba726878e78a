"""Several robots against one in the symbolic household, and the runs of failing robots.

python benchmarks/robots.py [--tasks 50] [--failures 500] [--pyrobosim 50 [--realtime-factor 10]]

The expert decides. The tasks come from generated houses and ask for several kinds of things, so that robots can work on
subgoals at the same time. Time is counted in steps; simultaneous steps count once (``makespan``). In pyrobosim (extra
``pyrobosim``) it is also counted in seconds.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from reactree_lab.household.generator import generate_house
from reactree_lab.worlds.pyrobosim.export import tasks_as_pyrobosim
from reactree_lab.worlds.pyrobosim.world import PyrobosimSettings
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.planners.spec import planner
from reactree_ros.tree.flows import Parallel
from reactree_ros.world.port import World
from reactree_ros.world.spec import WORLDS, Place

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))
from failing_robots import FailingTeam

#: Longest time for a world to load, in seconds.
LOADED_WITHIN = 60.0
#: Ticks after which a run counts as stuck; runs that end need some hundreds.
STUCK = 5000


def tasks(first: int) -> Iterator[Task]:
    """Generate tasks for things of several kinds."""
    seed = first
    while True:
        for task in parse_tasks(generate_house(seed=seed, tasks=2)):
            if len({condition.item for condition in task.goal if condition.item}) > 1:
                yield task
        seed += 1


def episode(task: Task, world: World) -> Episode:
    return Episode(task.instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm"))


def in_pyrobosim(first: int, factor: float) -> Iterator[tuple[str, Callable[[int], World]]]:
    """Generate tasks of houses in pyrobosim, with makers of their worlds."""
    spec = WORLDS.get("pyrobosim")
    for seed in itertools.count(first):
        for task_id, task in tasks_as_pyrobosim(seed=seed, tasks=2).items():
            if len({condition.item for condition in task.goal}) < 2:
                continue

            def make(robots: int, seed: int = seed, task_id: int = task_id) -> World:
                place = Place.from_settings(
                    spec, PyrobosimSettings(house=str(seed), robots=robots, realtime_factor=factor)
                )
                return place.make(place.task(task_id))

            yield task.instruction, make


def in_a_household(first: int) -> Iterator[tuple[str, Callable[[int], World]]]:
    """Generate tasks of the symbolic household, with makers of their worlds."""
    for task in tasks(first):
        yield task.instruction, partial(_household, task)


def _household(task: Task, robots: int) -> World:
    return SymbolicWorld(task, robots=robots)


def compare(name: str, count: int, source: Iterator[tuple[str, Callable[[int], World]]]) -> None:
    """Carry tasks out with one, two and three robots."""
    reached, steps, spans, claims = Counter[int](), Counter[int](), Counter[int](), Counter[str]()
    seconds, done = dict.fromkeys((1, 2, 3), 0.0), 0
    while done < count:
        instruction, make = next(source)
        for robots in (1, 2, 3):
            with make(robots) as world:
                world.observe().result(LOADED_WITHIN)  # loading the world is not a robot's work
                run = Episode(instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm"))
                result = run.run()
            if not any(isinstance(one, Parallel) for one in run.root.iterate()):
                break
            reached[robots] += result.gsr == 1.0
            steps[robots] += result.steps
            spans[robots] += result.makespan
            seconds[robots] += result.seconds
            claims.update(run.context.team.claims.counts)
            done += robots == 1
    for robots in (1, 2, 3):
        print(
            f"{name}, {robots} robots: GSR {reached[robots] / count:.3f} of {count}, {steps[robots]} steps, "
            f"{spans[robots]} one after the other: {spans[robots] / spans[1]:.2f} of one robot's; "
            f"{seconds[robots]:.0f} s: {seconds[robots] / seconds[1]:.2f}",
            flush=True,
        )
    print("claims: " + ", ".join(f"{number} {name}" for name, number in sorted(claims.items())), flush=True)


def fail(count: int) -> None:
    """Carry tasks out with robots that fail."""
    ends, lost, stuck = Counter[str](), 0, 0
    for number, task in zip(range(count), tasks(5200000), strict=False):
        rng = random.Random(number)
        robots = rng.choice((2, 3))
        kept = rng.choice([*range(robots), *range(robots), None])
        asked = [None if one == kept else rng.randrange(1, 60) for one in range(robots)]
        run = episode(task, FailingTeam(SymbolicWorld(task, robots=robots), asked))
        for _ in range(STUCK):
            if run.finished:
                break
            run.tick()
        if not run.finished:
            stuck += 1
            continue
        result, team = run.scored(), run.context.team
        lost += sum(bool(robot.gone) for robot in team.robots)
        left = "a robot is left" if team.left else "no robot is left"
        ends[f"{left}: {result.end}, goal {'reached' if result.gsr == 1.0 else 'not reached'}"] += 1
    print(f"{count} runs, {lost} robots lost in them: {stuck} got stuck")
    for end, number in sorted(ends.items()):
        print(f"  {end}: {number}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=50, help="number of tasks to compare")
    parser.add_argument("--failures", type=int, default=500, help="number of runs whose robots fail")
    parser.add_argument("--pyrobosim", type=int, default=0, help="number of tasks to compare in pyrobosim")
    parser.add_argument("--realtime-factor", type=float, default=10.0, help="speed of time in pyrobosim")
    options = parser.parse_args()
    if options.tasks:
        compare("household", options.tasks, in_a_household(5100000))
    if options.failures:
        fail(options.failures)
    if options.pyrobosim:
        compare("pyrobosim", options.pyrobosim, in_pyrobosim(1, options.realtime_factor))


if __name__ == "__main__":
    main()
