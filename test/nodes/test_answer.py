"""`reactree robot answer`: a person at a real terminal answers what planners and bridges ask, and speaks in between."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel, ScriptedWorld
from people import words_told
from processes import Processes
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from ros_graph import Goal, Graph, HeldWorld

from reactree_ros.nodes.planner.planner_node import PlannerNode

Result = ExecuteTask.Result


ASKS = {"planner": "reactree:questions=2", "answer_timeout": 600.0}
ONE = {"root": ["Ask: Which apple?", "Act: done"]}
POLICY = "rules: [{skill: open, object: fridge, verdict: confirm}]"


class Terminal:
    """A terminal in which `reactree robot answer` runs, and the person at it."""

    def __init__(self, graph: Graph, *options: str) -> None:
        self._graph, self._processes = graph, Processes(graph.domain_id)
        self._person, there = os.openpty()
        command = (sys.executable, "-m", "reactree_ros.cli", "robot", "answer", *options)
        self.process = self._processes.start(*command, stdin=there)
        os.close(there)
        self._seen = 0

    def answers(self, *nodes: Any) -> None:
        for said, node in [(f"answers {node.get_fully_qualified_name()}", node) for node in nodes]:
            self._graph.until(lambda said=said: said in self.process.output, f"'{said}' is shown")
            self._graph.until(lambda node=node: node._person.there, "it is known to be there")

    def shows(self, *texts: str) -> None:
        for text in texts:
            self._graph.until(lambda text=text: text in self.process.output[self._seen :], f"'{text}' is shown")
            self._seen = self.process.output.index(text, self._seen) + len(text)

    def types(self, line: str) -> None:
        os.write(self._person, f"{line}\n".encode())

    def hangs_up(self) -> None:
        os.close(self._person)
        self._person = -1

    def ends(self) -> int:
        self._graph.until(lambda: self.process._process.poll() is not None, "it ends")
        return self.process.end()

    def close(self) -> None:
        self._processes.kill_all()
        if self._person >= 0:
            os.close(self._person)


@pytest.fixture
def terminal(graph: Graph) -> Iterator[Terminal]:
    terminal = Terminal(graph)
    yield terminal
    terminal.close()


def asks(graph: Graph, script: dict[str, list[str]], **parameters: object) -> PlannerNode:
    return graph.household(script, **(ASKS | parameters))


def asked(graph: Graph, terminal: Terminal, **parameters: object) -> tuple[PlannerNode, Goal]:
    """Have a run ask at the terminal which apple is meant."""
    planner = asks(graph, ONE, **parameters)
    terminal.answers(planner)
    goal = graph.task()
    terminal.shows("/reactree_planner: Which apple?")
    return planner, goal


def test_a_question_is_printed_with_who_asks_and_what_for_and_what_is_typed_answers_it(
    graph: Graph, terminal: Terminal
) -> None:
    planner, goal = asked(graph, terminal)
    terminal.shows(" (root; ", "Type the answer, then Enter.")
    terminal.types("the red one")
    assert goal.result.success
    assert words_told(planner) == ['The person answers: "the red one".']


def test_several_questions_are_put_one_after_the_other(graph: Graph, terminal: Terminal) -> None:
    for name, text in (("one", "Which apple?"), ("two", "Which door?")):
        graph.inference(ScriptedModel({"root": [f"Ask: {text}", "Act: done"]}), namespace=name)
        graph.bridge(ScriptedWorld(), namespace=name)
    planners = [graph.planner(namespace=name, **ASKS) for name in ("one", "two")]
    terminal.answers(*planners)
    first = graph.task(to="one/reactree_planner")
    terminal.shows("/one/reactree_planner: Which apple?")
    second = graph.task(to="two/reactree_planner")
    graph.until(lambda: planners[1]._person._open and planners[1]._person._open[0].asked_of, "it is asked, too")
    terminal.types("the red one")
    terminal.shows("/two/reactree_planner: Which door?")
    terminal.types("the blue one")
    assert first.result.success
    assert second.result.success
    assert [words_told(planner)[0] for planner in planners] == [
        'The person answers: "the red one".',
        'The person answers: "the blue one".',
    ]


def test_a_skill_is_carried_out_after_a_yes_and_not_after_anything_else(
    graph: Graph, terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    world = ScriptedWorld()
    bridge = graph.bridge(world, policy=str(tmp_path / "policy.yaml"), confirm_timeout=600.0)
    terminal.answers(bridge)
    goal = graph.skill("open fridge 1")
    terminal.shows("/household_bridge: May 'open fridge 1' be carried out? (the skill policy says confirm")
    terminal.types("it is cold")
    assert goal.result.message.endswith("'open fridge 1' was not approved: \"it is cold\".")
    assert world.executed == []
    goal = graph.skill("open fridge 1")
    terminal.shows("May 'open fridge 1' be carried out?", "y: yes; anything else: no")
    soon = "type it again"
    while not world.executed:  # a yes that comes too soon is not taken
        before = terminal.process.output.count(soon)
        terminal.types("y")
        graph.until(lambda n=before: world.executed or terminal.process.output.count(soon) > n, "it is heard")
    assert goal.result.outcome == ExecuteSkill.Result.DONE


def test_what_was_typed_before_a_skill_is_asked_for_is_no_yes_to_it(
    graph: Graph, terminal: Terminal, tmp_path: Path
) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    world = ScriptedWorld()
    bridge = graph.bridge(world, policy=str(tmp_path / "policy.yaml"), confirm_timeout=600.0)
    terminal.answers(bridge)
    terminal.types("y")
    terminal.shows("(there is no planner that could take in what you say)")
    goal = graph.skill("open fridge 1")
    terminal.shows("May 'open fridge 1' be carried out?")
    terminal.types("no")
    assert goal.result.outcome == ExecuteSkill.Result.REFUSED_BY_POLICY
    assert world.executed == []


def test_a_question_whose_time_is_over_is_gone_and_what_is_typed_then_is_no_answer(
    graph: Graph, terminal: Terminal
) -> None:
    planner, goal = asked(graph, terminal, answer_timeout=1.0)
    terminal.shows("(that question is not open any more)")
    assert goal.result.success
    terminal.types("the red one")
    terminal.shows("(no task runs that could take in what you say)")
    assert words_told(planner)[0].startswith("Nobody answers: no")


def test_what_is_typed_while_nothing_is_asked_is_told_to_the_run(graph: Graph, terminal: Terminal) -> None:
    world = HeldWorld()
    planner = asks(graph, {"root": ["Act: open fridge 1", "Act: done"]}, world=world)
    terminal.answers(planner)
    terminal.types("the red one")
    terminal.shows("(no task runs that could take in what you say)")
    goal = graph.task()
    graph.until(lambda: world.held, "the skill runs")
    terminal.types("not that one, the red one")
    terminal.shows("(passed on to the run)")
    world.finish()
    assert goal.result.success
    assert words_told(planner) == ['The person says: "not that one, the red one".']


def test_stop_ends_the_run_also_in_place_of_an_answer(graph: Graph, terminal: Terminal) -> None:
    world = HeldWorld()
    planner = asks(graph, {"root": ["Act: open fridge 1", "Ask: Which apple?"]}, world=world)
    terminal.answers(planner)
    goal = graph.task()
    graph.until(lambda: world.held, "the skill runs")
    terminal.types("stop!")
    assert (goal.result.error_code, goal.result.end) == (Result.CANCELED, "interrupted")
    assert world.cancelled == {"open fridge 1": 1}
    goal = graph.task()
    terminal.shows("Which apple?")
    terminal.types("stop")
    assert goal.result.error_code == Result.CANCELED
    assert words_told(planner) == []


def test_of_two_planners_it_is_asked_which_is_meant_but_stop_stops_both(graph: Graph, terminal: Terminal) -> None:
    worlds = {name: HeldWorld() for name in ("one", "two")}
    for name, world in worlds.items():
        graph.inference(ScriptedModel({"root": ["Act: open fridge 1", "Act: done"]}), namespace=name)
        graph.bridge(world, namespace=name)
    planners = [graph.planner(namespace=name) for name in worlds]
    goals = [graph.task(to=f"{name}/reactree_planner") for name in worlds]
    graph.until(lambda: all(world.held for world in worlds.values()), "both work")
    terminal.answers(*planners)
    terminal.types("the red one")
    terminal.shows("(which planner is meant, /one/reactree_planner, /two/reactree_planner? Name it with --planner-node")
    terminal.types("stop")
    terminal.shows("(passed on to the run)")
    assert [goal.result.error_code for goal in goals] == [Result.CANCELED] * 2


def test_one_planner_is_named_with_its_bridge_and_no_other_is_answered(graph: Graph) -> None:
    bridges = []
    for name in ("one", "two"):
        graph.inference(ScriptedModel(ONE), namespace=name)
        bridges.append(graph.bridge(ScriptedWorld(), namespace=name))
    planners = [graph.planner(namespace=name, **ASKS) for name in ("one", "two")]
    terminal = Terminal(graph, "--planner-node", "/two/reactree_planner")
    try:
        terminal.answers(bridges[1], planners[1])
        assert graph.task(to="one/reactree_planner").result.success
        assert words_told(planners[0])[0].startswith("Nobody answers: nobody answers /one/reactree_planner/ask_person;")
        goal = graph.task(to="two/reactree_planner")
        terminal.shows("/two/reactree_planner: Which apple?")
        terminal.types("the red one")
        assert goal.result.success
        assert words_told(planners[1]) == ['The person answers: "the red one".']
    finally:
        terminal.close()


def test_ctrl_c_withdraws_and_the_run_knows_at_once(graph: Graph, terminal: Terminal) -> None:
    planner, goal = asked(graph, terminal)
    terminal.process.interrupt()
    assert goal.result.success
    assert words_told(planner) == ["Nobody answers: the person has left."]
    assert terminal.ends() == 0
    assert terminal.process.ended_cleanly(0)


def test_where_it_is_killed_another_one_has_the_question(graph: Graph, terminal: Terminal) -> None:
    planner, goal = asked(graph, terminal)
    terminal.process.signal(signal.SIGKILL)
    other = Terminal(graph)
    try:
        other.shows("Which apple?")
        other.types("the red one")
        assert goal.result.success
    finally:
        other.close()
    assert words_told(planner) == ['The person answers: "the red one".']


def test_where_the_terminal_is_closed_it_ends_and_says_so(graph: Graph, terminal: Terminal) -> None:
    planner, goal = asked(graph, terminal)
    terminal.hangs_up()
    assert terminal.ends() == 1
    assert "error: the terminal is closed; run this in one where somebody can type" in terminal.process.output
    assert goal.result.success
    assert words_told(planner) == ["Nobody answers: the terminal was closed."]


def test_as_a_node_it_does_the_same_and_what_is_no_name_is_refused(processes: Processes) -> None:
    tool = processes.start("ros2", "run", "reactree_ros", "answer")
    assert tool.end() == 1
    assert "error: the terminal is closed; run this in one where somebody can type" in tool.output
    refused = processes.start(
        sys.executable, "-m", "reactree_ros.cli", "robot", "answer", "--planner-node", "my planner"
    )
    assert refused.end() == 2
    assert "'my planner' is not a node's name, which is like /robot1/reactree_planner" in refused.output
