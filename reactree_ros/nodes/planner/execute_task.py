"""Sends one instruction to the planner, prints its decisions and its result, and ends with 0 or 1."""

from __future__ import annotations

import argparse
import sys
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from reactree_interfaces.action import ExecuteTask
from unique_identifier_msgs.msg import UUID

from reactree_ros.llm.port import requests_in_words
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Introduction, SentGoal
from reactree_ros.nodes.spinning import LAST_WORDS, Spinner, interruptible
from reactree_ros.record.verdict import Judgement, Verdict, cost_words, score_words

REACHED, NOT_REACHED, NO_PLANNER, INTERRUPTED = 0, 1, 2, 130


class TaskClient(Node):
    """Sends one goal to the planner's ``execute_task`` action."""

    def __init__(self, planner: str, goal: ExecuteTask.Goal, **kwargs: Any) -> None:
        super().__init__("execute_task", **kwargs)
        self._rejected = False
        self._feedbacks = 0
        self._result: ExecuteTask.Result | None = None
        self._missing_until = 0.0
        self._id = UUID(uuid=list(uuid.uuid4().bytes))
        name = f"{planner}/execute_task"
        self._client = ActionClient(self, ExecuteTask, name)
        self._sent = SentGoal(self._client, name, goal, rejected="the planner rejected the goal: busy or inactive")
        self._sent.end.add_done_callback(self._ended)
        # Not by the client, which takes no feedback in after the result.
        self.create_subscription(ExecuteTask.Impl.FeedbackMessage, f"{name}/_action/feedback", self._hear, 10)
        self._introduction = Introduction(self, planner)

    def planner_is_there(self) -> bool:
        return self._client.server_is_ready() and self._introduction.done()

    def ended(self) -> bool:
        if self._result is None:
            return self._rejected
        return self._feedbacks >= self._result.feedbacks or steady.now() > self._missing_until

    def send(self) -> None:
        self._sent.send(self._id)

    def cancel(self) -> None:
        self._sent.cancel()

    def _hear(self, told: Any) -> None:
        if bytes(told.goal_id.uuid) == bytes(self._id.uuid):
            self._feedbacks += 1
            for line in told.feedback.told:
                _say(line)

    def _ended(self, end: Future[ExecuteTask.Result]) -> None:
        if (error := end.exception()) is not None:
            _say(error)
            self._rejected = True
            return
        self._result = end.result()
        self._missing_until = steady.now() + LAST_WORDS

    def conclude(self) -> int:
        if (result := self._result) is None:
            return NOT_REACHED
        _say(verdict_from(result))
        _say(
            f"{result.decisions} decisions, {result.steps} steps, {result.agent_nodes} agent nodes, "
            f"{f'{result.questions} questions, ' if result.questions else ''}"
            f"depth {result.max_depth}, {result.seconds:.2f} s"
        )
        if in_vain := requests_in_words(result):
            _say(in_vain)
        if result.error_code:
            _say(f"error {result.error_code}")
        return REACHED if result.success else NOT_REACHED


def verdict_from(result: ExecuteTask.Result) -> Verdict:
    score = score_words({"gsr": result.gsr, "ssr": result.ssr, "goal": result.goal}) if result.gsr >= 0 else ""
    counts = result.branches, result.branches_done, tuple(result.untouched)
    cost = cost_words({"cost": result.cost, "cost_uncached": result.cost_uncached}) if result.cost >= 0 else ""
    return Verdict(Judgement[result.verdict.upper()], result.message, result.end, score, *counts, cost)


def _say(text: object) -> None:
    print(text, flush=True)  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instruction", help="what to do; empty: the task's instruction")
    parser.add_argument("--task-id", type=int, default=-1, help="reset the bridge's world to this task first")
    parser.add_argument("--planner-node", default="reactree_planner", help="name of the planner node")
    parser.add_argument("--planner", default="", help="name of a planner, e.g. reactree")
    parser.add_argument("--seed", type=int, default=0, help="seed of the language model")
    parser.add_argument("--timeout", type=float, default=30.0, help="longest wait for the planner node, in seconds")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    goal = ExecuteTask.Goal(
        instruction=options.instruction, task_id=options.task_id, planner=options.planner, seed=options.seed
    )
    sys.exit(carry_out(options.planner_node, goal, options.timeout))


def resuming(record: Path, limits: Mapping[str, int]) -> ExecuteTask.Goal:
    return ExecuteTask.Goal(resume=str(record), **limits)


def carry_out(planner: str, goal: ExecuteTask.Goal, timeout: float, *, args: Sequence[str] | None = None) -> int:
    with interruptible(args) as asked:
        node = TaskClient(planner, goal)
        with Spinner(node, asked) as spinner:
            if not spinner.spin_until(node.planner_is_there, seconds=timeout) and not asked:
                _say(f"error: no planner offers {planner}/execute_task within {timeout:g} s; a launch brings one up")
                return NO_PLANNER
            if asked:
                return INTERRUPTED
            node.send()
            if spinner.spin_until(node.ended):
                return node.conclude()
            asked.clear()  # a second Ctrl-C ends the wait for the cancel
            node.cancel()
            spinner.spin_until(node.ended, seconds=LAST_WORDS)
            node.conclude()
            return INTERRUPTED


if __name__ == "__main__":
    main()
