"""Carries out the Embodied Agent Interface's gold programs in the world `eai` and in its own simulator, side by side.

Each program is run as it is, and with one line left out. Equal: both take every line or both refuse one, and its judge
says the same of both houses at the end. Needs `reactree_lab[eai]`: benchmarks/eai.py [--every 10] [--seed 0]

The world leaves out 37 of the benchmark's 342 tasks. Their goals have several relations, and its evaluator stops at the
first that holds; in one (688_1) the gold program takes a glass twice, which its simulator refuses. Known errors of its
labels: 84_1, 93_1, 339_1 and 627_1 have no goal; 120_1 lacks the lamp that its gold program turns on (EAI#20), and 27_2
its action (EAI#28).
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Sequence

from virtualhome_eval.simulation.evolving_graph.environment import EnvironmentGraph
from virtualhome_eval.simulation.evolving_graph.motion_planner import MotionPlanner

from reactree_lab.worlds.eai.actions import from_line
from reactree_lab.worlds.eai.tasks import EaiTask, load_tasks, reached
from reactree_lab.worlds.eai.world import EaiWorld
from reactree_ros.errors import UserError
from reactree_ros.world.port import Outcome


def ours(task: EaiTask, program: Sequence[str]) -> tuple[str, bool]:
    """Return why a line is refused, empty if none is, and whether the goal is reached."""
    world = EaiWorld(task)
    names = {thing.id: thing.name for thing in world.scene.things.values()}
    for line in program:
        try:
            observation = world.execute(from_line(line, names)).result()
        except UserError as error:
            return str(error), False
        if observation.outcome is not Outcome.DONE:
            return f"{line}: {observation.text}", False
    score = world.score().result()
    return "", score is not None and score.gsr == 1


def theirs(task: EaiTask, program: Sequence[str]) -> tuple[str, bool]:
    """Return the same by the benchmark's own simulator."""
    graph = EaiWorld(task).graph()
    planner = MotionPlanner(EnvironmentGraph(graph), graph, acting_char_id=None)
    for line in program:
        done, info = planner.my_execute_primitive_action_eval(line)
        if not done:
            return f"{line}: {info.get_error_string()}", False
    return "", reached(task, planner.env_state.to_dict(), program).gsr == 1


def main() -> None:
    """Print how many plans are taken and how many reach the goal in each, and every plan on which they differ."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--every", type=int, default=1, help="each so many-th task")
    asked.add_argument("--seed", type=int, default=0, help="of the line that is left out")
    given = asked.parse_args()
    tasks = load_tasks(also_unreachable=True)
    for what in ("gold programs", "with one line left out"):
        found = Counter[str]()
        for number in list(tasks)[:: given.every]:
            program = list(tasks[number].program)
            if what != "gold programs":
                del program[random.Random(f"{given.seed} {number}").randrange(len(program))]
            here, there = ours(tasks[number], program), theirs(tasks[number], program)
            same = (not here[0], here[1]) == (not there[0], there[1])
            found.update({"plans": 1, "equal": same, "taken here": not here[0], "taken there": not there[0]})
            found.update({"reached here": here[1], "reached there": there[1]})
            if not same or (here[0] and what == "gold programs"):
                print(f"  {tasks[number].identifier}: here {here[0] or here[1]}; there {there[0] or there[1]}")
        print(f"{what}: {', '.join(f'{count} {name}' for name, count in found.items())}", flush=True)


if __name__ == "__main__":
    main()
