"""Cost of the machinery: ticks and decisions of growing trees against bare py_trees, and the world's observation.

python benchmarks/machinery.py [--scenes FOLDER]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import py_trees
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.trees import BehaviourTree

from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.planners.spec import planner
from reactree_ros.record.schema import Event
from reactree_ros.record.writer import Recorder, RecordFile, encoded
from reactree_ros.tree.options import TreeOptions
from reactree_ros.world.port import Observation, Score, World

SIZES = (10, 100, 1000)
DECISIONS = (10, 100, 1000)
TICKS = 500
REPEATS = 7
EXPANSIONS = 30
#: A bare tick and ours, in microseconds.
Pair = tuple[float, float]


class InstantModel(LanguageModel):
    """Answers at once with a given text."""

    def __init__(self) -> None:
        self.say: Callable[[], str] = lambda: "Think: go on"
        self.settled = True

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return Pending.ready(Reply(self.say())) if self.settled else Pending()


class InstantWorld(World):
    """Executes every skill at once."""

    household = WAH_NL
    SKILLS = tuple(f"go to place {number}" for number in range(60))

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation("You are in the house."))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(self.SKILLS)

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending.ready(Observation("You arrive at the place."))

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)


def episode(model: InstantModel, record: Recorder | None = None) -> Episode:
    options = TreeOptions(max_depth=0, max_decisions=10**9, max_steps=10**9, stuck_after=0)
    return Episode(
        "grow", model=model, world=InstantWorld(), planner=planner("reactree"), options=options, record=record
    )


def grown(size: int, model: InstantModel, record: Recorder | None = None) -> Episode:
    """Grow a tree of about so many behaviours; its deepest agent node is deciding."""
    width = max(1, math.isqrt(size) // 2)
    count = iter(range(10**9))

    def expand() -> str:
        subgoals = ", ".join(f"subgoal {next(count)}" for _ in range(width))
        return f"Expand:\n- control flow: sequence\n- subgoals: {subgoals}"

    run = episode(model, record)
    while len(list(run.tree.root.iterate())) < size:
        model.say = expand
        run.tick()
    model.say = lambda: "Think: go on"
    for _ in range(3):
        run.tick()
    return run


class Busy(Behaviour):
    """Runs forever."""

    def update(self) -> Status:
        return Status.RUNNING


def bare(behaviour: Behaviour) -> Behaviour:
    """Copy the shape of a tree with py_trees' own behaviours: the same nodes, the same active path."""
    if not behaviour.children:
        return Busy(behaviour.name)
    return py_trees.composites.Sequence(behaviour.name, memory=True, children=[bare(c) for c in behaviour.children])


def microseconds(*calls: Callable[[], object], times: int = TICKS) -> list[float]:
    """Time calls in turns, by this thread's CPU time: for each, the median over repeats of the mean over many calls."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(REPEATS):
        for call, seconds in zip(calls, found, strict=True):
            begin = time.thread_time()
            for _ in range(times):
                call()
            seconds.append((time.thread_time() - begin) / times * 1e6)
    return [statistics.median(seconds) for seconds in found]


def ticks() -> None:
    """Print the cost of a decision above a bare tick, by size of the tree and kind of decision."""
    print(f"{'behaviours':>10} {'decision':>9} {'bare tick':>10} {'our tick':>10} {'above':>9} {'ratio':>6}   (us)")
    for size in SIZES:
        model = InstantModel()
        run = grown(size, model)
        nodes = len(list(run.tree.root.iterate()))
        tree = BehaviourTree(bare(run.tree.root))
        tree.tick()
        for name, said in (("Think", "Think: go on"), ("Act", "Act: go to place 7")):
            model.say = partial(str, said)
            line(nodes, name, pairs(tree.tick, run.tick))
        line(nodes, "Expand", expansions(size))
        model.settled = False
        run.tick()
        line(nodes, "waiting", pairs(tree.tick, run.tick))


def pairs(bare_tick: Callable[[], object], tick: Callable[[], object], times: int = TICKS) -> list[Pair]:
    """Time a bare tick and ours, one after the other, by this thread's CPU time in microseconds."""
    found = []
    for _ in range(times):
        begin = time.thread_time()
        bare_tick()
        between = time.thread_time()
        tick()
        found.append(((between - begin) * 1e6, (time.thread_time() - between) * 1e6))
    return found


def expansions(size: int) -> list[Pair]:
    """Time the tick that expands and grows, each time in a new tree."""
    found: list[Pair] = []
    for _ in range(EXPANSIONS):
        model = InstantModel()
        run = grown(size, model)
        tree = BehaviourTree(bare(run.tree.root))
        tree.tick()
        # The reply that has already arrived is a thought; this tick asks for the expansion.
        model.say = lambda: "Expand:\n- control flow: sequence\n- subgoals: a new one, a newer one"
        run.tick()
        found += pairs(tree.tick, run.tick, times=1)
    return found


class Kept(RecordFile):
    """Keeps what it wrote, flush by flush."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.flushed: list[list[Event]] = [[]]

    def write(self, event: Event) -> None:
        self.flushed[-1].append(event)
        super().write(event)

    def flush(self) -> None:
        if self.flushed[-1]:
            self.flushed.append([])
        super().flush()


def records() -> None:
    """Print the cost of the record per decision: median ticks of the same run with and without it, in turns.

    A bare program follows each tick: it writes the same lines, as often. The first one has the bytes, the second one
    has the events and makes the lines by ``json.dumps``.
    """
    heads = ("decision", "without", "with", "above", "json", "bytes", "ratio")
    print(f"\n{'behaviours':>10} {' '.join(f'{head:>9}' for head in heads)}   (us; above to json: target 2)")
    for size in SIZES:
        for name, said in (("Think", "Think: go on"), ("Act", "Act: go to place 7")):
            with tempfile.TemporaryDirectory() as folder, Path(folder, "bare").open("xb", buffering=0) as bare_file:
                model = InstantModel()
                plain = grown(size, model)
                file = Kept(Path(folder, "run.jsonl"))
                recorded = grown(size, model, Recorder(file.write, flush=file.flush))
                model.say = partial(str, said)
                found, by_json, by_bytes = [], [], []
                for _ in range(TICKS):
                    file.flushed = [[]]
                    found += pairs(plain.tick, recorded.tick, times=1)
                    flushed = [events for events in file.flushed if events]
                    lines = [b"".join(encoded(event) + b"\n" for event in events) for events in flushed]
                    begin = time.thread_time()
                    for events in flushed:
                        bare_file.write(("\n".join(map(json.dumps, events)) + "\n").encode())
                    between = time.thread_time()
                    for one in lines:
                        bare_file.write(one)
                    by_json.append((between - begin) * 1e6)
                    by_bytes.append((time.thread_time() - between) * 1e6)
                file.close()
            without, with_record = (statistics.median(one) for one in zip(*found, strict=True))
            above = statistics.median(ours - bare for bare, ours in found)
            bare = statistics.median(by_json)
            bare_ones = f"{bare:>9.1f} {statistics.median(by_bytes):>9.1f} {above / bare:>9.2f}"
            print(f"{size:>10} {name:>9} {without:>9.1f} {with_record:>9.1f} {above:>9.1f} {bare_ones}")


def lengths() -> None:
    """Print the cost of a decision by the number of earlier decisions of the node, in turns."""
    print(f"\n{'decisions':>10} {'Think':>9} {'ratio':>6} {'Act':>9} {'ratio':>6}   (us; ratios to the first line)")
    found = {}
    for name, said in (("Think", "Think: go on"), ("Act", "Act: go to place 7")):
        times: list[list[float]] = [[] for _ in DECISIONS]
        for _ in range(REPEATS):
            for count, seconds in zip(DECISIONS, times, strict=True):
                model = InstantModel()
                model.say = partial(str, said)
                run = episode(model)
                while run.context.budget.decisions < count:
                    run.tick()
                begin = time.thread_time()
                for _ in range(10):
                    run.tick()
                seconds.append((time.thread_time() - begin) / 10 * 1e6)
        found[name] = [statistics.median(seconds) for seconds in times]
    for count, think, act in zip(DECISIONS, found["Think"], found["Act"], strict=True):
        print(f"{count:>10} {think:>9.1f} {think / found['Think'][0]:>6.2f} {act:>9.1f} {act / found['Act'][0]:>6.2f}")


def line(nodes: int, name: str, found: Sequence[Pair]) -> None:
    """Print medians of a bare tick, of ours, and of the difference to the bare tick right before."""
    bare_tick, tick = (statistics.median(one) for one in zip(*found, strict=True))
    above = statistics.median(ours - bare for bare, ours in found)
    print(f"{nodes:>10} {name:>9} {bare_tick:>10.1f} {tick:>10.1f} {above:>9.1f} {tick / bare_tick:>6.2f}")


def observations(folder: Path) -> None:
    """Print the cost of an observation and of the list of skills in whole VirtualHome apartments."""
    print(f"\n{'scene':>10} {'nodes':>6} {'look around':>12} {'go to + see':>12} {'skills':>8}   (us; target 1000)")
    for path in sorted(folder.glob("scene*.json")):
        graph = json.loads(path.read_text())
        graph["nodes"] = [node for node in graph["nodes"] if node["category"] != "Characters"]
        ids = {node["id"] for node in graph["nodes"]}
        graph["edges"] = [edge for edge in graph["edges"] if edge["from_id"] in ids and edge["to_id"] in ids]
        task = {
            "task_id": 1,
            "task_name": "put_fridge",
            "nl_instructions": ["Put the apple in the fridge"],
            "task_goal": {"inside_apple_fridge": 1},
            "env_id": 0,
            "init_room": "kitchen",
            "init_graph": graph,
        }
        world = SymbolicWorld(parse_tasks(task)[0])
        world.execute("go to kitchen 1")
        look, go, skills = microseconds(
            world.observe, partial(world.execute, "go to fridge 1"), world.available_skills, times=50
        )
        print(f"{path.stem:>10} {len(graph['nodes']):>6} {look:>12.1f} {go:>12.1f} {skills:>8.1f}")


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--scenes",
        type=Path,
        default=Path(__file__).resolve().parents[2] / "shared/data/virtualhome_scenes",
        help="folder of VirtualHome scene graphs (scene1.json, …); observations are not measured without it",
    )
    options = parser.parse_args()
    print(f"load of the machine: {Path('/proc/loadavg').read_text().strip()}")
    ticks()
    records()
    lengths()
    observations(options.scenes)


if __name__ == "__main__":
    main()
