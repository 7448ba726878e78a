"""What whoever operates a robot sees of a task: the log, the tree in a viewer, the blackboard, diagnostics."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from doubles import ScriptedModel, ScriptedWorld, expand

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import Reply, ServerUnavailable
from reactree_ros.world.port import Observation, Score, Seen

if importlib.util.find_spec("rclpy"):
    import py_trees_ros
    from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
    from py_trees.behaviours import Success
    from py_trees.composites import Sequence
    from py_trees_ros.conversions import msg_to_behaviour
    from py_trees_ros_interfaces.msg import Behaviour, BehaviourTree
    from rcl_interfaces.msg import Log
    from rclpy.qos import DurabilityPolicy, QoSProfile
    from ros_graph import HeldWorld, activate
    from snapshots import Viewer
    from std_srvs.srv import Trigger

    from reactree_ros.nodes import shown_tree
    from reactree_ros.nodes.shown_tree import ShownTree
    from reactree_ros.nodes.watchdog import Watchdog

if TYPE_CHECKING:
    from ros_graph import Goal, Graph

pytestmark = pytest.mark.ros

#: Log levels are bytes in some releases of rclpy, and numbers in others.
INFO = 20


def id_of(goal: Goal) -> str:
    return bytes(goal._answer.result().goal_id.uuid).hex()


# ---------------------------------------------------------------------- the log


def infos(heard: list[Any]) -> list[str]:
    return [log.msg for log in heard if log.name == "reactree_planner" and log.level == INFO]


def test_an_accepted_goal_and_its_end_are_logged_with_id_instruction_and_reason(graph: Graph) -> None:
    graph.household({"root": ["Think: a", "Act: failure"]})
    heard = graph.listen(Log, "/rosout")
    goal = graph.task()
    assert not goal.result.success
    graph.until(lambda: any("ended" in text for text in infos(heard)), "its end is logged")
    accepted, ended = infos(heard)
    assert accepted == f"goal {id_of(goal)} accepted: 'root'"
    assert ended.startswith(f"goal {id_of(goal)} ended: goal not reached (failure), 'root'; 1 decisions, 0 steps, ")
    assert ended.endswith("; the planner gave up: a")


def test_a_goal_that_is_canceled_in_the_queue_is_logged_as_well(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1", "Act: done"]}, world=world, on_busy="queue")
    heard = graph.listen(Log, "/rosout")
    graph.task()
    graph.until(lambda: world.held)
    waits = graph.task("a")
    waits.cancel()
    said = f"goal {id_of(waits)}"
    graph.until(lambda: any(text.startswith(f"{said} ended") for text in infos(heard)), "its end is logged")
    mine = [text for text in infos(heard) if text.startswith(said)]
    assert mine == [
        f"{said} accepted behind 1: 'a'",
        f"{said} ended: interrupted (interrupted), 'a'; 0 decisions, 0 steps, 0.0 s; canceled",
    ]


def test_a_rejected_goal_is_warned_of_with_its_instruction(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({"root": ["Act: open fridge 1", "Act: done"]}, world=world)
    heard = graph.listen(Log, "/rosout")
    graph.task()
    graph.until(lambda: world.held)
    assert not graph.task("a").accepted
    graph.until(lambda: any(log.msg == "goal rejected: a task runs; 'a'" for log in heard), "it is warned of")


@pytest.mark.parametrize(
    ("script", "score", "limits", "message"),
    [
        (["Act: failure"], None, {}, "the planner gave up: gave up at once"),
        (
            ["Act: go to kitchen 1"] * 3,
            None,
            {"max_decisions": 2},
            "out of decisions: all of the 2 decisions are used up",
        ),
        (["Act: go to kitchen 1"] * 3, None, {"max_steps": 2}, "out of steps: all of the 2 steps are used up"),
        (["Act: done"], Score(0.0, 0.5), {}, "the planner says that it is done, but the goal does not hold"),
    ],
)
def test_a_task_never_fails_with_an_empty_message(
    graph: Graph, script: list[str], score: Score | None, limits: dict[str, int], message: str
) -> None:
    graph.household({"root": script}, world=ScriptedWorld(score=score))
    result = graph.task(**limits).result
    assert (result.success, result.message) == (False, message)


@pytest.mark.parametrize("on_busy", ["queue", "preempt"])
def test_the_decisions_of_queued_and_preempting_goals_are_told_apart_by_the_goals_id(
    graph: Graph, on_busy: str
) -> None:
    world = HeldWorld()
    model = ScriptedModel({"root": ["Act: open fridge 1", "Act: done"] * 2})
    graph.household({}, model=model, world=world, on_busy=on_busy)
    heard = graph.decisions()
    goals = [graph.task()]
    graph.until(lambda: world.held, "the first one acts")
    goals.append(graph.task())
    assert goals[1].accepted
    while not all(goal._end is not None and goal._end.done() for goal in goals):
        world.finish()
        graph.step()
    graph.until(lambda: [bytes(msg.goal_id.uuid).hex() for msg in heard][-1:] == [id_of(goals[1])], "decisions came")
    ids = [bytes(msg.goal_id.uuid).hex() for msg in heard]
    assert set(ids) == {id_of(goal) for goal in goals}
    assert ids == sorted(ids, key=[id_of(goal) for goal in goals].index)


# ---------------------------------------------------------------------- the tree in a viewer


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


def test_a_tree_may_change_before_its_setup() -> None:
    tree = ShownTree(Sequence("root", memory=True))
    tree.tree_update_handler = tree._on_tree_update_handler
    tree.insert_subtree(Success("new"), tree.root.id, 0)
    tree.show()


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


def test_a_decision_is_sent_once(graph: Graph) -> None:
    model = ScriptedModel({"root": ["Think: a", "Act: done"]}, settle=False)
    planner = graph.household({}, model=model)
    viewer = Viewer(graph)
    graph.task()
    graph.until(lambda: model.in_flight, "the model is asked")
    model.settle_all()
    graph.until(lambda: viewer.says("root", "Think: a"), "it is seen")
    ticks = planner._reporter.tree.count
    graph.until(lambda: planner._reporter.tree.count > ticks + 20, "it is ticked on")
    assert [one.message for one in viewer.seen("root")].count("Think: a") == 1


def test_siblings_are_told_apart_by_their_first_words_and_kinds_by_type_and_detail(graph: Graph) -> None:
    graph.household(SCRIPT, check_done=False)
    viewer = Viewer(graph)
    assert graph.task().result.success
    graph.until(lambda: viewer.says("reactree_planner", "claimed"), "the end is seen")
    apple, juice = "apple (find and pick up ...)", "juice (find and pick up ...)"
    assert {name: (one.type, one.additional_detail) for name, one in viewer.last.items()} == {
        "reactree_planner": (Behaviour.SEQUENCE, "claimed, not checked (done): 'root'; ..."),
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
    assert graph.task().result.success
    graph.until(lambda: viewer.says("reactree_planner", "claimed"), "the end is seen")
    for tree in viewer.trees:
        for behaviour in tree.behaviours:
            assert msg_to_behaviour(behaviour).feedback_message == behaviour.message


# ---------------------------------------------------------------------- diagnostics


class Diagnoses:
    """Hears ``/diagnostics``."""

    def __init__(self, graph: Graph) -> None:
        self._heard = graph.listen(DiagnosticArray, "/diagnostics")

    def of(self, name: str) -> tuple[bytes, str, dict[str, str]]:
        """The last report of a name: level, message and values."""
        for array in reversed(self._heard):
            for status in array.status:
                if status.name == name:
                    return status.level, status.message, {one.key: one.value for one in status.values}
        return b"", "", {}


def test_the_planner_tells_task_decisions_budgets_and_why_it_holds(graph: Graph) -> None:
    world = HeldWorld()
    planner = graph.household({"root": ["Think: a", "Act: open fridge 1"]}, world=world, max_decisions=9, max_steps=5)
    told = Diagnoses(graph)
    name = "/reactree_planner: task"
    graph.until(lambda: told.of(name)[:2] == (DiagnosticStatus.OK, "waits for a goal"), "it waits")
    goal = graph.task()
    graph.until(lambda: world.held, "the skill runs")
    graph.until(lambda: told.of(name)[2].get("decisions") == "2 of 9", "it is told")
    level, message, values = told.of(name)
    assert (level, message) == (DiagnosticStatus.OK, "carries a task out")
    assert (values["goal"], values["task"], values["steps"]) == (id_of(goal), "'root'", "1 of 5")
    assert (values["household_bridge"], values["inference"]) == ("lives", "lives")
    graph.call(Trigger, "/reactree_planner/pause")
    held = (DiagnosticStatus.WARN, "held: somebody has paused it")
    graph.until(lambda: told.of(name)[:2] == held, "it is told that it holds")
    assert planner._control.paused


def test_the_planner_warns_of_an_inference_node_that_does_not_live_and_tells_how_the_last_goal_ended(
    graph: Graph,
) -> None:
    inference = graph.inference(ScriptedModel({"root": ["Act: failure"]}), alone=True)
    graph.bridge(ScriptedWorld())
    graph.planner()
    told = Diagnoses(graph)
    name = "/reactree_planner: task"
    assert not graph.task().result.success
    graph.until(lambda: "last goal" in told.of(name)[2] and told.of(name)[2]["last goal"] != "none yet", "it is told")
    assert told.of(name)[2]["last goal"] == "failure; the planner gave up: gave up at once"
    graph.kill(inference)
    silent = (DiagnosticStatus.WARN, "silent: inference")
    graph.until(lambda: told.of(name)[:2] == silent, "it is warned of")


def test_a_bridge_tells_world_skill_and_why_nothing_may_move(graph: Graph) -> None:
    class StopWorld(HeldWorld):
        stop = ""

        def halted(self) -> str:
            return self.stop

    world = StopWorld()
    bridge = graph.bridge(world, active=False)
    told = Diagnoses(graph)
    name = "/household_bridge: world"
    graph.until(lambda: told.of(name)[:2] == (DiagnosticStatus.STALE, "not active"), "it is not active")
    activate(bridge)
    graph.until(lambda: told.of(name)[:2] == (DiagnosticStatus.OK, "waits for a skill"), "it is active")
    goal = graph.skill("open fridge 1")
    graph.until(lambda: world.held, "the skill runs")
    graph.until(lambda: told.of(name)[1] == "carries out 'open fridge 1'", "it is told")
    assert (told.of(name)[2]["world"], told.of(name)[2]["skill policy"]) == ("StopWorld", "none")
    world.finish()
    assert goal.result.outcome == 0
    world.stop = "the emergency stop is engaged"
    graph.until(lambda: told.of(name)[:2] == (DiagnosticStatus.WARN, world.stop), "it is warned of")
    assert told.of(name)[2]["last skill"] == "'open fridge 1': done"


def test_the_inference_node_tells_model_requests_errors_and_speed_and_warns_where_the_last_one_failed(
    graph: Graph,
) -> None:
    class Failing(ScriptedModel):
        def decide(self, request: Any) -> Pending[Reply]:
            return Pending.failed(ServerUnavailable("the server is gone"))

    graph.household({}, model=Failing({}))
    told = Diagnoses(graph)
    assert not graph.task().result.success
    name = "/inference: requests"
    failed = (DiagnosticStatus.WARN, "the server is gone")
    graph.until(lambda: told.of(name)[:2] == failed, "it is warned of")
    values = told.of(name)[2]
    assert (values["llm"], values["requests failed"], values["output tokens a second"]) == ("expert", "1", "none yet")


def test_the_watchdog_tells_who_lives_and_warns_of_who_has_fallen_silent(graph: Graph) -> None:
    graph.add(Watchdog(context=graph.context))
    bridge = graph.bridge(ScriptedWorld(), alone=True)
    told = Diagnoses(graph)
    name = "/watchdog: nodes"
    everybody = "/household_bridge, /watchdog"
    graph.until(lambda: told.of(name)[2].get("live") == everybody, "they live")
    assert told.of(name)[:2] == (DiagnosticStatus.OK, "all live")
    graph.kill(bridge)
    silent = (DiagnosticStatus.WARN, "silent: /household_bridge")
    graph.until(lambda: told.of(name)[:2] == silent, "it is warned of")
