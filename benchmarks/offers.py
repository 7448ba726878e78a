"""How many of the skills that a node is offered can be done, and does the expert lose one that it says?

    python benchmarks/offers.py [--tasks ../shared/data/wah_nl/tasks.json] [--tried 6] [--planner reactree_wm]

The expert carries out the tasks, once offered all skills and once those that are possible as far as the robot knows.
In the last so many tasks, each skill that is offered is tried on a copy of the world as it is then: it can be done if
the world does it. A `recall` can be if it names what the task names, or something that was seen.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.skill import lines_of
from reactree_ros.agent.text import names
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Outcome

TASKS = Path(__file__).parents[2] / "shared" / "data" / "wah_nl" / "tasks.json"
ACT = "Act: "


@dataclass
class Offered:
    """What was offered in some runs, what of it could be done, and what the expert did."""

    decisions: int = 0
    offered: Counter[str] = field(default_factory=Counter)  # by verb
    possible: Counter[str] = field(default_factory=Counter)
    acts: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # acts that were not on offer
    reached: int = 0


class Seen(Listener):
    """The words for what was seen."""

    def __init__(self) -> None:
        self.words = set[str]()

    def saw(self, observation: Observation) -> None:
        self.words |= {seen.word for seen in observation.seen}


class Watched(ExpertModel):
    """The expert, and a count of what it is offered."""

    def __init__(self, task: Task, world: SymbolicWorld, offered: Offered, *, tries: bool) -> None:
        super().__init__({task.instruction: goals_of(task.goal)})
        self._task, self._world, self._offered, self._tries = task, world, offered, tries
        self.seen = Seen()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        count, reply = self._offered, super().decide(request)
        said = reply.result().text.strip()
        lines = lines_of((*request.may_say.skills, *request.may_say.offers))
        if said.startswith(ACT):
            count.acts.append(said.removeprefix(ACT))
            count.lost += [one for one in count.acts[-1:] if one not in lines]
        if self._tries:
            skills = [one for one in lines if one not in (DONE, FAILURE)]
            count.decisions += 1
            count.offered.update(map(self._verb, skills))
            count.possible.update(self._verb(one) for one in skills if self._can_be_done(one))
        return reply

    def _verb(self, skill: str) -> str:
        return "recall" if skill.startswith(RECALL) else self._world.household.split_skill(skill)[0]

    def _can_be_done(self, skill: str) -> bool:
        if skill.startswith(RECALL):
            word = skill.removeprefix(RECALL)
            return names(self._task.instruction, word) or word in self.seen.words
        world = copy.deepcopy(self._world, {id(self._task): self._task})
        return world.execute(skill).result().outcome is Outcome.DONE


def carry_out(tasks: list[Task], name: str, options: TreeOptions, tried: int) -> Offered:
    offered = Offered()
    for left, task in zip(range(len(tasks), 0, -1), tasks, strict=True):
        world = SymbolicWorld(task)
        model = Watched(task, world, offered, tries=left <= tried)
        episode = Episode(
            task.instruction, world=world, model=model, planner=planner(name), options=options, listener=model.seen
        )
        result = episode.run()
        if result.broken:
            raise UserError(f"task {task.task_id} broke off: {result.message}")
        offered.reached += result.gsr == 1.0
    return offered


def table(offers: str, of: Offered) -> Iterator[str]:
    for verb in (*of.offered, ""):
        offered, possible = (each[verb] if verb else each.total() for each in (of.offered, of.possible))
        per = f"{offered / of.decisions:8.1f}{possible / of.decisions:9.1f}" if of.decisions else ""
        yield f"{offers:10}{verb or 'together':10}{per}{possible / (offered or 1):9.0%}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, default=TASKS, help="a task file in the WAH-NL schema")
    parser.add_argument(
        "--tried", type=int, default=6, help="so many of the last tasks, in which every skill on offer is tried"
    )
    parser.add_argument("--limit", type=int, default=0, help="only the last so many tasks; 0: all")
    parser.add_argument("--offers", default="all", help="all, possible or both, separated by commas")
    parser.add_argument("--planner", default="reactree_wm", help="name of the planner, with its options")
    args = parser.parse_args()
    tasks = load_tasks(args.tasks)[-args.limit :]
    print("offers    skill      offered possible  share")
    for offers in filter(None, args.offers.split(",")):
        begun, chosen = time.perf_counter(), {} if offers == "all" else {"offers": offers}
        of = carry_out(tasks, args.planner, TreeOptions(**chosen), args.tried)
        print(*table(offers, of), sep="\n")
        print(
            f"{offers}: {len(tasks)} tasks, {of.reached} reached; {len(of.acts)} acts of the expert, {len(of.lost)} "
            f"not on offer{''.join(f', {one}' for one in of.lost[:5])}; {time.perf_counter() - begun:.0f} s"
        )


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
