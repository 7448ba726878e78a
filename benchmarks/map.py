"""What a kept map spares: how many steps it takes to find a thing in one house whose things move between the tasks.

    python benchmarks/map.py [--tasks 100] [--passes 3] [--seed 1] [--json FILE]
    python benchmarks/map.py --sightings 100000

Each task asks for one thing at another place. An hour lies between two tasks, in which things move: those of some words
often, those of others hardly ever, mostly to one of a few places of their word. The robot's own doing stays, too. Every
way carries out the same tasks from the same starts: the expert with working memory, and routines, each with and without
a kept map. The map is closed and opened again after every 50 tasks.

- steps: skills and recalls until the robot holds such a thing.
- reached: tasks that reached their goal.

``--sightings`` measures instead what so many sightings take: the time of an observation, of a look-up, and the memory.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from reactree_lab.household.generator import generate_house
from reactree_ros.agent.observation import Observation, Seen
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.eyes import Remembering
from reactree_ros.household.expert.goals import goals_of
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import GoalCondition, Task, laid, lying, out_of_sight, parse_tasks
from reactree_ros.memory.embedding import WordEmbedder
from reactree_ros.memory.house_map import HouseMap
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.planners.spec import planner
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import Routines, TreeOptions

HOUR = 3600.0
#: Tasks after which the map is closed and opened again.
RESTART = 50
#: The share of things that move in an hour: of restless words, and of the others.
RESTLESS, CALM = 0.3, 0.01
Lies = dict[int, tuple[str, int]]


class Clock:
    """A clock that goes by a second each time it is read, and by an hour between tasks."""

    def __init__(self) -> None:
        self.now = 1.8e9

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class House:
    """A house whose things move."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"house {seed}")
        self.tasks = parse_tasks(generate_house(seed=seed, rooms=5, tasks=60, varied=True))
        self.start = self.tasks[0]
        self.lies: Lies = lying(self.start.init_graph)
        self.words = {node.id: node.class_name for node in self.start.init_graph.nodes}
        places = [one for one in sorted(set(self.lies.values())) if not out_of_sight(one[0], self.words[one[1]])]
        self.lies = {thing: self.rng.choice(places) for thing in self.lies}
        names = sorted({self.words[thing] for thing in self.lies})
        self.restless = set(self.rng.sample(names, len(names) // 2))
        self.favourite = {name: self.rng.sample(places, 3) for name in names}
        self.places = places

    def pass_an_hour(self) -> None:
        """Move things by chance."""
        for thing in sorted(self.lies):
            name = self.words[thing]
            if self.rng.random() < (RESTLESS if name in self.restless else CALM):
                self.lies[thing] = self.rng.choice(self.favourite[name] if self.rng.random() < 0.8 else self.places)

    def task(self, number: int) -> Task:
        """Return a task that is not done yet: one thing that is to come to a place of a kind where none is."""
        rng = random.Random(f"task {number}")
        while True:
            one = rng.choice(rng.choice(self.tasks).goal)
            now = {self.words[at] for thing, (_, at) in self.lies.items() if self.words[thing] == one.item}
            if not now or one.target in now or one.target not in self.words.values():
                continue
            where = "on" if one.relation == "on" else "in"
            goal = GoalCondition(one.relation, one.item, one.target, 1)
            said = f"Put 1 {self.start.word_of(one.item)} {where} the {self.start.word_of(one.target)}"
            graph = laid(self.start.init_graph, self.lies)
            changed = {"init_graph": graph, "goal": [goal], "nl_instructions": [said], "task_id": number}
            return self.start.model_copy(update=changed)

    def take_over(self, world: SymbolicWorld) -> None:
        """Take over where the robot has put things."""
        scene = world.scene
        for thing in self.lies:
            one = scene.things[thing]
            if (inside := scene.container_of(one)) is not None:
                self.lies[thing] = ("INSIDE", inside.id)
            elif (under := scene.surface_of(one)) is not None:
                self.lies[thing] = ("ON", under.id)


class Finding(Listener):
    """Notes after how many steps the robot holds what it is sent for."""

    def __init__(self, word: str) -> None:
        self.word, self.steps = word, 0
        self.episode: Episode | None = None

    def observed(self, node: object, observation: Observation) -> None:
        held = any(seen.held and seen.word == self.word for seen in observation.seen)
        if held and not self.steps and self.episode is not None:
            self.steps = self.episode.context.budget.steps


class Way:
    """One way to carry tasks out.

    Args:
        folder: For its files.
        keeps: Whether it has a kept map.
        learns: Whether it has routines.
    """

    def __init__(self, folder: Path, clock: Clock, *, keeps: bool, learns: bool) -> None:
        self.name = f"{'routines' if learns else 'expert'}, {'map' if keeps else 'no map'}"
        self.path, self.clock = folder / f"{self.name}.map", clock
        self.memory = SqliteMemory(folder / f"{self.name}.db", WordEmbedder()) if learns else None
        self.map = HouseMap(self.path, "house", clock=clock) if keeps else None
        self.steps: list[int] = []
        self.reached = 0

    def restart(self) -> None:
        """Close the map and open it again."""
        if self.map is not None:
            self.map.close()
            self.map = HouseMap(self.path, "house", clock=self.clock)

    def carry_out(self, task: Task) -> SymbolicWorld:
        """Carry a task out; returns its world at the end."""
        world, (goal, *_) = SymbolicWorld(task), task.goal
        finding = Finding(task.word_of(goal.item))
        episode = Episode(
            task.instruction,
            world=world if self.map is None else Remembering(world, self.map),
            model=ExpertModel({task.instruction: goals_of(task.goal)}),
            planner=planner("reactree_wm"),
            memory=self.memory,
            examples=lambda goal, **_: Pending.ready(()),
            options=TreeOptions(routines=Routines.OFF if self.memory is None else Routines.ON),
            task_id=task.task_id,
            listener=finding,
        )
        finding.episode = episode
        result = episode.run()
        episode.remember(result)
        self.reached += result.gsr == 1.0
        if finding.steps:
            self.steps.append(finding.steps)
        return world


def compare(args: argparse.Namespace) -> None:
    """Carry the tasks out in every way, and print what that took."""
    house, clock, rows = House(args.seed), Clock(), []
    with tempfile.TemporaryDirectory() as folder:
        kinds = [(keeps, learns) for learns in (False, True) for keeps in (False, True)]
        ways = [Way(Path(folder), clock, keeps=keeps, learns=learns) for keeps, learns in kinds]
        for number in range(args.passes):
            for at in range(args.tasks):
                if at % RESTART == 0:
                    for way in ways:
                        way.restart()
                clock.now += HOUR
                house.pass_an_hour()
                task = house.task(number * args.tasks + at)
                worlds = [way.carry_out(task) for way in ways]
                house.take_over(worlds[0])
            for way in ways:
                mean, median = statistics.mean(way.steps), statistics.median(way.steps)
                rows.append(
                    {"pass": number + 1, "way": way.name, "mean": mean, "median": median, "found": len(way.steps)}
                    | {"reached": way.reached}
                )
                print(
                    f"pass {number + 1}, {way.name}: {mean:.2f} steps to find a thing (median {median:g}), found "
                    f"{len(way.steps)}, reached {way.reached} of {args.tasks}",
                    flush=True,
                )
                way.steps, way.reached = [], 0
        for way in ways:
            if way.map is not None:
                way.map.close()
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def sightings_of(rng: random.Random, count: int) -> Iterator[Observation]:
    """Yield observations of so many sightings in all: 50 words, 20 things each, at 60 places in 8 rooms."""
    for _ in range(count // 20):
        place = rng.randrange(60)
        at, room = f"shelf {place}", f"room {place % 8}"
        here = [Seen("shelf", place, room, at)]
        here += [Seen(f"thing {rng.randrange(50)}", rng.randrange(1, 21), room, at) for _ in range(19)]
        yield Observation("", seen=tuple(here))


def look_up(args: argparse.Namespace) -> None:
    """Measure sightings and look-ups."""
    rng, clock, took = random.Random(0), Clock(), defaultdict[str, list[tuple[float, float]]](list)

    def timed(name: str, call: Callable[[], object]) -> None:
        begun, used = time.perf_counter(), time.thread_time()
        call()
        took[name].append((1000 * (time.thread_time() - used), 1000 * (time.perf_counter() - begun)))

    with tempfile.TemporaryDirectory() as folder, HouseMap(Path(folder) / "many.map", "house", clock=clock) as kept:
        grown: dict[int, int] = {}
        for number, observation in enumerate(sightings_of(rng, args.sightings)):
            clock.now += 100.0
            timed("an observation of 20 sightings", partial(kept.take, observation))
            if (number + 1) * 20 in (args.sightings // 10, args.sightings):
                grown[(number + 1) * 20] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        calls: dict[str, Any] = {
            "where a word is likely": kept.likely,
            "all things of a word": kept.beliefs,
            "what a goal names and was seen lately": lambda word: kept.remembered(f"Put 1 {word} on shelf 3"),
        }
        for name, call in calls.items():
            for _ in range(500):
                timed(name, partial(call, f"thing {rng.randrange(50)}"))
        size = kept.path.stat().st_size
    for name, times in took.items():
        cpu, wall = ([time[at] for time in times] for at in (0, 1))
        said = ", ".join(
            f"{statistics.median(each):.2f} ms of {what} (p99 {statistics.quantiles(each, n=100)[98]:.2f})"
            for each, what in ((cpu, "CPU"), (wall, "the clock"))
        )
        print(f"{name}: median {said}")
    (few, before), (many, after) = grown.items()
    print(f"memory: {before / 1024:.1f} MB after {few} sightings, {after / 1024:.1f} MB after {many}")
    print(f"file: {size / 1e6:.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("tasks", 100), ("passes", 3), ("seed", 1), ("sightings", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    (look_up if args.sightings else compare)(args)


if __name__ == "__main__":
    main()
