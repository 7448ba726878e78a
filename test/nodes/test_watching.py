"""What whoever operates a robot sees of the tree: in a viewer, on the blackboard; nothing without py_trees_ros."""

from __future__ import annotations

from typing import Any

import py_trees_ros
import pytest
from doubles import ScriptedModel, ScriptedWorld, expand
from py_trees_ros.conversions import msg_to_behaviour
from py_trees_ros_interfaces.msg import Behaviour, BehaviourTree
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_graph import Graph, HeldWorld
from snapshots import Viewer

from reactree_ros.nodes.planner import shown_tree
from reactree_ros.nodes.planner.shown_tree import ShownTree
from reactree_ros.world.port import Observation, Seen

SIBLINGS = ("find and pick up apple", "find and pick up juice", "put them down")
SCRIPT = {
    "root": [expand("parallel", *SIBLINGS)],
    SIBLINGS[0]: ["Think: it is in the kitchen", "Act: go to kitchen 1", "Act: open fridge 1", "Act: done"],
    SIBLINGS[1]: ["Act: done"],
    SIBLINGS[2]: ["Act: failure"],
}


def test_a_viewer_that_comes_before_the_first_goal_sees_a_tree(graph: Graph) -> None:
    graph.household({})
    viewer = Viewer(graph)
    graph.until(lambda: viewer.trees, "a snapshot is there")
    assert list(viewer.last) == ["reactree_planner"]
    root = viewer.last["reactree_planner"]
    assert (root.message, root.additional_detail) == ("waits for a goal", "waits for a goal")
    assert root.is_active  # or the viewer's blackboard panel is empty, and the watcher does not tell what it says
    assert viewer.board()["holding"] == "nothing"


def test_a_py_trees_ros_that_sends_a_snapshot_at_the_end_of_its_setup_sends_the_tree(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2.5 does; its setup may be called again, too."""
    upstream = py_trees_ros.trees.BehaviourTree
    before, shown = upstream.setup, list[ShownTree]()

    def setup(tree: ShownTree, **kwargs: Any) -> None:
        if tree.node is None:
            before(tree, **kwargs)
        tree._on_tree_update_handler()
        shown.append(tree)

    monkeypatch.setattr(upstream, "setup", setup)
    graph.planner(default_snapshot_stream=True)
    latched = QoSProfile(depth=100, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    trees = graph.listen(BehaviourTree, "/reactree_planner/snapshots", latched)
    graph.until(lambda: trees, "the snapshot of its setup is there")
    assert [one.name for one in trees[-1].behaviours] == ["reactree_planner"]
    shown[0].setup(node=shown[0].node)


def test_a_viewers_boxes_to_tick_work_between_two_tasks(graph: Graph) -> None:
    graph.household({})
    viewer = Viewer(graph)
    graph.until(lambda: viewer.board(), "the blackboard is seen")
    viewer.want_board(False)
    graph.until(lambda: not viewer.board(), "it is not seen any more")
    viewer.want_board(True)
    graph.until(lambda: viewer.board(), "it is seen again")


def test_the_last_decision_is_seen_as_the_nodes_feedback_and_is_sent_when_it_changes(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Think: a", "Think: b", "Act: done"]}, settle=False)
    graph.household({}, model=model, thoughts_in_a_row=2)
    viewer = Viewer(graph)
    goal = graph.task()
    for said in ("Think: a", "Think: b"):
        graph.until(lambda: model.in_flight, "the model is asked")
        model.settle_all()
        graph.until(lambda said=said: viewer.says("root", said), f"'{said}' is seen")
        assert viewer.last["root"].additional_detail == f"agent: {said}"
    graph.until(lambda: model.in_flight, "the model is asked")
    model.settle_all()
    assert goal.result.success
    graph.until(lambda: viewer.says("root", "done"), "its end is seen")


def test_siblings_are_told_apart_by_their_first_words_and_kinds_by_type_and_detail(graph: Graph) -> None:
    graph.household(SCRIPT, check_done=False)
    viewer = Viewer(graph)
    assert graph.task().result.verdict == "partly"
    graph.until(lambda: viewer.says("reactree_planner", "done in part"), "the end is seen")
    apple, juice = "apple (find and pick up ...)", "juice (find and pick up ...)"
    assert {name: (one.type, one.additional_detail) for name, one in viewer.last.items()} == {
        "reactree_planner": (Behaviour.SEQUENCE, "done in part (done): 'root'; the ..."),
        "root": (Behaviour.SELECTOR, "agent: parallel ended in success"),
        "parallel": (Behaviour.PARALLEL, "Majority"),
        apple: (Behaviour.SELECTOR, "agent: done"),
        "go to kitchen 1": (Behaviour.BEHAVIOUR, "You go to kitchen 1."),
        "open fridge 1": (Behaviour.BEHAVIOUR, "You open fridge 1."),
        juice: (Behaviour.SELECTOR, "agent: done"),
        "put them down": (Behaviour.SELECTOR, "agent: failure"),
    }
    details = {one.message: one.additional_detail for one in viewer.seen("root")}
    assert details[""] == "agent"
    assert details[f"Expand: parallel of {'; '.join(SIBLINGS)}"] == "agent: Expand: parallel of find and ..."
    ended = {name: (one.status, one.message) for name, one in viewer.last.items()}
    assert "agent: open fridge 1" in [one.additional_detail for one in viewer.seen(apple)]
    assert ended["go to kitchen 1"] == (Behaviour.SUCCESS, "You go to kitchen 1.")
    assert ended["open fridge 1"] == (Behaviour.SUCCESS, "You open fridge 1.")
    assert (ended[apple], ended["put them down"]) == ((Behaviour.SUCCESS, "done"), (Behaviour.FAILURE, "failure"))


def test_a_skill_is_seen_while_it_runs_and_nothing_beside_it_that_is_idle(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1", "Act: done"]}, world=world)
    viewer = Viewer(graph)
    goal = graph.task()
    graph.until(lambda: viewer.seen("open fridge 1"), "it is seen")
    graph.until(lambda: viewer.last["open fridge 1"].status == Behaviour.RUNNING, "it runs")
    assert set(viewer.last) == {"reactree_planner", "root", "open fridge 1"}
    graph.until(lambda: world.held, "the world carries it out")
    world.finish()
    assert goal.result.success


class SeenWorld(ScriptedWorld):
    """A world in which there is something to see."""

    def execute(self, skill: str) -> Any:
        seen = [Seen("fridge", 1, "kitchen 1"), Seen("apple", 2, "kitchen 1", "fridge 1")]
        if skill.startswith("pick up"):
            seen = [Seen("apple", 2, "kitchen 1", held=True)]
        return self._pending(skill, Observation(f"You {skill}.", seen=seen))


def test_the_blackboard_tells_instruction_decisions_budgets_and_what_is_held_and_seen(graph: Graph) -> None:
    decisions = ["Act: open fridge 1", "Act: pick up apple 2", "Think: a"]
    model = ScriptedModel({"root": decisions}, settle=False)
    graph.household({}, model=model, world=SeenWorld(skills=["open fridge 1", "pick up apple 2"]), max_decisions=9)
    viewer = Viewer(graph)
    graph.task(max_steps=5)
    for decision in decisions:
        graph.until(lambda: model.in_flight, "the model is asked")
        model.settle_all()
        graph.until(lambda said=decision: viewer.board().get("decision") == said, f"'{decision}' is seen")
    assert viewer.board() == {
        "instruction": "root",
        "subgoal": "root",
        "decision": "Think: a",
        "decisions": "3 of 9",
        "steps": "2 of 5",
        "observation": "You pick up apple 2.",
        "holding": "apple 2",
        "seen": "apple 2 (held), fridge 1 (kitchen 1)",
        "held_because": "it is not",
    }
    written = {(item.key, item.current_value) for tree in viewer.trees for item in tree.blackboard_activity}
    assert written & {("/reactree_planner/decision", decision) for decision in decisions}


def test_of_a_large_tree_what_is_below_those_that_have_ended_is_counted_and_left_out(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shown_tree, "LARGE", 20)
    parts = [f"part {number}" for number in range(6)]
    acts = ["Act: go to kitchen 1", "Act: open fridge 1", "Act: go to kitchen 1", "Act: done"]
    script = {"root": [expand("sequence", *parts)], **{part: list(acts) for part in parts}}
    graph.household(script)
    viewer = Viewer(graph)
    assert graph.task().result.success
    graph.until(lambda: viewer.says("reactree_planner", "claimed"), "the end is seen")
    sizes = [len(tree.behaviours) for tree in viewer.trees]
    assert 12 < max(sizes) <= 20 < 3 + len(parts) * len(acts)  # the behaviours that there are
    assert sizes[-1] == 3 + len(parts) + 3
    left = viewer.last
    assert [left[part].additional_detail for part in parts] == ["agent +3: done"] * 5 + ["agent: done"]
    assert len(left[parts[-1]].child_ids) == 3
    assert not len(left[parts[0]].child_ids)
    ids = {bytes(one.own_id.uuid) for one in viewer.trees[-1].behaviours}
    assert all(bytes(child.uuid) in ids for one in viewer.trees[-1].behaviours for child in one.child_ids)


def test_no_text_is_markup_or_script_for_the_viewer(graph: Graph) -> None:
    said = "Think: <img src=x onerror='alert(1)'>"
    graph.household({"<b>root</b>": [said, "Act: open <i>fridge 1"]}, world=SeenWorld(skills=["open <i>fridge 1"]))
    viewer = Viewer(graph)
    graph.task("<b>root</b>")
    graph.until(lambda: viewer.says("reactree_planner", "broken off"), "the end is seen")
    boxes = [text for tree in viewer.trees for one in tree.behaviours for text in texts_of(one)]
    board = [one.value for tree in viewer.trees for one in tree.blackboard_on_visited_path]
    activity = [one.current_value for tree in viewer.trees for one in tree.blackboard_activity]
    for texts in (boxes, board, activity):
        assert any(f"{shown_tree.ANGLE}b>root" in text for text in texts)
        assert any("onerror" in text for text in texts)
        assert not any("<" in text for text in texts)


def texts_of(behaviour: Behaviour) -> tuple[str, ...]:
    return behaviour.name, behaviour.additional_detail, behaviour.message


def test_the_watcher_of_py_trees_ros_can_read_every_snapshot(graph: Graph) -> None:
    graph.household(SCRIPT, check_done=False)
    viewer = Viewer(graph)
    assert graph.task().result.verdict == "partly"
    graph.until(lambda: viewer.says("reactree_planner", "done in part"), "the end is seen")
    for tree in viewer.trees:
        for behaviour in tree.behaviours:
            assert msg_to_behaviour(behaviour).feedback_message == behaviour.message
