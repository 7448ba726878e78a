"""A goal node written as a program: what it waits for, how it ends, and what an interruption leaves behind."""

from __future__ import annotations

import importlib
import pkgutil
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from doubles import Builds, Clock, ScriptedModel, ScriptedWorld, expand, scripted_episode
from py_trees.common import Status

import reactree_lab.planners
from reactree_ros.agent.kinds.act import Act
from reactree_ros.agent.turns import Told
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.port import FreeText, PromptTooLong, Reply, ServerUnavailable
from reactree_ros.memory.experience import Experience
from reactree_ros.planners.spec import planner
from reactree_ros.record.writer import Recorder, RecordFile
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import GaveUp
from reactree_ros.tree.goal import OfAttempt
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Listener
from reactree_ros.tree.options import TreeOptions
from reactree_ros.tree.program_node import SHOWN_SKILLS, Execute, Grow, Program, ProgramNode, Wait
from reactree_ros.world.port import Observation, WorldError


class Node(GoalNode):
    """Runs the program that it is given; keeps whether it was closed."""

    def __init__(self, write: Callable[[Node], Program], context: RunContext, **how: Any) -> None:
        super().__init__("root", context, **how)
        self.write = write
        self.closed = 0

    def program(self) -> Program:
        try:
            return (yield from self.write(self))
        finally:
            self.closed += 1


class Diary(Listener):
    """Keeps what it is told of starts and ends."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def node_started(self, node: GoalNode) -> None:
        self.told.append(f"start {node.name}")

    def observed(self, node: GoalNode, observation: Observation) -> None:
        self.told.append(f"see {observation.text}")

    def node_ended(self, node: GoalNode) -> None:
        self.told.append(f"{node.status.value} {node.name}")


def run_of(write: Callable[[Node], Program], **given: Any) -> Episode:
    given.setdefault("model", ScriptedModel({"root": ["a", "b", "c"]}))
    given.setdefault("world", ScriptedWorld())
    given.setdefault("clock", Clock())
    return Episode("root", planner=Builds(lambda _, shared: Node(write, shared)), **given)


def node_of(run: Episode) -> Node:
    assert isinstance(run.root, Node)
    return run.root


def returns(value: bool) -> Callable[[Node], Program]:
    def write(node: Node) -> Program:
        yield Wait("nothing", Pending.ready(None))
        return value

    return write


def says(node: Node) -> Program:
    node.turns = [Told("Your task is to: root")]
    reply = yield from node.ask(FreeText())
    node.context.budget.count()
    node.say(reply.text, None)
    return True


def acts(*skills: str) -> Callable[[Node], Program]:
    def write(node: Node) -> Program:
        for skill in skills:
            node.check_budget()
            yield from node.act(Act(skill), Reply(""))
        return True

    return write


@pytest.mark.parametrize(("value", "status", "end"), [(True, "success", "done"), (False, "failure", "failure")])
def test_what_the_program_returns_is_how_the_node_ends(value: bool, status: str, end: str) -> None:
    run = run_of(returns(value))
    result = run.run()
    assert (result.status, result.end, node_of(run).closed) == (status, end, 1)


def test_it_is_running_while_it_waits_and_takes_the_value_that_comes() -> None:
    pending, came = Pending[str](), []

    def write(node: Node) -> Program:
        came.append((yield Wait("word", pending)))
        return True

    run = run_of(write)
    run.tick()
    run.tick()
    assert run.root.status == Status.RUNNING
    pending.succeed("hello")
    run.tick()
    assert (run.root.status, came) == (Status.SUCCESS, ["hello"])


def test_a_skill_is_a_step_and_its_observation_comes_back() -> None:
    diary, world = Diary(), ScriptedWorld()
    run = run_of(acts("go to kitchen 1", "open fridge 1"), world=world, listener=diary)
    result = run.run()
    assert (result.decisions, result.steps) == (2, 2)
    assert world.executed == ["go to kitchen 1", "open fridge 1"]
    assert node_of(run).text == "Act: go to kitchen 1\nYou go to kitchen 1.\nAct: open fridge 1\nYou open fridge 1.\n"
    assert diary.told == ["start root", "see You go to kitchen 1.", "see You open fridge 1.", "SUCCESS root"]


def test_a_skill_after_a_skill_does_not_wait_for_the_next_round() -> None:
    run = run_of(acts("go to kitchen 1", "open fridge 1"))
    woken = []
    run.context.wake = lambda: woken.append(True)
    run.tick()
    assert woken
    assert run.root.status == Status.RUNNING


def test_a_skill_that_is_under_way_asks_for_no_tick_before_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    world, pending, woken = ScriptedWorld(), Pending[Observation](), []
    monkeypatch.setattr(world, "execute", lambda skill: pending)
    run = run_of(acts("go to kitchen 1"), world=world)
    run.context.wake = lambda: woken.append(True)
    run.tick()
    assert not woken
    pending.succeed(Observation("You go to kitchen 1."))
    assert woken


def test_a_failure_of_what_it_waits_for_is_raised_in_the_program() -> None:
    caught = []

    def write(node: Node) -> Program:
        try:
            yield Wait("word", Pending.failed(ServerUnavailable("it rains")))
        except ServerUnavailable as error:
            caught.append(str(error))
            raise
        return True

    result = run_of(write).run()
    assert (result.end, result.message, caught) == ("model_gone", "no word: it rains", ["it rains"])


def test_a_program_may_go_on_after_a_failure() -> None:
    def write(node: Node) -> Program:
        try:
            yield Wait("word", Pending.failed(ValueError("it rains")))
        except ValueError:
            return (yield from says(node))
        return False

    run = run_of(write)
    assert (run.run().end, run.context.failures) == ("done", [])


def test_a_program_that_yields_anything_else_is_a_bug() -> None:
    def write(node: Node) -> Program:
        yield "look around"  # type: ignore[misc]
        return True

    result = run_of(write).run()
    assert (result.status, result.end) == ("failure", "bug")
    assert result.message == "TypeError: a program yields Wait, Execute or Grow, not 'look around'"


@pytest.mark.parametrize(
    ("pending", "message"),
    [
        (Pending[tuple[Experience, ...]].failed(OSError("disk I/O error")), "no examples: disk I/O error"),
        (Pending[tuple[Experience, ...]](), "no examples within 5 s"),
    ],
)
def test_a_memory_that_fails_or_is_late_ends_the_tree(pending: Pending[tuple[Experience, ...]], message: str) -> None:
    def write(node: Node) -> Program:
        yield from node.find_examples()
        return True

    clock = Clock()
    run = run_of(write, examples=lambda _: pending, clock=clock, options=TreeOptions(decision_timeout=5))
    run.tick()
    clock.now += 6
    result = run.run()
    assert (result.status, result.end, result.message, result.broken) == ("failure", "memory_gone", message, True)


def test_half_an_emoji_in_a_reply_is_something_that_files_take(tmp_path: Path) -> None:
    file = RecordFile(tmp_path / "run.jsonl")
    run = run_of(
        says, model=ScriptedModel({"root": ["Think: \ud83d ok"]}), record=Recorder(file.write, flush=file.flush)
    )
    run.run()
    assert "Think: ? ok" in file.path.read_text(encoding="utf-8")
    assert node_of(run).text == "Your task is to: root\nThink: ? ok\n"


@pytest.mark.parametrize(
    ("error", "end", "message"),
    [
        (GaveUp("no way"), "failure", "no way"),
        (ServerUnavailable("it rains"), "model_gone", "it rains"),
        (WorldError("it rains"), "world_gone", "it rains"),
        (KeyError("fridge"), "bug", "KeyError: 'fridge'"),
    ],
)
def test_what_a_program_raises_is_the_kind_of_its_failure(error: Exception, end: str, message: str) -> None:
    def write(node: Node) -> Program:
        yield Wait("nothing", Pending.ready(None))
        raise error

    run = run_of(write)
    result = run.run()
    assert (result.status, result.end, result.message) == ("failure", end, message)
    assert (run.root.failure is None, node_of(run).closed) == (False, 1)


@pytest.mark.parametrize(
    ("owner", "call", "returned", "message"),
    [
        (ScriptedWorld, "available_skills", ["go to kitchen 1"], "returned a list, no pending result"),
        (ScriptedWorld, "observe", None, "returned a NoneType, no pending result"),
        (ScriptedWorld, "execute", "You go.", "returned a str, no pending result"),
        (ScriptedModel, "decide", "Act: done", "returned a str, no pending result"),
    ],
)
def test_a_port_that_returns_no_pending_result_is_a_bug_that_is_named(
    monkeypatch: pytest.MonkeyPatch, owner: type, call: str, returned: object, message: str
) -> None:
    monkeypatch.setattr(owner, call, lambda *_, **__: returned)
    model = ScriptedModel({"root": ["Act: go to kitchen 1", "Act: done"]})
    with ScriptedWorld() as world:
        result = Episode("root", world=world, model=model, planner=planner("react")).run()
    assert (result.status, result.end) == ("failure", "bug")
    assert message in result.message


def test_what_somebody_else_cancelled_is_gone() -> None:
    model = ScriptedModel({"root": ["a"]}, settle=False)
    run = run_of(says, model=model)
    run.tick()
    model.in_flight[0][0].cancel()
    run.tick()
    assert run.result().end == "model_gone"
    assert "canceled by somebody else" in run.result().message


def test_what_comes_too_late_is_cancelled_and_ends_the_node() -> None:
    clock, model = Clock(), ScriptedModel({"root": ["a"]}, settle=False)
    run = run_of(lambda node: says(node), model=model, clock=clock)
    run.tick()
    clock.now = run.context.options.decision_timeout - 1
    run.tick()
    assert run.root.status == Status.RUNNING
    assert model.requests[0].patience < run.context.options.decision_timeout, "the model gives up in time to tell why"
    clock.now += 1
    run.tick()
    told = "no reply within 120 s; raise decision_timeout and the language model's request_timeout, or "
    assert (run.root.status, run.root.feedback_message.startswith(told)) == (Status.FAILURE, True)
    assert (dict(model.cancelled), run.context.budget.decisions) == ({"0.1": 1}, 0)
    assert run.result().end == "too_slow"


@pytest.mark.parametrize("outcome", [True, False])
def test_a_subtree_grows_under_it_and_its_status_comes_back(outcome: bool) -> None:
    seen = []

    def write(node: Node) -> Program:
        child = Node(returns(outcome), node.context, name="child", parent=node)
        seen.append((yield Grow(child)))
        return True

    run = run_of(write, listener=(diary := Diary()))
    assert run.run().status == "success"
    status = Status.SUCCESS if outcome else Status.FAILURE
    assert seen == [status]
    assert [(child.name, child.status) for child in run.root.children] == [("child", status)]
    assert diary.told == ["start root", "start child", f"{status.value} child", "SUCCESS root"]
    assert [(one.index, one.depth) for one in run.context.nodes] == [(0, 1), (1, 3)]


def test_of_many_skills_the_last_ones_are_there_and_what_has_grown() -> None:
    def write(node: Node) -> Program:
        yield Grow(Node(returns(True), node.context, name="child", parent=node))
        for number in range(SHOWN_SKILLS + 3):
            yield Execute(f"go to room {number}")
        return True

    run = run_of(write)
    run.run()
    last = [f"go to room {number}" for number in range(3, SHOWN_SKILLS + 3)]
    assert [child.name for child in run.root.children] == ["child", *last]
    assert all(child.parent is run.root for child in run.root.children)


def in_a_reply() -> tuple[Episode, Callable[[], dict[str, int]]]:
    model = ScriptedModel({"root": ["a"]}, settle=False)
    return run_of(says, model=model), lambda: dict(model.cancelled)


def in_a_skill() -> tuple[Episode, Callable[[], dict[str, int]]]:
    world = ScriptedWorld(settle=False)
    return run_of(acts("open fridge 1"), world=world), lambda: dict(world.cancelled)


def in_a_subtree() -> tuple[Episode, Callable[[], dict[str, int]]]:
    model = ScriptedModel({"root": ["a"]}, settle=False)

    def write(node: Node) -> Program:
        yield Grow(Node(says, node.context, name="child", parent=node))
        return True

    return run_of(write, model=model), lambda: dict(model.cancelled)


@pytest.mark.parametrize("make", [in_a_reply, in_a_skill, in_a_subtree])
def test_an_interruption_cancels_what_is_in_flight_once_and_closes_the_program(make: Any) -> None:
    run, cancelled = make()
    for _ in range(3):
        run.tick()
    run.interrupt()
    run.interrupt()
    assert list(cancelled().values()) == [1]
    nodes = [one for one in run.root.iterate() if isinstance(one, Node)]
    assert [node.closed for node in nodes] == [1] * len(nodes)
    assert all(one.status == Status.INVALID for one in run.root.iterate())
    assert run.result().end == "interrupted"


def test_ids_of_requests_are_unique_within_a_run() -> None:
    ids = []

    def write(node: Node) -> Program:
        ids.extend([node.make_request([], FreeText()).id, node.make_request([], FreeText()).id])
        yield Wait("nothing", Pending.ready(None))
        return True

    run_of(write).run()
    assert ids == ["0.1", "0.2"]


def test_the_rules_of_the_household_stand_once_in_a_prompt_also_after_it_was_shortened() -> None:
    prompts = list[str]()

    def write(node: Node) -> Program:
        node.begin_prompt("the system", ["an example", "another example"])
        for _ in range(2):
            prompts.append(node.prompt()[0].text)
            node.shorten(PromptTooLong(1, 1000))
        yield Wait("nothing", Pending.ready(None))
        return True

    world = ScriptedWorld()
    world.household = replace(WAH_NL, rules="the rules")  # type: ignore[misc]
    run_of(write, world=world).run()
    assert [text.count("the rules") for text in prompts] == [1, 1]
    assert [text.count("example") for text in prompts] == [2, 1]


# ---------------------------------------------------------------------- beginning again


def kinds(of: type = ProgramNode) -> Iterator[type]:
    for kind in of.__subclasses__():
        if kind.__module__.startswith("reactree_ros."):
            yield kind
        yield from kinds(kind)


def every_kind() -> list[type]:
    importlib.import_module("reactree_ros.routine.running")
    for module in pkgutil.walk_packages(reactree_lab.planners.__path__, "reactree_lab.planners."):
        importlib.import_module(module.name)
    return [ProgramNode, *dict.fromkeys(kinds())]


def declared(kind: type) -> dict[str, OfAttempt[Any]]:
    found = {}
    for one in reversed(kind.__mro__):
        found.update({name: value for name, value in vars(one).items() if isinstance(value, OfAttempt)})
    return found


def state(value: Any, node: GoalNode) -> Any:
    """What a node has come to, without the node and what it shares with others."""
    if value in (node, node.context):
        return "itself"
    if isinstance(value, list | tuple | deque):
        return [state(one, node) for one in value]
    own = vars(value) if type(value).__module__.startswith("reactree_ros.tree.") else None
    return value if own is None else {name: state(one, node) for name, one in own.items()}


@pytest.mark.parametrize(
    "kind", [one for one in every_kind() if issubclass(one, GoalNode)], ids=lambda kind: kind.__name__
)
def test_beginning_again_every_goal_node_equals_a_new_one(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    def made() -> GoalNode:
        node: GoalNode = kind.__new__(kind)
        GoalNode.__init__(node, "goal", context)
        node._given = "given"  # type: ignore[attr-defined]
        return node

    def program(self: GoalNode) -> Iterator[Any]:
        seen.append({name: state(getattr(self, name), self) for name in declared(kind) if name not in ("_program",)})
        for name in declared(kind):
            if name not in ("_program", "_step", "_begun", "budget"):
                setattr(self, name, None if name in ("failure",) else f"of the attempt before: {name}")
        return True
        yield

    monkeypatch.setattr(kind, "program", program)
    monkeypatch.setattr(kind, "__abstractmethods__", frozenset(), raising=False)
    context, seen = RunContext(model=ScriptedModel({}), world=ScriptedWorld()), list[dict[str, Any]]()
    again, new = made(), made()
    for node in (again, again, new):
        for _ in node.tick():
            pass
        assert node.status == Status.SUCCESS
    assert seen[1] == seen[0] == seen[2]


def test_what_bars_a_node_from_deciding_again_is_one_question() -> None:
    context = RunContext(model=ScriptedModel({}), world=ScriptedWorld())
    node = AgentNode("goal", context, Abilities(()))
    assert node.barred() is None
    context.budget.max_decisions = context.budget.decisions = 1
    barred = node.barred()
    assert barred is not None
    assert barred.message == "all of the 1 decisions are used up"
    context.fatal = replace(barred, message="the tree ends")
    assert node.barred() is context.fatal


# ---------------------------------------------------------------------- interruption at any tick


def interrupt_twice(run: Episode) -> None:
    run.interrupt()
    run.interrupt()
    assert all(behaviour.status == Status.INVALID for behaviour in run.tree.root.iterate())


def test_a_search_for_examples_in_flight_is_cancelled_once() -> None:
    cancelled: list[str] = []
    run = scripted_episode({"root": ["Act: done"]})
    run.context.examples = lambda goal: Pending(on_cancel=lambda: cancelled.append(goal))
    run.tick()
    interrupt_twice(run)
    assert cancelled == ["root"]


def test_a_node_deep_in_the_tree_is_interrupted_with_its_root() -> None:
    model = ScriptedModel(
        {"root": [expand("parallel", "a", "b")], "a": [expand("sequence", "c")], "c": ["Think: x"], "b": ["Act: done"]}
    )
    run = scripted_episode({}, model=model)
    for _ in range(4):
        run.tick()
    model.settle = False
    run.tick()
    active = run.context.nodes[-1]
    assert (active.subgoal, run.tree.tip()) == ("c", active)
    interrupt_twice(run)
    assert sum(model.cancelled.values()) == 1
    assert run.result().status == "interrupted"


def test_an_answer_after_the_interruption_changes_nothing() -> None:
    model = ScriptedModel({"root": ["Act: open fridge 1"]}, settle=False)
    world = ScriptedWorld()
    run = scripted_episode({}, model=model, world=world)
    run.tick()
    run.interrupt()
    model.settle_all()
    assert (run.tree.root.status, world.executed) == (Status.INVALID, [])


def test_an_exception_on_the_way_cancels_what_is_in_flight() -> None:
    model = ScriptedModel({"root": ["Think: a"]}, settle=False)
    run = scripted_episode({}, model=model)

    def stop(tree: object) -> None:
        raise KeyboardInterrupt

    run.tree.add_post_tick_handler(stop)
    with pytest.raises(KeyboardInterrupt):
        run.run()
    assert dict(model.cancelled) == {"0.1": 1}
