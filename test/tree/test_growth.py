"""The tree grows while it runs, and displays show it as it is."""

from __future__ import annotations

import py_trees
import pytest
from doubles import ScriptedModel, expand, scripted_episode
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.episode import Episode
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.flows import Fallback, Parallel

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


def test_what_has_ended_stays_in_the_tree_with_how_it_ended() -> None:
    run = scripted_episode(SCRIPT)
    run.run()
    statuses = {b.name: b.status for b in run.tree.root.iterate() if isinstance(b, Composite)}
    assert statuses == {
        "c": Status.FAILURE,
        "d": Status.SUCCESS,
        "fallback": Status.SUCCESS,
        "a": Status.SUCCESS,
        "b": Status.SUCCESS,
        "parallel": Status.SUCCESS,
        "root": Status.SUCCESS,
    }


def test_displays_draw_the_composites_for_what_they_are() -> None:
    run = scripted_episode(SCRIPT)
    run.run()
    text = py_trees.display.ascii_tree(run.tree.root, show_status=True)
    assert "/_/ parallel" in text
    assert "{o} fallback" in text
    dot = py_trees.display.dot_tree(run.tree.root).to_string()
    assert dot.count("->") == len(names(run)) - 1


def test_visitors_see_the_active_path_at_every_tick() -> None:
    run = scripted_episode(SCRIPT)
    visitor = py_trees.visitors.SnapshotVisitor()
    run.tree.add_visitor(visitor)
    seen = []
    while not run.finished:
        run.tick()
        alive = {behaviour.id: behaviour.name for behaviour in run.tree.root.iterate()}
        seen.append([alive[unique_id] for unique_id in visitor.visited])
    assert seen[0] == ["root"]
    assert seen[2] == ["a", "parallel", "root"]
    assert all(path[-1] == "root" for path in seen)


def test_the_tip_is_the_agent_node_that_decides() -> None:
    run = scripted_episode(SCRIPT)
    tips = []
    while not run.finished:
        run.tick()
        tip = run.tree.tip()
        tips.append(tip.name if tip else None)
    assert tips[:3] == ["root", "root", "a"]


def test_the_same_script_grows_the_same_tree() -> None:
    def grow() -> tuple[list[tuple[str, str]], list[str]]:
        run = scripted_episode(SCRIPT)
        run.run()
        return [(b.name, b.status.value) for b in run.tree.root.iterate()], [n.text for n in run.context.nodes]

    assert grow() == grow()


def test_a_growth_that_was_asked_for_is_dropped_where_its_parent_was_interrupted() -> None:
    model = ScriptedModel({"root": [expand("sequence", "a")]}, settle=False)
    run = scripted_episode({}, model=model)
    run.tick()
    model.settle_all()
    run.tree.post_tick_handlers.insert(0, lambda tree: tree.root.stop(Status.INVALID))
    run.tick()
    assert names(run) == ["root"]


def test_a_tree_that_is_ticked_again_starts_afresh() -> None:
    model = ScriptedModel({"root": [expand("sequence", "a"), "Act: done"], "a": ["Act: done"]})
    run = scripted_episode({}, model=model)
    run.run()
    assert names(run) == ["a", "sequence", "root"]
    run.tick()
    assert names(run) == ["root"]
    run.tick()
    assert run.tree.root.status == Status.SUCCESS


def test_the_composites_keep_their_type_for_viewers() -> None:
    run = scripted_episode(SCRIPT)
    run.run()
    composites = {b.name: b for b in run.tree.root.iterate()}
    assert isinstance(composites["parallel"], Parallel)
    assert isinstance(composites["parallel"], py_trees.composites.Parallel)
    assert isinstance(composites["fallback"], Fallback)
    assert isinstance(composites["fallback"], py_trees.composites.Selector)
