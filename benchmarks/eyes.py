"""What eyes are worth: a robot reports grasps that are none, and a second model looks whether they are.

    python benchmarks/eyes.py                    # both tables; about ten minutes on a busy core
    python benchmarks/eyes.py --grasps 100 --tasks 20

The robot is the symbolic house's; a fifth of its reports of a grasp are false, by a seed. The eyes are the tests'
detector: it reads the pixels of the drawn picture, never the state, and overlooks, mistakes and fails to see things at
the rates of the row. With several looks, what more than half of them say counts; the detector errs at each look anew. A
model that errs alike at each look is helped by none.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

from reactree_lab.household.generator import generate_house
from reactree_ros.episode import Episode
from reactree_ros.episode.eyes import WorldWithEyes
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.pictures import CHECKS
from reactree_ros.household.tasks import Task, parse_tasks
from reactree_ros.llm.eyes import Eyes
from reactree_ros.planners.spec import planner
from reactree_ros.world.port import Outcome

sys.path.insert(0, str(Path(__file__).parents[1] / "test"))
from detector import Detector
from slipping import SlippingWorld, grasps

#: Share of the robot's reports of a grasp that are false.
FALSE = 0.2
#: Misses, mistakes, and looks at which nothing can be seen.
RATES = ((0.0, 0.0, 0.0), (0.05, 0.05, 0.05), (0.1, 0.1, 0.1))
LOOKS = (1, 3, 5)


def tasks() -> list[Task]:
    """Make houses with tasks."""
    made = (generate_house(seed=seed, tasks=6) for seed in range(8))
    return [task for house in made for task in parse_tasks(house)]


def eyes(rates: tuple[float, float, float], seed: int) -> Eyes:
    """Return eyes that err at these rates."""
    misses, mistakes, blind = rates
    return Eyes(Detector(1000 + seed, misses=misses, mistakes=mistakes, blind=blind), "detector", patience=60.0)


def caught(task: Task, count: int, rates: tuple[float, float, float], looks: int, seed: int = 0) -> Counter[str]:
    """Let a robot grasp things, and count what the eyes make of its reports."""
    robot = SlippingWorld(task, share=FALSE, seed=seed)
    checks = {"pick up": replace(CHECKS["pick up"], looks=looks)}
    world, found = WorldWithEyes(robot, eyes(rates, seed), checks), Counter[str]()
    for seen in grasps(robot, world, count, random.Random(2000 + seed)):
        is_true = robot.reports[-1][1]
        kind = "true" if is_true else "false"
        found[kind] += 1
        found["looks"] += len(seen.glances)
        if seen.outcome is Outcome.POSTCONDITION:
            found[f"{kind} called none"] += 1
        elif "cannot see" in seen.text:
            found["unsure"] += 1
    return found


def reached(task: Task, rates: tuple[float, float, float] | None, seed: int) -> tuple[bool, int]:
    """Carry a task out, with eyes or without; returns whether its goal was reached, and the steps."""
    robot = SlippingWorld(task, share=FALSE, seed=seed)
    world = robot if rates is None else WorldWithEyes(robot, eyes(rates, seed), CHECKS)
    result = Episode(task.instruction, world=world, model=ExpertModel(), planner=planner("reactree_wm")).run()
    return result.gsr == 1.0, result.steps


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grasps", type=int, default=500, help="grasps a row")
    parser.add_argument("--tasks", type=int, default=40, help="tasks a row; 0: no second table")
    said = parser.parse_args()
    some = tasks()
    print(f"{FALSE:.0%} of the reports are false; {said.grasps} grasps a row")
    print("misses mistakes blind looks | false reports  caught | true called none  unsure | looks a grasp")
    for rates in RATES:
        for looks in LOOKS:
            found = caught(some[0], said.grasps, rates, looks)
            share = found["false called none"] / max(1, found["false"])
            print(
                f"{rates[0]:6.0%} {rates[1]:8.0%} {rates[2]:5.0%} {looks:5} | {found['false']:13} {share:7.1%} | "
                f"{found['true called none'] / max(1, found['true']):16.1%} {found['unsure'] / said.grasps:7.1%} | "
                f"{found['looks'] / said.grasps:13.2f}",
                flush=True,
            )
    for rates in (None, *RATES) if said.tasks else ():
        runs = [reached(task, rates, seed) for seed, task in enumerate(some[: said.tasks])]
        told = "no eyes" if rates is None else "eyes that err at {:.0%}, {:.0%}, {:.0%}".format(*rates)
        share, steps = sum(one for one, _ in runs) / len(runs), sum(steps for _, steps in runs) / len(runs)
        print(f"{told}: {share:.0%} of {len(runs)} goals reached by the expert, {steps:.1f} steps a task", flush=True)


if __name__ == "__main__":
    main()
