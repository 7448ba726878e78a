"""Every way in which a skill can start goes through the one guard.

``DOORS`` has each place that hands a skill to a world, or makes a run that will. A place that is not in it fails: a new
door gets its world from the guard, and its line here.
"""

from __future__ import annotations

import ast
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command_line import Cli
from doubles import ScriptedModel
from memory.word_hash_embedder import WordHashEmbedder
from py_trees.composites import Sequence
from sources import sources

from reactree_doors.mcp.in_process import InProcess
from reactree_doors.mcp.robot import Limits, Questions
from reactree_lab.bench.job_runner import JobRunner
from reactree_lab.bench.jobs import BenchSettings
from reactree_lab.bootstrap import Bootstrap
from reactree_lab.dataset.making import Maker
from reactree_lab.dataset.settings import DatasetSettings, Recipe
from reactree_lab.household.generator import generate_house
from reactree_ros import run
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.episode.assembly import assemble, make_world
from reactree_ros.episode.run_spec import RunSpec, Selection
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.memory.stores.sqlite import SqliteMemory
from reactree_ros.planners.reactree import own_tree
from reactree_ros.planners.spec import planner
from reactree_ros.tree.own_tree import OwnTree
from reactree_ros.view.steering import Steering
from reactree_ros.world.port import Observation, World

#: What guards a world, or makes a run in one that is guarded.
GUARDS = {"guarded", "guarded_by"}
RUNS = {"assemble", "along_script", "WayBack", "InProcess"}
#: The worlds of a run's tree, which :func:`assemble` has guarded, and those behind a bridge, which it guards.
OF_THE_RUN, OF_THE_BRIDGE = "episode/assembly.py assemble", "nodes/bridge/world_host.py WorldHost._around"
#: Each door, and where its world is guarded.
DOORS = {
    "reactree_doors/mcp/command.py _in_process": "reactree_doors/mcp/in_process.py InProcess.__init__",
    "episode/going_on.py WayBack.__init__": "episode/going_on.py WayBack.__init__",
    "episode/going_on.py go_on": "episode/going_on.py go_on",
    "episode/going_on.py carry_out_again": "episode/going_on.py go_on",
    "cli/llm.py lesson": OF_THE_RUN,
    "robot/examples.py attempts": OF_THE_RUN,
    "cli/llm.py _moments": OF_THE_RUN,
    "episode/player.py replay": "a record, without a world",
    "episode/player.py along_script": OF_THE_RUN,
    "episode/assembly.py run": OF_THE_RUN,
    "reactree_lab/bench/job_runner.py JobRunner._carry_out": OF_THE_RUN,
    "reactree_lab/bootstrap.py Bootstrap._attempt": OF_THE_RUN,
    "reactree_lab/dataset/making.py Maker._carry_out": OF_THE_RUN,
    "reactree_lab/bootstrap.py _experiences": OF_THE_RUN,
    "reactree_lab/recordings.py episode_of": OF_THE_RUN,
    "reactree_doors/mcp/in_process.py InProcess.execute": "reactree_doors/mcp/in_process.py InProcess.__init__",
    "reactree_doors/mcp/in_process.py InProcessRun._run": OF_THE_RUN,
    "reactree_doors/mcp/server.py Door.do_skill.start": "reactree_doors/mcp/in_process.py InProcess.__init__",
    "reactree_doors/mcp/over_ros.py RosRobot.execute.execute": OF_THE_BRIDGE,
    "nodes/bridge/endpoints.py SkillServer._carry_out": OF_THE_BRIDGE,
    "nodes/planner/task_runner.py TaskRunner._begin": OF_THE_RUN,
    "tree/team.py _claimed_skill": OF_THE_RUN,
    "tree/program_node.py SkillLeaf.initialise": OF_THE_RUN,
    "tree/team.py Robot.make_way": OF_THE_RUN,
    "tree/team.py Team._execute": OF_THE_RUN,
    "world/check.py _Check._execute": "the author of a world, who tries it",
    "world/check.py _Check._shares": "the author of a world, who tries it",
    "world/check.py _Check._stops": "the author of a world, who tries it",
    "world/check.py _Check._together": "the author of a world, who tries it",
}
#: What is called ``execute`` in other libraries: databases, and goals and callbacks of ROS.
ELSEWHERE = (
    "memory/",
    "reactree_doors/fleet/",
    "nodes/calls.py",
    "nodes/people/answer.py",
    "nodes/robot/robot_servers.py",
    "nodes/planner/task.py",
)


@cache
def modules() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in sources().items()}


@cache
def worlds() -> frozenset[str]:
    """The names of all classes of worlds; what they hand on to an inner world was judged before it came to them."""
    classes = [one for module in modules().values() for one in ast.walk(module) if isinstance(one, ast.ClassDef)]
    found = {"World"}
    while (
        more := {one.name for one in classes if {ast.unparse(base).rpartition(".")[2] for base in one.bases} & found}
        - found
    ):
        found |= more
    return frozenset(found)


def places(node: ast.AST, within: tuple[str, ...] = ()) -> Iterator[tuple[str, ast.AST]]:
    """Each node of a module with the qualified name that it stands in; without what stands in worlds."""
    for one in ast.iter_child_nodes(node):
        if isinstance(one, ast.ClassDef) and one.name in worlds():
            continue
        named = isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        yield ".".join(within), one
        yield from places(one, (*within, one.name) if named else within)  # type: ignore[attr-defined]


def called(node: ast.AST) -> str:
    """What a node calls, if it is a call; rich has an ``assemble`` of its own."""
    name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
    return "" if name == "Text.assemble" else name.rpartition(".")[2]


@pytest.mark.slow
def test_every_door_is_known() -> None:
    found = {
        f"{file} {name}"
        for file, module in modules().items()
        for name, one in places(module)
        if (isinstance(one, ast.Attribute) and one.attr == "execute" and not file.startswith(ELSEWHERE))
        or called(one) in RUNS
    }
    assert found == DOORS.keys()


@pytest.mark.slow
def test_the_world_of_each_door_comes_from_the_guard() -> None:
    guarding = {
        f"{file} {name}" for file, module in modules().items() for name, one in places(module) if called(one) in GUARDS
    }
    where = {guard for guard in DOORS.values() if ".py " in guard}
    assert where <= guarding
    assert guarding - where == {"episode/assembly.py guarded_by", "episode/__init__.py Episode.__init__"}
    made = {
        f"{file} {name}"
        for file, module in modules().items()
        for name, one in places(module)
        if called(one) == "Episode"
    }
    assert made == {OF_THE_RUN}


# ---------------------------------------------------------------------- each door, tried

GO, TAKE = "go to towel rack 1", "pick up towel rack 1"
TASK, BUDGET = "Put 1 apple on the coffee table", ("--max-decisions", "30")


def spec() -> RunSpec:
    world = Selection(kind="world", name="virtualhome", settings={})
    return RunSpec(instruction=TASK, planner="reactree", world=world)


def with_world(do: Callable[[World], object]) -> None:
    with make_world(spec()) as world:
        do(world)


def by_tree(world: World) -> None:
    def make(tree: OwnTree) -> Any:
        return Sequence("mine", memory=True, children=[tree.skill(GO), tree.skill(TAKE)])

    assemble(spec(), world=world, model=ScriptedModel({}), builder=planner(own_tree("mine", make))).run()


def by_episode(world: World) -> None:
    said = {TASK: [f"Act: {GO}", f"Act: {TAKE}", "Act: done"]}
    Episode(TASK, world=world, model=ScriptedModel(said), planner=planner("reactree")).run()


def by_page(world: World) -> None:
    steering = Steering(ScriptedModel({}), paused=True)
    episode = assemble(spec(), world=world, model=steering)
    steering.follow(episode)
    for skill in (GO, TAKE):
        steering.say(f"Act: {skill}")
        for _ in range(20):
            episode.tick()
    episode.interrupt()


def by_client(world: World, folder: Path) -> None:
    robot = InProcess(spec(), world=world, model=ScriptedModel({}), questions=Questions(), records=folder)
    for skill in (GO, TAKE):
        robot.execute(skill).result(20)


def by_run_of_client(world: World, folder: Path) -> None:
    said = {TASK: [f"Act: {GO}", f"Act: {TAKE}", "Act: done"]}
    robot = InProcess(spec(), world=world, model=ScriptedModel(said), questions=Questions(), records=folder)
    robot.begin(TASK, Limits(), lambda event: None).ended.result(20)


def by_bench() -> None:
    options = {"max_decisions": 30}
    settings = BenchSettings(suite="generated", suite_settings={"houses": 1}, planners=("react",), options=options)
    with closing(JobRunner(settings)) as runner:
        runner.carry_out(next(iter(settings.jobs())))


def by_bootstrap(folder: Path) -> None:
    tasks = {one.task_id: one for one in parse_tasks(generate_house(seed=5, tasks=1))}
    folder.mkdir()
    with SqliteMemory(folder / "memory.db", WordHashEmbedder()) as memory:
        one = Bootstrap(memory, RunSpec(planner="react"), model=ExpertModel(), make_world=SymbolicWorld)
        list(one.attempts(tasks))


def by_dataset() -> None:
    recipe = Recipe(settings=DatasetSettings(houses=1, rooms=3, unclear=0, decisions=30), planner="react")
    with closing(Maker(recipe)) as maker:
        list(maker.parts([(0, [1])]))


def of_record(cli: Cli, folder: Path, *options: str) -> object:
    """Carry out a command for a record whose run was broken off after it had picked the apple up."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with pytest.MonkeyPatch.context() as free:
        free.setattr(SymbolicWorld, "rules", {})
        assert cli("run", TASK, "--llm", "expert", "--max-decisions", "12", "--save", folder / "run.jsonl").code == 1
    command, *rest = options
    return cli(*command.split(), folder / "run.jsonl", *rest)


WAYS: dict[str, Callable[[Cli, Path], object]] = {
    "reactree run": lambda cli, folder: cli("run", TASK, "--llm", "expert", *BUDGET),
    "a call of the library": lambda cli, folder: run(TASK, max_decisions=30),
    "an episode of one's own": lambda cli, folder: with_world(by_episode),
    "a tree of one's own": lambda cli, folder: with_world(by_tree),
    "the page": lambda cli, folder: with_world(by_page),
    "a client's skill": lambda cli, folder: with_world(lambda world: by_client(world, folder)),
    "a client's run": lambda cli, folder: with_world(lambda world: by_run_of_client(world, folder)),
    "bench": lambda cli, folder: by_bench(),
    "bootstrap": lambda cli, folder: by_bootstrap(folder),
    "dataset": lambda cli, folder: by_dataset(),
    "resume": lambda cli, folder: of_record(cli, folder, "resume", "--max-decisions", "30"),
    "fork": lambda cli, folder: of_record(cli, folder, "record fork", "--at", "3", "--say", "Think: hm"),
    "another planner": lambda cli, folder: of_record(cli, folder, "record fork", "--at", "12", "--planner", "react"),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rules", [{}, {"pick up": "confirm"}], ids=["free", "to be confirmed"])
def test_what_is_to_be_confirmed_starts_by_no_door(
    rules: dict[str, str], way: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, execute = list[str](), SymbolicWorld.execute

    def noted(self: SymbolicWorld, skill: str) -> Pending[Observation]:
        if self.rules == rules:
            done.append(str(skill))
        return execute(self, skill)

    monkeypatch.setattr(SymbolicWorld, "execute", noted)
    monkeypatch.setattr(SymbolicWorld, "rules", rules)
    WAYS[way](cli, tmp_path / "here")
    assert done
    assert any(skill.startswith("pick up") for skill in done) == (not rules)
