"""The planner: tasks and their results, options, malformed goals, what it publishes and saves."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from action_msgs.msg import GoalStatus
from chatting import Chatting, saying
from doubles import ScriptedModel, ScriptedWorld, expand
from rcl_interfaces.msg import Log
from rclpy.action import ActionServer
from rclpy.parameter import Parameter
from reactree_interfaces.action import ExecuteTask
from ros_graph import Graph

from reactree_ros.agent.grammar import DecisionGrammar
from reactree_ros.episode.player import replay
from reactree_ros.errors import UserError
from reactree_ros.household.household import WAH_NL
from reactree_ros.llm.engine import Generated
from reactree_ros.nodes.planner.execute_task import TaskClient
from reactree_ros.planners.spec import planner_names
from reactree_ros.record.reader import read_record
from reactree_ros.tree.options import RunOptions
from reactree_ros.world.port import Score

Result = ExecuteTask.Result


DONE = {"root": ["Think: so", "Act: done"]}
EMPTY = "the instruction is empty; say what to do, e.g. 'Put 1 apple on the coffee table'"
#: Thinks, acts, expands twice, is refused once, and has agent nodes that end either way.
FAMILY = {
    "root": ["Think: two things to do", "Act: open fridge 1", expand("sequence", "fetch it", "try it")],
    "fetch it": ["Act: open the door", "Act: pick up apple 1", "Act: done"],
    "try it": [expand("fallback", "one way", "another way")],
    "one way": ["Act: recall location of apple", "Act: failure"],
    "another way": ["Think: so", "Act: go to kitchen 1", "Act: done"],
}


# ---------------------------------------------------------------------- results


def test_a_task_that_is_done_succeeds_with_its_counts(graph: Graph) -> None:
    graph.household(FAMILY, offers="all")
    goal = graph.task()
    result = goal.result
    assert (goal.status, result.success, result.end) == (GoalStatus.STATUS_SUCCEEDED, True, "done")
    claimed = "the planner says that it is done, and the run had no goal to be judged by"
    assert (result.error_code, result.message, result.saved_to) == (Result.NONE, claimed, "")
    assert (result.decisions, result.steps, result.agent_nodes, result.max_depth) == (9, 4, 5, 5)
    assert (result.gsr, result.ssr) == (-1.0, -1.0)
    assert result.seconds > 0


def test_what_the_model_said_in_vain_is_told_with_the_decision_and_counted_in_the_result(graph: Graph) -> None:
    said = iter(["Act: fly", "Think: so", "Act: done"])
    graph.household({}, model=Chatting(lambda generation: Generated(next(said), "stop", output_tokens=3)))
    decisions = graph.decisions()
    result = graph.task().result
    assert (result.replies, result.attempts, result.refused_attempts, result.repeated_attempts) == (2, 3, 1, 0)
    assert result.refused_tokens == 3
    graph.until(lambda: len(decisions) == 2)
    assert [[one.text for one in decision.attempts] for decision in decisions] == [["Act: fly", ""], [""]]


def test_a_task_that_fails_aborts_without_an_error(graph: Graph) -> None:
    graph.household({"root": ["Act: failure"]})
    goal = graph.task()
    assert (goal.status, goal.result.success, goal.result.end) == (GoalStatus.STATUS_ABORTED, False, "failure")
    assert goal.result.error_code == Result.NONE


@pytest.mark.parametrize(
    ("said", "score", "success"),
    [("done", Score(0.0, 0.5, unmet=["apple on sofa"]), False), ("failure", Score(1.0, 1.0), True)],
)
def test_the_worlds_score_decides_where_there_is_one(graph: Graph, said: str, score: Score, success: bool) -> None:
    graph.household({"root": [f"Act: {said}"]}, world=ScriptedWorld(score=score))
    goal = graph.task()
    assert goal.status == (GoalStatus.STATUS_SUCCEEDED if success else GoalStatus.STATUS_ABORTED)
    assert (goal.result.success, goal.result.gsr, goal.result.ssr) == (success, score.gsr, score.ssr)
    assert list(goal.result.unmet) == list(score.unmet)


def test_what_was_done_in_part_is_told_and_counted(graph: Graph) -> None:
    script = {"root": [expand("parallel", "a", "b", "c")], "a": ["Act: done"], "b": ["Act: done"], "c": ["Think: so"]}
    graph.household(script | {"apple": ["Think: so", "Act: done", "Act: done"]})
    goal = graph.task(max_decisions=2)
    result = goal.result
    assert goal.status == GoalStatus.STATUS_ABORTED
    assert (result.success, result.achieved, result.claimed, result.verdict) == (False, False, False, "partly")
    assert (result.end, result.branches, result.branches_done) == ("out_of_decisions", 3, 2)
    assert list(result.undone) == ["'c' failed: Max decisions"]
    named = graph.task("apple").result
    assert (named.verdict, list(named.untouched)) == ("partly", ["apple"])


@pytest.mark.parametrize(("instruction", "goal"), [("Put the apple on the coffee table", True), ("Dance", False)])
def test_the_bridge_judges_what_is_no_tasks_by_the_goal_that_it_reads(
    graph: Graph, instruction: str, goal: bool
) -> None:
    graph.inference()
    graph.bridge()
    graph.planner()
    result = graph.task(instruction).result
    assert (result.achieved, result.gsr, result.claimed) == (goal, 1.0 if goal else -1.0, False)
    read = [(one.name, one.value.integer_value) for one in result.goal]
    assert read == ([("on_apple_coffeetable", 1)] if goal else [])


def test_limits_of_the_goal_hold(graph: Graph) -> None:
    script = {"root": ["Think: a", "Act: open fridge 1"] * 4}
    graph.household(script)
    assert graph.task(max_decisions=3).result.end == "out_of_decisions"
    assert graph.task(max_steps=1).result.end == "out_of_steps"


# ---------------------------------------------------------------------- options


def test_limits_of_the_parameters_hold_where_the_goal_gives_none_and_may_be_changed(graph: Graph) -> None:
    planner = graph.household({"root": ["Think: a"] * 5}, max_decisions=2)
    assert graph.task().result.decisions == 2
    planner.set_parameters([Parameter("max_decisions", value=3)])
    assert graph.task().result.decisions == 3


def test_limits_are_the_households_where_neither_goal_nor_parameter_gives_one(graph: Graph) -> None:
    world = ScriptedWorld()
    world.household = replace(WAH_NL, max_decisions=3, max_steps=2)  # type: ignore[misc]
    graph.household({"root": ["Think: a"] * 4 + ["Act: open fridge 1"] * 3}, world=world)
    assert (graph.task().result.end, graph.task(max_decisions=1).result.decisions) == ("out_of_decisions", 1)
    assert graph.task().result.end == "out_of_steps"


def test_how_a_decision_is_sampled_is_as_the_parameters_say_and_the_seed_as_the_goal_does(graph: Graph) -> None:
    model = ScriptedModel({"root": DONE["root"] * 2})
    graph.household({}, model=model, max_tokens=7, temperature=0.5, seed=3)
    for goal, seed in (({}, 3), ({"seed": -7}, -7)):
        model.requests.clear()
        assert graph.task(**goal).result.success
        assert {(one.max_tokens, one.temperature, one.seed) for one in model.requests} == {(7, 0.5, seed)}


def test_a_tree_that_may_not_grow_deeper_is_told_so(graph: Graph) -> None:
    graph.household({"root": [expand("sequence", "a"), "Act: failure"]})
    heard = graph.decisions()
    assert graph.task(max_depth=2).result.agent_nodes == 1
    assert heard[0].kind == "expand"  # which it would have been
    assert heard[0].reason == "The tree is 1 deep and must not grow beyond 2."


@pytest.mark.parametrize(
    ("parameter", "goal", "remembers"), [(True, 0, True), (False, 0, False), (False, 1, True), (True, 2, False)]
)
def test_working_memory_is_on_or_off_for_each_goal(graph: Graph, parameter: bool, goal: int, remembers: bool) -> None:
    model = ScriptedModel(DONE)
    graph.household({}, model=model, working_memory=parameter, offers="all")
    assert graph.task(working_memory=goal).result.success
    may_say = model.requests[0].may_say
    assert isinstance(may_say, DecisionGrammar)
    assert ("recall location of apple" in may_say.skills) is remembers


@pytest.mark.parametrize(("given", "shown"), [("", True), ("none", False)])
def test_a_planner_that_names_no_memory_has_the_examples_of_the_household(
    graph: Graph, monkeypatch: pytest.MonkeyPatch, given: str, shown: bool
) -> None:
    goal, model = (
        "find and pick up the apple",
        ScriptedModel({"find and pick up the apple": ["Act: pick up apple 1", "Act: done"]}),
    )
    monkeypatch.setattr("reactree_ros.memory.embedding.lacking", lambda extra: {extra: ""})
    monkeypatch.setattr("reactree_ros.nodes.inference.inference_node.make_model", lambda spec, settings: model)
    graph.inference(llm="openai", base_url="http://localhost:1/v1", model="m")
    graph.bridge(ScriptedWorld())
    graph.planner(memory=given)
    assert graph.task(goal).result.success
    assert (model.requests[0].prompt.count(f"Your task is to: {goal}\n") > 1) is shown


def test_what_may_be_tried_is_asked_anew_when_a_task_begins(graph: Graph) -> None:
    model, world = (
        ScriptedModel({"root": ["Act: open fridge 1", "Act: done", "Think: so", "Act: done"]}),
        ScriptedWorld(),
    )
    graph.household({}, model=model, world=world)
    assert graph.task().result.success
    world.skills = ["go to garden 1"]  # somebody else was at work
    assert graph.task().result.success
    may_say = model.requests[-1].may_say
    assert isinstance(may_say, DecisionGrammar)
    assert may_say.skills[-1] == "go to garden 1"
    assert "open fridge 1" not in may_say.skills


# ---------------------------------------------------------------------- malformed goals


@pytest.mark.parametrize(
    ("goal", "message"),
    [
        ({"instruction": ""}, EMPTY),
        ({"instruction": " \n"}, EMPTY),
        ({"planner": "zsp2"}, f"planner 'zsp2' is unknown; did you mean 'zsp'? There are {', '.join(planner_names())}"),
        ({"task_id": -2}, "task_id is -2; it must be one of the tasks of the bridge's world, or -1"),
        ({"working_memory": 9}, "working_memory is 9; it must be one of the constants (0, 1, 2)"),
    ],
)
def test_a_malformed_goal_ends_with_what_to_change_and_the_planner_lives_on(
    graph: Graph, goal: dict[str, Any], message: str
) -> None:
    graph.household(DONE)
    sent = graph.task(**{"instruction": "root"} | goal)
    assert (sent.status, sent.result.error_code, sent.result.message) == (
        GoalStatus.STATUS_ABORTED,
        Result.INVALID_GOAL,
        message,
    )
    assert (sent.result.end, sent.result.success) == ("", False)
    assert graph.task().result.success


@pytest.mark.parametrize("task_id", [99, 2**40])
def test_a_task_that_the_bridge_does_not_know_is_an_invalid_goal(graph: Graph, task_id: int) -> None:
    graph.inference()
    graph.bridge()
    graph.planner()
    result = graph.task("", task_id=task_id).result
    assert result.error_code == Result.INVALID_GOAL
    assert result.message == f"there is no task {task_id}; task_id must be one of the tasks of the bridge's world"
    assert graph.task("").result.success


def test_parameters_that_make_no_sense_are_refused(graph: Graph) -> None:
    with pytest.raises(UserError, match="on_busy is 'wait': use one of reject, queue, preempt"):
        graph.planner(on_busy="wait")
    with pytest.raises(UserError, match="parallel is 'most': use one of majority, all, concurrent, turns"):
        graph.planner(parallel="most")
    with pytest.raises(UserError, match="planner 'reactre' is unknown; did you mean 'reactree'"):
        graph.planner(planner="reactre")
    with pytest.raises(UserError, match="memory 'sqlit' is unknown; did you mean 'sqlite'"):
        graph.planner(memory="sqlit:path=m.db")


def test_a_change_that_makes_no_sense_is_refused_and_the_parameter_stays(graph: Graph) -> None:
    planner = graph.household({})
    for name, value in (("parallel", "most"), ("max_decisions", -1), ("decision_timeout", 0.0), ("memory", "other.db")):
        before = planner.get_parameter(name).value
        (answer,) = planner.set_parameters([Parameter(name, value=value)])
        assert not answer.successful, name
        assert planner.get_parameter(name).value == before


def test_every_choice_of_a_run_is_a_parameter_with_its_meaning(graph: Graph) -> None:
    planner = graph.household({})
    for name, field in RunOptions.model_fields.items():
        assert planner.describe_parameter(name).description == field.description
    assert planner.describe_parameter("parallel").additional_constraints == "one of majority, all, concurrent, turns"


# ---------------------------------------------------------------------- decisions, feedback, snapshots


@pytest.mark.parametrize("lacking", ["py_trees_ros", "py_trees_ros_interfaces"])
def test_without_py_trees_ros_tasks_are_carried_out_and_one_warning_says_that_nobody_can_watch(
    graph: Graph, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith(lacking) or name.endswith(".shown_tree")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, lacking, None)
    heard = graph.listen(Log, "/rosout")
    planner = graph.household(FAMILY | {"next": ["Think: so", "Act: done"]})
    assert all(graph.task(instruction).result.success for instruction in ("root", "next"))
    graph.until(lambda: sum("ended" in log.msg for log in heard) == 2, "the ends are logged")
    (warning,) = [log.msg for log in heard if "snapshots" in log.msg]
    assert "py_trees_ros" in warning
    assert "is not installed: no snapshots are sent" in warning
    offered = [name for name, _ in planner.get_service_names_and_types_by_node(planner.get_name(), "/")]
    assert "/reactree_planner/pause" in offered
    assert not [name for name in offered if "snapshot" in name]


def test_feedback_tells_where_the_run_is(graph: Graph) -> None:
    graph.household(FAMILY, offers="all")
    goal = graph.task()
    assert goal.result.success
    assert [(one.decisions, one.steps) for one in goal.feedback] == sorted(
        (one.decisions, one.steps) for one in goal.feedback
    )
    first, last = goal.feedback[0], goal.feedback[-1]
    assert (first.active_path, first.last_decision, first.last_observation) == (
        ["root"],
        "Think: two things to do",
        "",
    )
    assert last.active_path == ["root", "sequence", "try it", "fallback", "another way"]
    assert (last.last_decision, last.last_observation, last.refused) == ("Act: done", "You go to kitchen 1.", "")
    assert len(goal.feedback) < 9, "what comes close together is told together"
    told = [line for one in goal.feedback for line in one.told]
    said = [line.partition("\n")[0] for line in told if line.startswith("[")]
    assert said == [
        *("[1] Think: two things to do", "[2] Act: open fridge 1", "[3] Expand:", "[4] Act: open the door"),
        *("[5] Act: pick up apple 1", "[5] Act: done", "[6] Expand:", "[7] Act: recall location of apple"),
        *("[7] Act: failure", "[8] Think: so", "[9] Act: go to kitchen 1", "[9] Act: done"),
    ]
    refused = told.index("[4] Act: open the door") + 1
    assert told[refused].startswith("    refused: 'open the door' is not among the skills that are available now")


def terminal(graph: Graph, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What somebody reads who sends a goal from a terminal."""
    client = graph.add(TaskClient("reactree_planner", ExecuteTask.Goal(instruction="root"), context=graph.context))
    graph.until(client.planner_is_there)
    client.send()
    graph.until(client.ended)
    client.conclude()
    return capsys.readouterr().out.splitlines()


def test_a_terminal_shows_what_was_refused_and_why(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.household(FAMILY)
    lines = terminal(graph, capsys)
    said = next(number for number, line in enumerate(lines) if line.endswith("Act: open the door"))
    assert lines[said + 1].startswith("    refused: 'open the door' is not among the skills that are available now")


def test_a_terminal_shows_why_the_model_was_asked_again(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    graph.household({}, model=Chatting(saying("Act: fly", "Act: done")))
    why, said, *_, counts = terminal(graph, capsys)
    assert why.startswith("    asked again: ")
    assert "fly" in why
    assert said == "[0] Act: done"
    assert counts == "2 requests for 1 replies of the language model: 1 refused, 0 repeated"


def test_a_terminal_shows_also_what_comes_after_the_result(graph: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    said = ["Act: go to kitchen 1", "Act: done"]
    late = [ExecuteTask.Feedback(told=[f"[{number}] {text}"]) for number, text in enumerate(said, 1)]

    def execute(handle: Any) -> ExecuteTask.Result:
        server.create_timer(0.25, lambda: handle.publish_feedback(late.pop(0)) if late else None)
        handle.succeed()
        return ExecuteTask.Result(success=True, verdict="reached", end="done", feedbacks=len(said))

    server = graph.add_node("reactree_planner")
    ActionServer(server, ExecuteTask, "~/execute_task", execute)
    lines = terminal(graph, capsys)
    assert [line for line in lines if line.startswith("[")] == ["[1] Act: go to kitchen 1", "[2] Act: done"]
    assert "Goal reached" in lines[-2]


def test_the_tree_of_a_task_gives_way_to_the_next_ones(graph: Graph) -> None:
    planner = graph.household(FAMILY | {"next": ["Think: so", "Act: done"]})
    assert graph.task().result.success
    assert graph.task("next").result.success
    assert [child.name for child in planner._reporter.tree.root.children] == ["next"]


# ---------------------------------------------------------------------- saving


def test_runs_are_recorded_each_in_its_own_file(graph: Graph, tmp_path: Path) -> None:
    graph.household({"root": ["Think: so", "Act: done"] * 2}, save_to=str(tmp_path))
    files = [Path(graph.task().result.saved_to) for _ in range(2)]
    assert sorted(files) == sorted(tmp_path.iterdir())
    for file in files:
        record = read_record(file)
        assert record.end is not None
        result = record.end["result"]
        assert (result["instruction"], result["end"], result["status"]) == ("root", "done", "success")
        assert replay(record).identical


def test_a_run_that_cannot_be_saved_says_so(graph: Graph, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    graph.household({"root": ["Think: so", "Act: done"] * 2}, save_to=str(file))
    goal = graph.task()
    assert (goal.status, goal.result.success) == (GoalStatus.STATUS_ABORTED, True)
    assert (goal.result.error_code, goal.result.saved_to) == (Result.SAVE_FAILED, "")
    assert str(file) in goal.result.message


# ---------------------------------------------------------------------- several


def test_two_planners_share_an_inference_node(graph: Graph) -> None:
    model = ScriptedModel({"one": ["Think: 1", "Act: done"], "two": ["Think: 2", "Act: done"]}, settle=False)
    graph.inference(model)
    worlds = ScriptedWorld(), ScriptedWorld()
    for name, world in zip(("one", "two"), worlds, strict=True):
        graph.bridge(world, name=f"bridge_{name}")
        graph.planner(name=f"planner_{name}", bridge=f"bridge_{name}")
    heard = graph.decisions("planner_one"), graph.decisions("planner_two")
    goals = [graph.task(name, to=f"planner_{name}") for name in ("one", "two")]
    for _ in range(2):
        graph.until(lambda: len(model.in_flight) == 2, "both wait for a decision at once")
        model.settle_all()
    assert [goal.result.success for goal in goals] == [True, True]
    assert len({request.id for request in model.requests}) == 4
    assert [[msg.text for msg in one] for one in heard] == [["Think: 1", "Act: done"], ["Think: 2", "Act: done"]]


def test_two_robots_in_two_namespaces_do_not_hear_each_other(graph: Graph) -> None:
    worlds = {name: ScriptedWorld() for name in ("one", "two")}
    for name, world in worlds.items():
        graph.inference(ScriptedModel({"root": [f"Think: {name}", "Act: open fridge 1", "Act: done"]}), namespace=name)
        graph.bridge(world, namespace=name)
        graph.planner(namespace=name)
    heard = {name: graph.decisions(f"{name}/reactree_planner") for name in worlds}
    assert graph.task(to="/one/reactree_planner").result.success
    assert (worlds["one"].executed, worlds["two"].executed) == (["open fridge 1"], [])
    assert graph.task(to="/two/reactree_planner").result.success
    assert {name: messages[0].text for name, messages in heard.items()} == {"one": "Think: one", "two": "Think: two"}
    assert len(heard["one"]) == len(heard["two"]) == 3
