"""Results of the rule-based expert: GSR, SSR and steps, with every miss.

python benchmarks/expert.py --tasks TASKS.json
python benchmarks/expert.py --houses 200
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator

from reactree_lab.household.generator import generate_house
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks, parse_tasks
from reactree_ros.planners.spec import planner


def run_task(task: Task, *, recall: bool, flat: bool) -> EpisodeResult:
    """Carry out a task from its instruction only."""
    name = f"{'react' if flat else 'reactree'}{'_wm' if recall else ''}"
    world = SymbolicWorld(task)
    return Episode(
        task.instruction, world=world, model=ExpertModel(), planner=planner(name), task_id=task.task_id
    ).run()


def houses(count: int) -> Iterator[Task]:
    """Generate houses of 3 to 8 rooms with one task each, in turn of the five types."""
    for seed in range(count):
        yield parse_tasks(generate_house(seed=seed, rooms=3 + seed % 6, tasks=5)[seed % 5])[0]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--tasks", help="task file in the WAH-NL schema")
    source.add_argument("--houses", type=int, help="number of generated houses")
    parser.add_argument("--no-recall", action="store_true", help="without working memory")
    parser.add_argument("--flat", action="store_true", help="without expansion, as in ReAct")
    options = parser.parse_args()
    tasks = load_tasks(options.tasks) if options.tasks else list(houses(options.houses))
    results = [(task, run_task(task, recall=not options.no_recall, flat=options.flat)) for task in tasks]
    for task, result in results:
        if result.gsr != 1.0:
            print(f"miss {task.task_id} env {task.env_id}: {task.instruction!r} goal {task.task_goal}")
            print(f"     ssr {result.ssr:.2f}, {result.end}, {result.decisions} decisions, {result.steps} steps")
    for name in ("gsr", "ssr"):
        print(f"{name.upper()} {100 * statistics.fmean(getattr(result, name) for _, result in results):.1f} %")
    for name in ("decisions", "steps", "agent_nodes", "seconds"):
        print(f"mean {name} {statistics.fmean(getattr(result, name) for _, result in results):.2f}")
    print(f"{len(results)} tasks, {sum(result.gsr == 1.0 for _, result in results)} reached")


if __name__ == "__main__":
    main()
