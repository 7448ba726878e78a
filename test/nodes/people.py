"""People who answer over ROS, and what a run was told by one."""

from __future__ import annotations

from typing import Any

from rclpy.action import ActionServer, CancelResponse
from rclpy.task import Future
from reactree_interfaces.action import AskPerson
from ros_graph import Graph

from reactree_ros.agent.turns import About, Told
from reactree_ros.nodes.people.answer import Answering
from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.person.desk import Desk, Open

PLANNER, BRIDGE = "/reactree_planner", "/household_bridge"


class Answerer:
    """Answers by a desk, as `reactree robot answer` and the page do."""

    def __init__(self, graph: Graph, *askers: str, name: str = "answerer", alone: bool = False) -> None:
        self.graph = graph
        self.node = graph.add_node(name, alone=alone)
        self.desk = Desk()
        self.words: list[str] = []
        self.desk.follow(self.words.append)
        self.answering = Answering(self.node, self.desk)
        self.answering.offer(askers or (PLANNER,))

    def is_asked(self, text: str = "", of: str = "") -> Open:
        def found() -> list[Open]:
            return [one for one in self.desk.open if text in one.question.text and of in one.question.asker]

        self.graph.until(found, f"'{text}' is asked")
        return found()[0]

    def says(self, words: str, *, to: str = "", of: str = "") -> None:
        self.desk.answer(self.is_asked(to, of).number, words, "test")

    def dies(self) -> None:
        """Be gone without a word; one that is alone."""
        for server in self.answering._servers.values():
            server.destroy()
        self.graph.kill(self.node)


class Stubborn:
    """A server of another make: it ignores every cancel, and answers when it is told to, however late."""

    def __init__(self, graph: Graph, asker: str = PLANNER) -> None:
        self.asked: list[AskPerson.Goal] = []
        self._answers: list[Future] = []
        self._node = graph.add_node("stubborn")
        ActionServer(
            self._node,
            AskPerson,
            f"{asker}/ask_person",
            execute_callback=self._execute,
            cancel_callback=lambda goal: CancelResponse.REJECT,
        )

    async def _execute(self, goal_handle: Any) -> AskPerson.Result:
        self.asked.append(goal_handle.request)
        answer = Future(executor=self._node.executor)
        self._answers.append(answer)
        text = await answer
        goal_handle.succeed()
        return AskPerson.Result(text=text)

    def says(self, words: str, *, to: int = -1) -> None:
        self._answers[to].set_result(words)


def words_told(planner: PlannerNode, subgoal: str = "root") -> list[str]:
    assert planner._reporter._shown is not None
    assert planner._reporter._shown.episode is not None
    nodes = planner._reporter._shown.episode.context.nodes
    turns = [turn for node in nodes if node.subgoal == subgoal for turn in node.turns]
    return [turn.text for turn in turns if isinstance(turn, Told) and turn.about is About.PERSON]
