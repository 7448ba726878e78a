"""Interrupting any node cancels what it has in flight, exactly once."""

from __future__ import annotations

import pytest
from doubles import ScriptedModel, ScriptedWorld, expand, scripted_episode
from py_trees.common import Status

from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode


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
