"""How many of the skills that a node is offered can be done, and does the expert lose one that it says?

    python benchmarks/offers.py [--tasks ../shared/data/wah_nl/tasks.json] [--tried 6] [--planner reactree_wm]
    python benchmarks/offers.py --cost

The expert carries out the tasks, once offered all skills and once those that are possible as far as the robot knows.
In the last so many tasks, each skill that is offered is tried on a copy of the world as it is then: it can be done if
the world does it. A `recall` can be if it names what the task names, or something that was seen.

With ``--cost``: what it takes to choose some 200 of 5,000 skills for one decision, beside making the grammar of those.
The skills are texts of a household, or values of a robot's declared skills. A world lists the same at each decision, or
each time something else, as after a door was opened.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from reactree_ros.agent.decision import DONE, FAILURE, RECALL
from reactree_ros.agent.grammar import DecisionGrammar, Grammar
from reactree_ros.agent.household import Household
from reactree_ros.agent.needs import Need
from reactree_ros.agent.observation import Observation, Outcome, Seen
from reactree_ros.agent.parameters import Thing
from reactree_ros.agent.skill import Offer, Offered, Skill, apart, lines_of
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.memory.knowledge import Knowledge, Known
from reactree_ros.planners.spec import planner
from reactree_ros.tree.advice import Offers
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions

TASKS = Path(__file__).parents[2] / "shared" / "data" / "wah_nl" / "tasks.json"
ACT = "Act: "
T = TypeVar("T")


@dataclass
class Counted:
    """What was offered in some runs, what of it could be done, and what the expert did."""

    decisions: int = 0
    offered: Counter[str] = field(default_factory=Counter)  # by verb
    possible: Counter[str] = field(default_factory=Counter)
    acts: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)  # acts that the world would have done, and were not on offer
    in_vain: int = 0  # acts that were not on offer
    reached: int = 0


class Eyes(Listener):
    """The words for what was seen."""

    def __init__(self) -> None:
        self.words = set[str]()

    def saw(self, observation: Observation) -> None:
        self.words |= {seen.word for seen in observation.seen}


class Watched(ExpertModel):
    """The expert, and a count of what it is offered."""

    def __init__(self, task: Task, world: SymbolicWorld, counted: Counted, *, tries: bool) -> None:
        super().__init__({task.instruction: goals_of(task.goal)})
        self._task, self._world, self._counted, self._tries = task, world, counted, tries
        self.eyes, self._wanted = (
            Eyes(),
            {task.word_of(name) for one in task.goal for name in (one.item, one.target) if name},
        )

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        count, reply = self._counted, super().decide(request)
        said = reply.result().text.strip()
        assert isinstance(request.may_say, Grammar)
        lines = lines_of((*request.may_say.skills, *request.may_say.offers))
        if said.startswith(ACT):
            count.acts.append(said.removeprefix(ACT))
            away = [one for one in count.acts[-1:] if one not in lines]
            count.lost += filter(self._can_be_done, away)
            count.in_vain += len(away)
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
            return word in self._wanted or word in self.eyes.words
        world = copy.deepcopy(self._world, {id(self._task): self._task})
        return world.execute(skill).result().outcome is Outcome.DONE


def carry_out(tasks: list[Task], name: str, options: TreeOptions, tried: int) -> Counted:
    counted = Counted()
    for left, task in zip(range(len(tasks), 0, -1), tasks, strict=True):
        world = SymbolicWorld(task)
        model = Watched(task, world, counted, tries=left <= tried)
        episode = Episode(
            task.instruction, world=world, model=model, planner=planner(name), options=options, listener=model.eyes
        )
        result = episode.run()
        if result.broken:
            raise UserError(f"task {task.task_id} broke off: {result.message}")
        counted.reached += result.gsr == 1.0
    return counted


def table(offers: str, of: Counted) -> Iterator[str]:
    for verb in (*of.offered, ""):
        offered, possible = (each[verb] if verb else each.total() for each in (of.offered, of.possible))
        per = f"{offered / of.decisions:8.1f}{possible / of.decisions:9.1f}" if of.decisions else ""
        yield f"{offers:10}{verb or 'together':10}{per}{possible / (offered or 1):9.0%}"


# ---- the cost -----------------------------------------------------------------------------------------------------

#: Skills that are known; what was seen, and how much of that is near and open.
KNOWN, SEEN, NEAR = 5000, 180, 10


def cost() -> Iterator[str]:
    things = [f"mug {number}" for number in range(1, KNOWN // len(WAH_NL.actions) + 1)]
    listed = [f"{verb} {name}" for name in things for verb in WAH_NL.actions]
    changing = (["wait", *listed[at:], *listed[:at]] for at in itertools.count())
    own = [
        Skill(
            name=f"{verb} {fact}",
            wording=f"{verb} {fact} {{thing}}",
            parameters={"thing": Thing()},
            requires=(Need(fact, ("{thing}",)),),
        )
        for fact in ("near", "held", "at", "open")
        for verb in map("{}ing".format, "abcde")
    ]
    names = tuple(things[: KNOWN // len(own)])
    declared = [Offer(skill, {"thing": names}) for skill in own]
    offers, robot = in_a_house(WAH_NL.with_skills(own))
    ways: dict[str, Callable[[], Sequence[Offered]]] = {
        "texts, the same each time": lambda: offers.texts(listed, robot),
        "texts, others each time": lambda: offers.texts(next(changing), robot),
        "declared": lambda: offers.offers(declared, robot),
    }
    for name, choose in ways.items():
        kept, took = timed(choose)
        texts, some = apart(kept)
        _, grammar = timed(partial(grammar_of, texts, some))
        yield (
            f"{name:26}{len(lines_of(kept)):5} offered in {took:5.2f} ms, {took / grammar:.1f} times their grammar "
            f"({grammar:.2f} ms)"
        )


def grammar_of(texts: Sequence[str], offers: Sequence[Offer]) -> str:
    return DecisionGrammar(texts, offers=offers).ebnf()


def in_a_house(household: Household) -> tuple[Offers, Known]:
    """Return what chooses for a robot that has seen some things, and stands where a few of them are."""
    knowledge = Knowledge(household)
    seen = tuple(Seen("mug", number, "kitchen 1", states=("CLOSED",)) for number in range(1, SEEN + 1))
    here = tuple(replace(one, place="mug 1", states=("OPEN",)) for one in seen[:NEAR])
    knowledge.saw(Observation("", seen=seen))
    there = Observation("", seen=here)
    knowledge.saw(there)
    knowledge.did("go to mug 1", there)
    return Offers(knowledge, ["mug"]), knowledge.of()


def timed(call: Callable[[], T], times: int = 200) -> tuple[T, float]:
    """Return what a call returns, and the median of its times on the CPU, in milliseconds."""
    took = []
    for _ in range(times):
        begun = time.thread_time()
        result = call()
        took.append(1000 * (time.thread_time() - begun))
    return result, statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=Path, default=TASKS, help="a task file in the WAH-NL schema")
    parser.add_argument(
        "--tried", type=int, default=6, help="so many of the last tasks, in which every skill on offer is tried"
    )
    parser.add_argument("--limit", type=int, default=0, help="only the last so many tasks; 0: all")
    parser.add_argument("--offers", default="all,possible", help="all, possible or both, separated by commas")
    parser.add_argument("--planner", default="reactree_wm", help="name of the planner, with its options")
    parser.add_argument("--cost", action="store_true", help="measure only what choosing costs")
    args = parser.parse_args()
    if args.cost:
        print(*cost(), sep="\n")
        return
    tasks = load_tasks(args.tasks)[-args.limit :]
    print("offers    skill      offered possible  share")
    for offers in filter(None, args.offers.split(",")):
        begun, chosen = time.perf_counter(), {} if offers == "all" else {"offers": offers}
        of = carry_out(tasks, args.planner, TreeOptions(**chosen), args.tried)
        print(*table(offers, of), sep="\n")
        print(
            f"{offers}: {len(tasks)} tasks, {of.reached} reached; {len(of.acts)} acts of the expert, {of.in_vain} not "
            f"on offer, of which the world does {len(of.lost)}{''.join(f', {one}' for one in of.lost[:5])}; "
            f"{time.perf_counter() - begun:.0f} s"
        )


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"error: {error}")
