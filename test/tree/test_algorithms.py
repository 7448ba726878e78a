"""The tree does what the paper's Algorithms 1 and 2 say, for random programs, delays, limits and interruptions.

The algorithms are written here once more as plain recursion, with the counters of the fidelity rules: a Think, an Act
and an Expand add one decision each, an Act one step besides, and limits are looked at before a decision, steps first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from doubles import ScriptedModel, ScriptedWorld, scripted_episode
from hypothesis import given, settings
from hypothesis import strategies as st
from py_trees.common import Status

from reactree_ros.tree.options import ParallelPolicy, TreeOptions

SKILLS = ("go to kitchen 1", "open fridge 1", "pick up apple 1")
REFUSED = ("open fridge 1",)


@dataclass
class Program:
    """What an agent node will say: texts, then an end or an expansion over further programs."""

    goal: str
    texts: list[str]
    end: str = ""
    flow: str = ""
    children: list[Program] = field(default_factory=list)

    def script(self) -> dict[str, list[str]]:
        last = self.end
        if not last:
            last = f"Expand:\n- control flow: {self.flow}\n- subgoals: {', '.join(c.goal for c in self.children)}"
        found = {self.goal: [*self.texts, last]}
        for child in self.children:
            found |= child.script()
        return found


@st.composite
def programs(draw: st.DrawFn) -> Program:
    numbers = iter(range(10**6))
    said = st.sampled_from(
        ["Think: hm", *(f"Act: {skill}" for skill in SKILLS), "Act: fly away", "nonsense", "Expand:\n- nothing"]
    )

    def program(depth: int) -> Program:
        goal, texts = f"errand {next(numbers)}", draw(st.lists(said, max_size=4))
        if depth >= 4 or draw(st.booleans()):
            return Program(goal, texts, end=draw(st.sampled_from(["Act: done", "Act: failure"])))
        flow = draw(st.sampled_from(["sequence", "fallback", "parallel"]))
        return Program(goal, texts, flow=flow, children=[program(depth + 1) for _ in range(draw(st.integers(1, 4)))])

    return program(1)


class Recursion:
    """Algorithms 1 and 2, written down as they are."""

    def __init__(self, *, max_decisions: int, max_steps: int, policy: ParallelPolicy) -> None:
        self.max_decisions, self.max_steps, self.policy = max_decisions, max_steps, policy
        self.decisions = self.steps = 0
        self.started: list[tuple[str, int, int]] = []
        self.executed: list[str] = []

    def agent_node(self, program: Program, depth: int) -> bool:
        self.started.append((program.goal, depth, self.decisions + 1))
        for text in [*program.texts, program.end or "Expand"]:
            if self.steps >= self.max_steps or self.decisions >= self.max_decisions:
                return False
            if text == "Act: done":
                return True
            if text == "Act: failure":
                return False
            self.decisions += 1
            if text.startswith("Act: ") and text[5:] in SKILLS:
                self.steps += 1
                self.executed.append(text[5:])
        return self.control_flow(program.flow, program.children, depth + 2)

    def control_flow(self, flow: str, children: Sequence[Program], depth: int) -> bool:
        if flow == "sequence":
            return all(self.agent_node(child, depth) for child in children)
        if flow == "fallback":
            return any(self.agent_node(child, depth) for child in children)
        statuses = [self.agent_node(child, depth) for child in children]
        if self.policy is ParallelPolicy.ALL:
            return all(statuses)
        return sum(statuses) > len(statuses) / 2


budgets = st.tuples(st.integers(1, 40), st.integers(1, 40))


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(programs(), budgets, st.sampled_from(ParallelPolicy), st.randoms(use_true_random=False))
def test_the_tree_ends_as_the_recursion_does(program, limits, policy, delays) -> None:  # type: ignore[no-untyped-def]
    recursion = Recursion(max_decisions=limits[0], max_steps=limits[1], policy=policy)
    succeeded = recursion.agent_node(program, 1)
    model = ScriptedModel(program.script(), settle=False)
    world = ScriptedWorld(settle=False, refused=REFUSED, skills=SKILLS)
    run = scripted_episode(
        {},
        model=model,
        world=world,
        instruction=program.goal,
        options=TreeOptions(
            parallel=policy,
            max_depth=0,
            max_decisions=limits[0],
            max_steps=limits[1],
            stuck_after=0,
            refused_in_a_row=0,
            refused_share=1.0,
        ),
    )
    for _ in range(5000):
        run.tick()
        if run.finished:
            break
        if delays.random() < 0.7:
            model.settle_all()
        if delays.random() < 0.7:
            world.settle_all()
    assert run.tree.root.status == (Status.SUCCESS if succeeded else Status.FAILURE)
    assert (run.context.budget.decisions, run.context.budget.steps) == (recursion.decisions, recursion.steps)
    assert [(node.subgoal, node.depth, node.start) for node in run.context.nodes] == recursion.started
    assert world.executed == recursion.executed
    assert not model.cancelled
    assert all(behaviour.status != Status.RUNNING for behaviour in run.tree.root.iterate())


@settings(deadline=None, max_examples=100)
@given(programs(), budgets, st.integers(0, 60), st.randoms(use_true_random=False))
def test_an_interruption_at_any_time_leaves_nothing_behind(program, limits, ticks, delays) -> None:  # type: ignore[no-untyped-def]
    model = ScriptedModel(program.script(), settle=False)
    world = ScriptedWorld(settle=False, refused=REFUSED, skills=SKILLS)
    options = TreeOptions(
        max_decisions=limits[0], max_steps=limits[1], stuck_after=0, refused_in_a_row=0, refused_share=1.0
    )
    run = scripted_episode({}, model=model, world=world, instruction=program.goal, options=options)
    budget = run.context.budget
    for _ in range(ticks):
        run.tick()
        assert sum(not pending.done() for pending, _ in [*model.in_flight, *world.in_flight]) <= 1
        assert budget.decisions <= budget.max_decisions
        assert budget.steps <= budget.max_steps
        if run.finished:
            break
        if delays.random() < 0.7:
            model.settle_all()
            world.settle_all()
    in_flight = [pending for pending, _ in [*model.in_flight, *world.in_flight] if not pending.done()]
    run.interrupt()
    assert all(pending.cancelled() for pending in in_flight)
    assert sum(model.cancelled.values()) + sum(world.cancelled.values()) == len(in_flight)
    assert all(behaviour.status == Status.INVALID for behaviour in run.tree.root.iterate())
    model.settle_all()
    world.settle_all()
    assert (len(model.requests), len(world.executed)) <= (budget.decisions + len(run.context.nodes) + 1, budget.steps)
