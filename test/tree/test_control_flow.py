"""The three control flows (paper, Algorithm 2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint
from types import SimpleNamespace
from typing import Any

import py_trees
import pytest
from doubles import AgentNodes, ScriptedModel, ScriptedWorld, expand, scripted_episode
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite
from recorded_runs import Kept, assert_replays, recorded_episode

from reactree_ros import plugins
from reactree_ros.agent.control_flow import (
    CONTROL_FLOWS,
    ControlFlow,
    default_flows,
    flow_named,
    flow_of,
    flow_over,
    flows_by_word,
)
from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.agent.kinds.expand import Expand
from reactree_ros.agent.parameters import Choice, Number, Text
from reactree_ros.agent.prompt import Siblings, system_text, task_turn
from reactree_ros.agent.reading import Unreadable, read
from reactree_ros.agent.skill import wait_skill
from reactree_ros.agent.turns import turn_from_dict, turn_to_dict
from reactree_ros.agent.wording import Wording
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.household import WAH_NL
from reactree_ros.tree.agent_node import Abilities, AgentNode
from reactree_ros.tree.flows import FallbackFlow, ParallelFlow
from reactree_ros.tree.options import ParallelPolicy, TreeOptions
from reactree_ros.tree.tried import telling_names
from reactree_ros.world.port import Observation, Outcome


class Child(Behaviour):
    """Runs for so many ticks, then ends."""

    def __init__(self, name: str, end: Status, ticks: int = 1) -> None:
        super().__init__(name)
        self.end, self.ticks, self.log = end, ticks, list[str]()

    def initialise(self) -> None:
        self.log.append("initialise")

    def update(self) -> Status:
        self.ticks -= 1
        return Status.RUNNING if self.ticks >= 0 else self.end

    def terminate(self, new_status: Status) -> None:
        self.log.append(new_status.name)


def over(flow: type[ControlFlow], children: Sequence[Behaviour], policy: ParallelPolicy) -> Composite:
    """Build what carries a control flow out under a node of a run with one robot."""
    context = SimpleNamespace(options=SimpleNamespace(parallel=policy), team=SimpleNamespace(alone=True))
    return flow().over(SimpleNamespace(context=context), children)


def ends(flow: type[ControlFlow], policy: ParallelPolicy, outcomes: str) -> tuple[Status, int]:
    """Run children that succeed (S) or fail (F); returns the end and how many were started."""
    children = [Child(f"{i}", Status.SUCCESS if o == "S" else Status.FAILURE) for i, o in enumerate(outcomes)]
    composite = over(flow, children, policy)
    for _ in range(20):
        composite.tick_once()
        assert sum(child.status == Status.RUNNING for child in children) <= 1
        if composite.status != Status.RUNNING:
            break
    return composite.status, sum(bool(child.log) for child in children)


@pytest.mark.parametrize(
    ("flow", "policy", "outcomes", "status", "started"),
    [
        ("sequence", "majority", "SSS", "SUCCESS", 3),
        ("sequence", "majority", "SFS", "FAILURE", 2),
        ("fallback", "majority", "FFS", "SUCCESS", 3),
        ("fallback", "majority", "SFF", "SUCCESS", 1),
        ("fallback", "majority", "FFF", "FAILURE", 3),
        ("parallel", "majority", "FSS", "SUCCESS", 3),
        ("parallel", "majority", "FS", "FAILURE", 2),
        ("parallel", "majority", "FSFS", "FAILURE", 4),
        ("parallel", "majority", "SFF", "FAILURE", 3),
        ("parallel", "all", "FSS", "FAILURE", 3),
        ("parallel", "all", "SSS", "SUCCESS", 3),
    ],
)
def test_how_each_control_flow_ends(flow: str, policy: str, outcomes: str, status: str, started: int) -> None:
    assert ends(flow_named(flow), ParallelPolicy(policy), outcomes) == (Status[status], started)


@pytest.mark.parametrize(("policy", "name"), [("majority", "Majority"), ("all", "All")])
def test_a_parallel_says_its_policy_to_viewers(policy: str, name: str) -> None:
    parallel = over(ParallelFlow, [Child("1", Status.SUCCESS)], ParallelPolicy(policy))
    assert isinstance(parallel, py_trees.composites.Parallel)
    assert type(parallel.policy).__name__ == name


@pytest.mark.parametrize("flow", [FallbackFlow, ParallelFlow])
def test_children_that_failed_keep_their_status_while_the_next_one_runs(flow: type[ControlFlow]) -> None:
    first, second = Child("1", Status.FAILURE), Child("2", Status.SUCCESS, ticks=2)
    composite = over(flow, [first, second], ParallelPolicy.MAJORITY)
    for _ in range(3):
        composite.tick_once()
    assert (first.status, second.status, composite.status) == (Status.FAILURE, Status.RUNNING, Status.RUNNING)
    assert first.log == ["initialise", "FAILURE"]


@pytest.mark.parametrize("flow", default_flows())
def test_interrupting_stops_the_running_child(flow: type[ControlFlow]) -> None:
    child, other = Child("1", Status.SUCCESS, ticks=5), Child("2", Status.SUCCESS)
    composite = over(flow, [child, other], ParallelPolicy.MAJORITY)
    composite.tick_once()
    composite.stop(Status.INVALID)
    assert child.log == ["initialise", "INVALID"]
    assert other.log == []


# ------------------------------------------------------------------ somebody else's


def in_order(self: ControlFlow, node: Any, children: Sequence[Behaviour]) -> Composite:
    """Carry it out as a sequence."""
    return py_trees.composites.Sequence(str(self), memory=True, children=list(children))


@dataclass(frozen=True)
class Within(ControlFlow):
    """A number."""

    name = "within"
    wording = Wording("within {seconds} seconds", {"seconds": Number(1, 600)})
    text, phrase, ordered, sign, summary = '"within N seconds"', "within {seconds} seconds", True, "◷", "in time"
    composite = in_order

    seconds: int


@dataclass(frozen=True)
class Until(ControlFlow):
    """A text."""

    name = "until"
    wording = Wording("again until {condition}", {"condition": Text(60)})
    text, phrase, ordered, sign, summary = '"again until X"', "again until {condition}", False, "↻", "again"
    composite = in_order

    condition: str


@dataclass(frozen=True)
class Search(ControlFlow):
    """A choice and a text."""

    name = "search"
    wording = Wording("search {way} for {thing}", {"way": Choice(("near", "far")), "thing": Text(60)})
    text, phrase, ordered, sign, summary = '"search near for X"', "searching {way} for {thing}", True, "⌕", "search"
    composite = in_order

    way: str
    thing: str


#: What is said in words, with the same in JSON, and what comes of it.
SAID: dict[str, tuple[dict[str, Any], ControlFlow]] = {
    "within 30 seconds": ({"within": {"seconds": 30}}, Within(30)),
    "again until the sequence of cups is full, or parallel to it": (
        {"until": {"condition": "the sequence of cups is full, or parallel to it"}},
        Until("the sequence of cups is full, or parallel to it"),
    ),
    "search near for a red cup": ({"search": {"way": "near", "thing": "a red cup"}}, Search("near", "a red cup")),
}
#: What is refused, and why.
WRONG: dict[str, tuple[Any, str]] = {
    "a number too large": ("within 900 seconds", "within {seconds} seconds"),
    "no number": ("within a while", "within {seconds} seconds"),
    "none of the options": ("search everywhere for a cup", "search {way} for {thing}"),
    "no argument": ("again until", "again until {condition}"),
    "an argument too much": ({"within": {"seconds": 3, "minutes": 1}}, "within {seconds} seconds"),
    "not an object": ({"within": 3}, "names no control flow"),
    "a list": ({"within": ["a", "b"]}, "names no control flow"),
    "arguments of one that takes none": ({"sequence": {"seconds": 3}}, "names no control flow"),
    "unknown": ({"whenever": {}}, "is unknown"),
    "two": ("sequence and parallel", "'sequence and parallel' is unknown"),
}
STRANGE = (Within, Until, Search)
GRAMMAR = DecisionGrammar(["done"], (*default_flows(), *STRANGE))
SUBGOALS = ["find a cup", "fill it"]


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody else's control flows, which are known as by entry points."""
    points = {one.name: EntryPoint(one.name, f"{__name__}:{one.__name__}", CONTROL_FLOWS.group) for one in STRANGE}
    own = {**plugins._own_points(), CONTROL_FLOWS.group: {**CONTROL_FLOWS._own, **points}}
    monkeypatch.setattr(plugins, "_own_points", lambda: own)
    monkeypatch.setattr(CONTROL_FLOWS, "_loaded", {})
    caches = (flows_by_word, flow_named, flow_of)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def in_words(flow: str) -> str:
    return f"Expand:\n- control flow: {flow}\n- subgoals: {', '.join(SUBGOALS)}"


def in_json(flow: Any) -> str:
    return json.dumps({"decision": {"Expand": {"control_flow": flow, "subgoals": SUBGOALS}}})


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("words", SAID)
def test_somebody_elses_is_said_read_and_recorded_with_its_arguments(words: str) -> None:
    fields, flow = SAID[words]
    assert re.fullmatch(GRAMMAR.regex(), in_words(words))
    for text in (in_words(words), in_words(words).replace("- control", "* Control"), in_json(words), in_json(fields)):
        (said,) = read(text, GRAMMAR)
        assert said.decision == Expand(flow, tuple(SUBGOALS))
        assert said.text == in_words(words)
        assert turn_from_dict(json.loads(json.dumps(turn_to_dict(said)))) == said
    assert flow_of(str(flow)) == flow
    assert type(flow) in [flow_named(one.name) for one in STRANGE]
    assert flow.name in json.dumps(GRAMMAR.json_schema())
    assert flow.text in system_text(WAH_NL, control_flows=GRAMMAR.control_flows)
    assert flow.in_words in task_turn("fill it", Siblings("drink", flow, tuple(SUBGOALS))).text
    assert flow_over(flow.over(None, [])) is flow


@pytest.mark.usefixtures("declared")
@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_and_the_reason_names_the_wording(case: str) -> None:
    said, reason = WRONG[case]
    with pytest.raises(Unreadable, match=re.escape(reason)):
        read(in_json(said), GRAMMAR)


@pytest.mark.parametrize("part", ["name", "text", "phrase", "ordered", "sign", "summary", "composite"])
def test_one_that_leaves_a_part_open_is_refused_where_it_is_declared(part: str) -> None:
    kept = ("name", "wording", "text", "phrase", "ordered", "sign", "summary", "composite")
    body = {name: vars(Within)[name] for name in kept if name != part}
    with pytest.raises(TypeError, match=part):
        dataclass(frozen=True)(type("Silent", (ControlFlow,), {**body, "__annotations__": {"seconds": int}}))(3)


# ---------------------------------------------------------------------- growth


SCRIPT = {
    "root": [expand("parallel", "a", "b")],
    "a": [expand("fallback", "c", "d")],
    "b": ["Act: done"],
    "c": ["Act: failure"],
    "d": ["Act: done"],
}


def names(run: Episode) -> list[str]:
    return [behaviour.name for behaviour in run.tree.root.iterate()]


def test_an_expansion_is_in_the_tree_after_the_tick_that_decided_it() -> None:
    run = scripted_episode(SCRIPT)
    run.tick()
    assert names(run) == ["root"]
    run.tick()
    assert names(run) == ["a", "b", "parallel", "root"]
    assert run.tree.root.status == Status.RUNNING


def test_inserted_behaviours_are_set_up_and_followers_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    set_up: list[tuple[str, object]] = []
    monkeypatch.setattr(AgentNode, "setup", lambda self, **kwargs: set_up.append((self.name, kwargs)))
    run = scripted_episode(SCRIPT)
    run.tree.tree_update_handler = lambda: told.append(len(names(run)))
    run.context.growth.follow(run.tree, ros="the node")
    run.run()
    assert told == [4, 7]
    assert set_up == [(name, {"ros": "the node"}) for name in ("a", "b", "c", "d")]


def visited(run: Episode, *, full: bool) -> list[str]:
    """Tick once, and return what a visitor sees."""
    seen = list[str]()
    visitor = py_trees.visitors.VisitorBase(full=full)
    visitor.run = lambda behaviour: seen.append(behaviour.name)  # type: ignore[method-assign]
    run.tree.visitors = [visitor]
    run.tick()
    return seen


def test_a_tick_visits_nothing_that_has_ended_but_for_a_visitor_that_wants_everything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = scripted_episode(SCRIPT)
    while not (tip := run.root.tip()) or tip.name != "d":
        run.tick()
    with monkeypatch.context() as patched:
        patched.delattr(py_trees.behaviour.Behaviour, "iterate")
        assert visited(run, full=False) == ["d", "fallback", "a", "b", "parallel", "root"]
    assert visited(run, full=True) == names(run)


def test_displays_draw_the_composites_for_what_they_are() -> None:
    run = scripted_episode(SCRIPT)
    run.run()
    text = py_trees.display.ascii_tree(run.tree.root, show_status=True)
    assert "/_/ parallel" in text
    assert "{o} fallback" in text
    dot = py_trees.display.dot_tree(run.tree.root).to_string()
    assert dot.count("->") == len(names(run)) - 1


def test_a_growth_that_was_asked_for_is_dropped_where_its_parent_was_interrupted() -> None:
    model = ScriptedModel({"root": [expand("sequence", "a")]}, settle=False)
    run = scripted_episode({}, model=model)
    run.tick()
    model.settle_all()
    run.tree.post_tick_handlers.insert(0, lambda tree: tree.root.stop(Status.INVALID))
    run.tick()
    assert names(run) == ["root"]


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("goals", "names"),
    [
        (["go to the fridge", "open it"], ["go to the fridge", "open it"]),
        (["find apple", "find juice"], ["find apple", "find juice"]),  # short enough to be seen
        (
            ["find and pick up apple", "find and pick up juice", "put them on the table"],
            ["apple (find and pick up ...)", "juice (find and pick up ...)", "put them on the table"],
        ),
        (
            ["find and pick up the first plate", "find and pick up the second plate"],
            ["first plate (find and pick up the ...)", "second plate (find and pick up the ...)"],
        ),
        (["find and pick up", "find and pick up juice"], ["find and pick up", "juice (find and pick up ...)"]),
        (
            ["find and pick up it in bedroom 1", "find and pick up it in bedroom 2"],
            ["bedroom 1 (find and pick up it in ...)", "bedroom 2 (find and pick up it in ...)"],
        ),
        (["pick up a plate", "pick up a plate"], ["#1 pick up a plate", "#2 pick up a plate"]),
        (
            ["look in kitchen for apple", "look in kitchen for juice", "look in bedroom for apple"],
            ["apple (look in kitchen for ...)", "juice (look in kitchen for ...)", "look in bedroom for apple"],
        ),
        ([], []),
    ],
)
def test_first_words_tell_siblings_apart(goals: list[str], names: list[str]) -> None:
    assert telling_names(goals) == names


def test_what_is_left_alike_is_numbered() -> None:
    goals = [f"go to the {room} and look for {thing}" for room in ("kitchen", "bedroom") for thing in ("a", "b")]
    assert [name[:4] for name in telling_names(goals)] == ["#1 a", "#2 b", "#3 a", "#4 b"]


# ---------------------------------------------------------------------- as a condition allows


FLOWS = tuple(map(flow_named, ("sequence", "repeat_until", "within")))
BUILDER = AgentNodes(Abilities(FLOWS))
REPEAT = "repeat until the tray is full"
LOOK = "wait until the tray is full for up to 0 s"
OPTIONS = TreeOptions(max_decisions=60, max_steps=8, stuck_after=0)
FILL = ["Act: open fridge 1", "Act: done"]


class Tray(ScriptedWorld):
    """A world that knows a condition, which holds after so many looks; other skills go well."""

    def __init__(self, looks: int, outcome: Outcome = Outcome.TIMEOUT) -> None:
        super().__init__()
        self.household = replace(self.household, skills=(wait_skill(["the tray is full"]),))
        self._looks, self._outcome = looks, outcome

    def execute(self, skill: str) -> Pending[Observation]:
        if not skill.startswith("wait until"):
            return super().execute(skill)
        self.executed.append(skill)
        self._looks -= 1
        if self._looks > 0:
            return Pending.ready(Observation("It is not full.", self._outcome))
        return Pending.ready(Observation("It is full."))


def run(world: ScriptedWorld, script: dict[str, list[str]]) -> tuple[str, Kept]:
    """Carry a script out; returns how it ended, and its record, which is played again identically."""
    with world:
        episode, kept = recorded_episode(script, builder=BUILDER, world=world, options=OPTIONS)
        end = episode.run().end
    assert_replays(kept, BUILDER)
    return end, kept


@pytest.mark.parametrize("flow", [REPEAT, "within 20 s"])
def test_it_is_read_with_what_it_takes(flow: str) -> None:
    (said,) = read(expand(flow, "a", "b"), DecisionGrammar(["done"], FLOWS))
    assert said.decision is not None
    assert said.decision.control_flow == flow_of(flow)  # type: ignore[attr-defined]


@pytest.mark.parametrize("looks", [1, 3])
def test_subgoals_come_again_until_the_condition_holds(looks: int) -> None:
    world = Tray(looks)
    end, kept = run(world, {"root": [expand(REPEAT, "fill")], "fill": FILL * 9})
    assert (end, world.executed) == ("done", ["open fridge 1", LOOK] * looks)
    assert len(kept.events_of("started")) == 1 + 2 * looks


def test_the_steps_of_a_run_bound_it() -> None:
    world = Tray(99)
    end, _ = run(world, {"root": [expand(REPEAT, "fill")], "fill": FILL * 9})
    assert (end, len(world.executed)) == ("out_of_steps", 8)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED_BY_POLICY, Outcome.EXECUTION])
def test_where_nobody_can_look_it_fails(outcome: Outcome) -> None:
    world = Tray(99, outcome)
    end, _ = run(world, {"root": [expand(REPEAT, "fill")], "fill": ["Act: done"] * 9})
    assert (end, world.executed) == ("failure", [LOOK])


def test_a_condition_that_the_world_does_not_know_is_refused_with_those_that_there_are() -> None:
    _, kept = run(Tray(1), {"root": [expand("repeat until it rains", "fill"), "Act: done"]})
    (refused,) = kept.events_of("refused")
    assert "what may: the tray is full" in refused["reason"]


def test_when_the_time_is_over_what_is_under_way_is_cancelled() -> None:
    world, now = ScriptedWorld(settle=False), [0.0]
    script = {"root": [expand("within 20 s", "fill")], "fill": FILL}
    with world:
        episode, kept = recorded_episode(script, builder=BUILDER, world=world, options=OPTIONS, clock=lambda: now[0])
        while not world.executed:
            world.settle_all()
            episode.tick()
        now[0] = 19.0
        episode.tick()
        assert not world.cancelled
        now[0] = 21.0
        episode.tick()
        assert world.cancelled["open fridge 1"] == 1
        while not episode.finished:
            episode.tick()
        episode.conclude(None, "")
    assert [event["of"] for event in kept.events_of("failed")] == ["within"]
    assert_replays(kept, BUILDER)


@pytest.mark.parametrize("options", [TreeOptions(stuck_after=0), TreeOptions(stuck_after=0, thoughts_in_a_row=1)])
@pytest.mark.parametrize(
    "round_",
    [
        ["Act: open fridge 1", "Act: done"],
        ["Think: it is there", "Act: done"],
        ["Act: fly", "Act: go to kitchen 1", "Act: done"],
    ],
)
def test_each_round_of_a_repetition_is_asked_as_the_first_one(options: TreeOptions, round_: list[str]) -> None:
    model = ScriptedModel({"root": [expand(REPEAT, "fill")], "fill": round_ * 9})
    with Tray(3) as world:
        episode, _ = recorded_episode({}, builder=BUILDER, world=world, options=options, model=model)
        assert episode.run().end == "done"
    rounds: dict[str, list[Any]] = {}
    for request in model.requests[1:]:
        asked = request.prompt, request.may_say
        rounds.setdefault(request.id.partition(".")[0], []).append(asked)
    first, *others = rounds.values()
    assert len(others) == 2
    assert others == [first, first]


def test_a_node_does_not_begin_again_once_a_limit_is_reached() -> None:
    looks = list[str]()

    class Watched(Tray):
        def observe(self) -> Any:
            looks.append("observe")
            return super().observe()

    options = TreeOptions(stuck_after=0, max_steps=2)
    script = {"root": [expand(REPEAT, "fill")], "fill": ["Act: open fridge 1", "Act: done"] * 9}
    with Watched(9) as world:
        episode, kept = recorded_episode(script, builder=BUILDER, world=world, options=options)
        assert episode.run().end == "out_of_steps"
    fill = next(node for node in episode.root.iterate() if isinstance(node, AgentNode) and node.subgoal == "fill")
    assert fill.feedback_message == "not begun: all of the 2 steps are used up"
    assert (len(kept.events_of("started")), len(looks)) == (
        3,
        2,
    )  # the root, one round and its look; no further node begins
