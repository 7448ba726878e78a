"""What routines spare: the same tasks three times over, things moved in between, with routines and without.

    python benchmarks/routines.py [--llm expert] [--tasks 200] [--kinds 40] [--houses 5] [--passes 3] [--json FILE]
    python benchmarks/routines.py --lookup 10000

The tasks are generated. A kind is what its goal is made of: how many things go to which places, and what is turned on.
Its instruction says that in plain words, so that tasks of a kind differ by the things that they name. Both ways carry
out the same tasks in the same houses, one after the other; only the way with routines remembers anything.

- requests, tokens, seconds: of the language model, and of the whole run (without what is learnt after it).
- harm: what routines did to the house that nobody asked for, judged by the task's goal alone: things put elsewhere or
  in larger number, things picked up and appliances switched that the goal does not name.
- harm_by_agents: the same by agent nodes, which their model decides.
- lost, won: tasks that were reached only without routines, and only with them.

``--lookup`` measures instead how long a run looks for a routine among so many, beside the model's first request. What
changed houses and bad routines come to, ``test/routine/test_traps.py`` tries (``TRAPS=1000`` for all of it).
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from reactree_lab.household.generator import generate_house
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.assembly import proof
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, moved, parse_tasks
from reactree_ros.household.vocabulary import RECALLABLE
from reactree_ros.llm.port import LanguageModel
from reactree_ros.llm.spec import make_model, model_settings
from reactree_ros.memory.embedding import WordEmbedder
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.planners.spec import planner
from reactree_ros.routine import model as data
from reactree_ros.routine.fitting import Kept
from reactree_ros.routine.use import vocabulary_of
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Call, Listener
from reactree_ros.tree.options import Routines, TreeOptions

#: The tree of routines that are only to be found.
PLAIN = data.Skill(wording="go to kitchen 1")


@dataclass
class Pass:
    """What came of all tasks once.

    Attributes:
        by_routine: Tasks that a routine carried out alone.
        began: Tasks that a routine began and an agent node went on with.
    """

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    steps: int = 0
    reached: int = 0
    harm: int = 0
    harm_by_agents: int = 0
    by_routine: int = 0
    began: int = 0
    routines: int = 0


def kind_of(task: Task) -> str:
    """Return the kind of a task: its places with the number of things of each, without the names of the things."""
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for condition in task.goal:
        counts[f"{condition.relation} {condition.target}"].append(condition.count)
    return "; ".join(f"{where} {'+'.join(map(str, sorted(each)))}" for where, each in sorted(counts.items()))


def instruction_of(task: Task) -> str:
    """Say the goal of a task in plain words."""
    things: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    switched = []
    for condition in sorted(task.goal, key=lambda one: (one.relation, one.target, one.count)):
        target = task.word_of(condition.target)
        if condition.relation == "turnOn":
            switched.append(f"turn on the {target}")
        else:
            things["on" if condition.relation == "on" else "in", target].append(
                f"{condition.count} {task.word_of(condition.item)}"
            )
    put = [f"put {' and '.join(each)} {relation} the {target}" for (relation, target), each in things.items()]
    said = ", then ".join([*put, *switched])
    return f"{said[0].upper()}{said[1:]}"


def tasks_of(count: int, kinds: int, houses: int) -> list[Task]:
    """Return so many tasks of so many kinds in so many houses, in turns."""
    by_kind: defaultdict[str, list[Task]] = defaultdict(list)
    for seed in range(1, houses + 1):
        documents = generate_house(seed=seed, rooms=5, tasks=60, varied=True)
        for task in parse_tasks(documents):
            by_kind[kind_of(task)].append(task.model_copy(update={"task_id": 1000 * seed + task.task_id}))
    chosen = sorted(by_kind, key=lambda kind: (-len(by_kind[kind]), kind))[:kinds]
    drawn = [task for turn in zip_all([by_kind[kind] for kind in chosen]) for task in turn][:count]
    return [task.model_copy(update={"nl_instructions": [instruction_of(task)]}) for task in drawn]


def zip_all(lists: Sequence[Sequence[Task]]) -> Iterator[list[Task]]:
    """Yield the first of each, then the second, and so on."""
    for at in range(max(map(len, lists))):
        yield [one[at] for one in lists if at < len(one)]


class Harm(Listener):
    """Counts what is done to a house that nobody has asked for, after each skill, by routines and by agent nodes.

    It knows the task's goal and the house itself, not what a routine takes them for. Harm is each thing that is put
    where the goal does not say or in larger number than it says, picked up though the goal does not name it, and each
    appliance that is switched though the goal does not say so.
    """

    def __init__(self, task: Task, world: SymbolicWorld) -> None:
        self._scenes = [world.scene, *(one.scene for one in world.team().values() if isinstance(one, SymbolicWorld))]
        self._before = states_of(self._scenes)
        self._left = Counter({(one.item, one.relation, one.target): one.count for one in task.goal})
        self._taken = {one.item for one in task.goal}
        self._put: dict[int, Placed] = {}
        self.by_routines: list[str] = []
        self.by_agents: list[str] = []

    def came(self, node: GoalNode, call: Call, answer: Any) -> None:
        """Look what a skill has changed."""
        if call.of != "execute":
            return
        before, self._before = self._before, states_of(self._scenes)
        things = self._scenes[0].things
        for number, state in self._before.items():
            if state != before[number] and (harm := self._harm(things[number], before[number], state)):
                (self.by_agents if isinstance(node, AgentNode) else self.by_routines).append(harm)

    def _harm(self, thing: Thing, before: State, state: State) -> str:
        if state.is_on != before.is_on:
            asked = state.is_on and ("", "turnOn", thing.class_name) in self._left
            return "" if asked else f"{thing.name} was switched {'on' if state.is_on else 'off'}"
        if placed := self._put.pop(thing.id, None):
            self._left[placed] += 1  # it was taken up again
        if state.is_held:
            return "" if thing.class_name in self._taken else f"{thing.name} was picked up"
        if state.at is None:
            return f"{thing.name} is gone"
        relation, at = state.at
        place = self._scenes[0].things[at]
        placed = thing.class_name, relation, place.class_name
        if self._left[placed] > 0:
            self._left[placed] -= 1
            self._put[thing.id] = placed
            return ""
        return f"{thing.name} was put {relation} {place.name}"


#: A kind of thing, ``on`` or ``inside``, and the kind of place.
Placed = tuple[str, str, str]


class State(NamedTuple):
    """What can be changed of something by harm."""

    is_held: bool
    at: tuple[str, int] | None
    is_on: bool


def states_of(scenes: Sequence[Scene]) -> dict[int, State]:
    """Return what can be changed of everything in a house, as each of its robots sees it."""
    found, (scene, *_) = {}, scenes
    held = {number for one in scenes for number in one.held}
    for number, thing in scene.things.items():
        inside, on = scene.container_of(thing), scene.surface_of(thing)
        at = ("inside", inside.id) if inside is not None else None if on is None else ("on", on.id)
        found[number] = State(number in held, at, "ON" in thing.states)
    return found


def carry_out(
    task: Task, start: Task, model: LanguageModel, who: str, memory: EpisodicMemory | None, into: Pass
) -> bool:
    """Carry a task out in a house as it is now, and learn; returns whether the goal was reached."""
    world = SymbolicWorld(start)
    harm = Harm(start, world)
    episode = Episode(
        task.instruction,
        world=world,
        model=model,
        planner=planner(who),
        memory=memory,
        examples=lambda goal, **_: Pending.ready(()),
        options=TreeOptions(routines=Routines.OFF if memory is None else Routines.ON),
        task_id=task.task_id,
        listener=harm,
        proves=proof(lambda seed: SymbolicWorld(moved(start, 7000 + seed) if seed else start)),
    )
    begun = time.perf_counter()
    result = episode.run()
    into.seconds += time.perf_counter() - begun
    into.requests += len(episode.context.replies)
    into.prompt_tokens += result.prompt_tokens or episode.context.budget.prompt_tokens
    into.output_tokens += result.output_tokens or episode.context.budget.output_tokens
    into.steps += result.steps
    into.reached += result.gsr == 1.0
    into.harm += len(harm.by_routines)
    into.harm_by_agents += len(harm.by_agents)
    used = episode.learning.used
    into.by_routine += bool(used) and not used[-1][1]
    into.began += any(reason for _, reason in used)
    episode.remember(result)
    return result.gsr == 1.0


def passes_of(
    tasks: Sequence[Task],
    model_for: Callable[[Task], LanguageModel],
    who: str,
    memory: EpisodicMemory | None,
    count: int,
) -> tuple[list[Pass], list[list[bool]]]:
    """Carry all tasks out so often, with things moved in between; returns what came of it, and what was reached."""
    passes, reached = [], []
    for number in range(count):
        now = Pass()
        starts = (moved(task, number) if number else task for task in tasks)
        reached.append(
            [
                carry_out(task, start, model_for(task), who, memory, now)
                for task, start in zip(tasks, starts, strict=True)
            ]
        )
        now.routines = 0 if memory is None else len(memory.routines())
        passes.append(now)
        way = "without" if memory is None else "with"
        print(f"{way} routines, pass {number + 1}: {asdict(now)}", flush=True)
    return passes, reached


def compare(args: argparse.Namespace) -> None:
    """Carry the tasks out both ways, and print what that came to."""
    tasks = tasks_of(args.tasks, args.kinds, args.houses)
    spec, settings = model_settings(args.llm, {}, where="--llm")
    who = next(iter(spec.trained_for(settings)), "reactree_wm")
    made = None if args.llm == "expert" else make_model(spec, settings)
    if made is not None:
        made.ready().result()

    def model_for(task: Task) -> LanguageModel:
        return made or ExpertModel({task.instruction: goals_of(task.goal)})

    print(f"{len(tasks)} tasks of {len({kind_of(task) for task in tasks})} kinds, {who}, {args.llm}")
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for way in ("with", "without"):
            with SqliteMemory(Path(folder) / f"{way}.db", WordEmbedder()) as memory:
                found[way] = passes_of(tasks, model_for, who, memory if way == "with" else None, args.passes)
    rows = []
    for number in range(args.passes):
        (one, other), (mine, others) = ([found[way][part][number] for way in ("with", "without")] for part in (0, 1))
        pairs = list(zip(mine, others, strict=True))
        row = {"pass": number + 1, "with": asdict(one), "without": asdict(other)}
        rows.append(row | {"won": pairs.count((True, False)), "lost": pairs.count((False, True))})
    first, last = rows[0]["with"], rows[-1]["with"]
    share = last["requests"] / max(1, first["requests"])
    print(f"requests of the last pass: {share:.1%} of the first; lost and won:")
    print([(row["lost"], row["won"]) for row in rows])
    if args.json:
        args.json.write_text(json.dumps({"llm": args.llm, "planner": who, "passes": rows}, indent=1), encoding="utf-8")


def look_up(args: argparse.Namespace) -> None:
    """Measure how long a run looks for a routine among many, and how long its model takes for the first request."""
    rng, (task, *_) = random.Random(0), tasks_of(1, 1, 1)
    spec, settings = model_settings(args.llm, {}, where="--llm")
    known = vocabulary_of(SymbolicWorld(task))
    with tempfile.TemporaryDirectory() as folder, SqliteMemory(Path(folder) / "many.db", WordEmbedder()) as memory:
        carry_out(task, task, ExpertModel({task.instruction: goals_of(task.goal)}), "reactree_wm", memory, Pass())
        kept = Kept(memory)
        for number in range(args.lookup - 1):
            words = " and ".join(f"1 {word}" for word in rng.sample(RECALLABLE, 3))
            one = data.Routine(name=f"made up {number}", goal=f"Put {words} away, {number}", body=PLAIN)
            memory.change_routine(one.name, lambda text, one=one: one.to_json())
        begun = time.perf_counter()
        kept.find(task.instruction, known, "wah_nl").result()
        loading, took = time.perf_counter() - begun, {"fits": [], "fits not": []}
        for goal in (task.instruction, "Put everything away") * 500:
            begun = time.perf_counter()
            found = kept.find(goal, known, "wah_nl").result()
            took["fits" if found else "fits not"].append(1000 * (time.perf_counter() - begun))
    for name, times in took.items():
        print(f"{name}: median {statistics.median(times):.2f} ms, p99 {statistics.quantiles(times, n=100)[98]:.2f} ms")
    print(f"the first time, among {args.lookup}: {loading:.2f} s, in the background")
    model = make_model(spec, settings)
    model.ready().result()
    asked = Pass()
    who = next(iter(spec.trained_for(settings)), "reactree_wm")
    carry_out(task, task, model, who, None, asked)
    print(
        f"{args.llm}: {asked.requests} requests in {asked.seconds:.2f} s, "
        f"{1000 * asked.seconds / asked.requests:.1f} ms each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llm", default="expert")
    for name, default in (("tasks", 200), ("kinds", 40), ("houses", 5), ("passes", 3), ("lookup", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    (look_up if args.lookup else compare)(args)


if __name__ == "__main__":
    main()
