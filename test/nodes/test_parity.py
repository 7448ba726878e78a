"""Over ROS and in this process the same tasks give the same decisions, counts, results and texts."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reactree_ros.agent.budget import Budget
from reactree_ros.agent.decision import Act, Decision, Think
from reactree_ros.llm.expert_model import ExpertModel
from reactree_ros.llm.port import Reply
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.run import Run
from reactree_ros.saved_run import save_run
from reactree_ros.tree.agent_node import AgentNode
from reactree_ros.tree.context import Listener, RunContext
from reactree_ros.world.symbolic import SymbolicWorld
from reactree_ros.world.tasks import Task, load_tasks

if importlib.util.find_spec("rclpy"):
    from reactree_interfaces.action import ExecuteTask
    from reactree_interfaces.msg import Decision as DecisionMsg

    KINDS = {DecisionMsg.THINK: "think", DecisionMsg.ACT: "act", DecisionMsg.EXPAND: "expand"}

if TYPE_CHECKING:
    from ros_graph import Graph

pytestmark = pytest.mark.ros

TASKS = 20
#: What is compared of a result; the time it took differs.
RESULT = ("success", "end", "gsr", "ssr", "decisions", "steps", "agent_nodes", "max_depth")


class Decisions(Listener):
    """Writes every decision as a line, as the decisions topic tells it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.budget = Budget(max_decisions=200, max_steps=200)

    def decided(self, node: AgentNode, decision: Decision, reply: Reply) -> None:
        kind = "think" if isinstance(decision, Think) else "act" if isinstance(decision, Act) else "expand"
        self._add(node, kind, reply.text)

    def refused(self, node: AgentNode, said: str, reason: str) -> None:
        self._add(node, reason, said)

    def _add(self, node: AgentNode, kind: str, text: str) -> None:
        self.lines.append(_line(node.index, node.subgoal, node.depth, self.budget.decisions, kind, text))


def _line(*parts: Any) -> str:
    return " | ".join(map(str, parts)).replace("\n", "\\n")


def in_this_process(task: Task, folder: Path) -> tuple[list[str], dict[str, Any]]:
    """Carry a task out without ROS; returns the decisions and the result."""
    decisions = Decisions()
    context = RunContext(
        model=ExpertModel(),
        world=SymbolicWorld(task),
        budget=decisions.budget,
        working_memory=WorkingMemory(),
        listener=decisions,
    )
    run = Run(task.instruction, context, task_id=task.task_id)
    result = run.run()
    save_run(run, result, folder, task_name=task.task_name)
    return decisions.lines, {"success": result.achieved} | dataclasses.asdict(result)


def saved(folder: Path) -> dict[str, list[str]]:
    """The lines of every agent node's text and of the trajectory of a saved run."""
    files = [folder / "trajectory.jsonl", folder / "tree.dot", *sorted((folder / "agent_nodes").iterdir())]
    return {file.name: file.read_text(encoding="utf-8").splitlines() for file in files}


def test_the_same_tasks_give_the_same_over_ros_as_in_this_process(graph: Graph, wah_nl: Path, tmp_path: Path) -> None:
    file = wah_nl / "tasks.json"
    graph.inference()
    graph.bridge(tasks=str(file))
    graph.planner(save_to=str(tmp_path / "ros"))
    heard = graph.decisions()
    identical, lines = 0, 0
    for task in load_tasks(file)[:TASKS]:
        heard.clear()
        folder = tmp_path / f"{task.task_id}"
        decisions, expected = in_this_process(task, folder)
        result: ExecuteTask.Result = graph.task("", task_id=task.task_id).result
        graph.until(lambda expected=decisions: len(heard) >= len(expected), "every decision was heard")
        over_ros = [
            _line(msg.node_id, msg.subgoal, msg.depth, msg.count, msg.reason or KINDS[msg.kind], msg.text)
            for msg in heard
        ]
        assert over_ros == decisions, task.instruction
        assert {name: getattr(result, name) for name in RESULT} == {name: expected[name] for name in RESULT}
        assert saved(Path(result.saved_to)) == saved(folder), task.instruction
        assert (result.error_code, result.message) == (ExecuteTask.Result.NONE, "")
        identical += 1
        lines += len(decisions)
    assert identical == TASKS
    assert lines > 10 * TASKS, "the tasks ask for something"
