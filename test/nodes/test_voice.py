"""A voice over ROS: what is heard stops tasks, answers questions, goes to the task that runs, or is an instruction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from diagnostic_msgs.msg import KeyValue
from doubles import ScriptedModel
from people import words_told
from rclpy.action import ActionServer, CancelResponse
from rclpy.task import Future
from reactree_interfaces.action import ExecuteTask
from ros_graph import Graph, HeldWorld
from std_msgs.msg import String

from reactree_ros.errors import UserError
from reactree_ros.nodes.people.voice import VoiceNode
from reactree_ros.robot.config import HearsEntry, SaysEntry, VoiceEntry

Result = ExecuteTask.Result


ASKS = {"planner": "reactree:questions=2", "answer_timeout": 600.0}
#: A recogniser that tells what it has so far, and when a sentence has ended.
LIVE = HearsEntry(type="diagnostic_msgs/msg/KeyValue", field="value", partial="key")
SAYS = SaysEntry(action="tts", type="nav2_msgs/action/DummyBehavior", goal={"command.data": "{text}"})
SCRIPT = {"root": ["Act: open fridge 1", "Act: done"], "bring the mug": ["Act: open fridge 1", "Act: done"]}


class Speech:
    """A speech package that speaks until the test lets it end."""

    def __init__(self, graph: Graph) -> None:
        from nav2_msgs.action import DummyBehavior

        self.graph, self.saying = graph, ""
        self._type, self._node, self._end = DummyBehavior, graph.add_node("tts"), Future()
        ActionServer(
            self._node,
            DummyBehavior,
            "tts",
            execute_callback=self._say,
            cancel_callback=lambda _: CancelResponse.ACCEPT,
        )

    async def _say(self, goal: Any) -> Any:
        self.saying, self._end = goal.request.command.data, Future()
        self._goal = goal
        await self._end
        goal.canceled() if goal.is_cancel_requested else goal.succeed()
        self.saying = ""
        return self._type.Result()

    def says(self, text: str) -> None:
        self.graph.until(lambda: text in self.saying, f"'{text}' is said")

    def ends(self, text: str) -> None:
        self.says(text)
        self._end.set_result(None)
        self.graph.until(lambda: text not in self.saying, f"'{text}' was said")

    def is_cancelled(self) -> None:
        self.graph.until(lambda: self._goal.is_cancel_requested, "it is told to be silent")
        self._end.set_result(None)


class Room:
    def __init__(self, graph: Graph, **entry: Any) -> None:
        self.graph, self.entry = graph, VoiceEntry(**entry)
        self.node = graph.add(VoiceNode(self.entry, context=graph.context))
        kind = KeyValue if self.entry.hears.partial else String
        self._mouth = graph.probe.create_publisher(kind, self.entry.hears.topic, 10)
        self.spoken: list[String] = graph.listen(String, self.entry.speech)
        graph.until(self._mouth.get_subscription_count, "the robot hears")
        graph.until(lambda: "/reactree_planner" in self.node._hearers, "the planner can be told something")
        graph.until(self.node._client.server_is_ready, "the planner can be asked for something")

    def heard(self, words: str, so_far: str = "") -> None:
        live = self.entry.hears.partial
        self._mouth.publish(KeyValue(key=so_far, value=words) if live else String(data=words))

    def says(self, text: str) -> None:
        self.graph.until(lambda: any(text in one.data for one in self.spoken), f"'{text}' is said")

    def is_asked(self, text: str) -> None:
        self.says(text)
        self.graph.until(lambda: not self.node.mouth.speaking, "it was said")


def test_what_is_heard_is_an_instruction_and_its_end_is_said(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({}, model=ScriptedModel(SCRIPT), world=world)
    room = Room(graph)
    room.heard("bring the mug")
    room.says("I begin: bring the mug")
    graph.until(lambda: world.held, "the skill begins")
    world.finish()
    room.says("It is done: bring the mug")


def test_stop_works_at_once_and_in_the_midst_of_a_sentence(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({}, model=ScriptedModel(SCRIPT), world=world)
    room = Room(graph, hears=LIVE)
    goal = graph.task()
    graph.until(lambda: world.held, "the skill begins")
    room.heard("", so_far="robot stop")
    assert goal.result.error_code == Result.CANCELED
    assert world.cancelled == {"open fridge 1": 1}


def test_a_question_is_said_and_answered(graph: Graph) -> None:
    planner = graph.household({"root": ["Ask: Which apple?", "Act: done"]}, **ASKS)
    room = Room(graph)
    goal = graph.task()
    room.is_asked("Which apple?")
    room.heard("the red one")
    assert goal.result.success
    assert words_told(planner) == ['The person answers: "the red one".']


@pytest.mark.parametrize("answer", ["yes", "stop"])
def test_a_skill_to_confirm_is_done_after_a_yes_alone(graph: Graph, tmp_path: Path, answer: str) -> None:
    (tmp_path / "policy.yaml").write_text("rules: [{skill: open, object: fridge, verdict: confirm}]")
    world = HeldWorld()
    graph.inference(ScriptedModel(SCRIPT))
    graph.bridge(world, policy=str(tmp_path / "policy.yaml"), confirm_timeout=600.0)
    graph.planner()
    room = Room(graph)
    goal = graph.task()
    room.is_asked("open fridge 1")
    room.heard(answer)
    if answer == "yes":
        graph.until(lambda: world.held, "the skill begins")
        world.finish()
    result = goal.result
    assert bool(world.executed) is result.success is (answer == "yes")


def test_words_during_a_task_go_to_it(graph: Graph) -> None:
    world = HeldWorld()
    planner = graph.household({}, model=ScriptedModel(SCRIPT), world=world)
    room = Room(graph)
    goal = graph.task()
    graph.until(lambda: world.held, "the skill begins")
    graph.until(lambda: room.node._tasks, "the task is known to run")
    room.heard("mind the cat")
    graph.until(lambda: planner._queue.running.steering._running().context.words, "the planner hears")
    world.finish()
    assert goal.result.success
    assert words_told(planner) == ['The person says: "mind the cat".']


def test_only_what_begins_with_its_name_is_an_instruction(graph: Graph) -> None:
    world = HeldWorld()
    graph.household({}, model=ScriptedModel(SCRIPT), world=world)
    room = Room(graph, called="Max")
    room.heard("bring the mug")  # somebody else is meant
    room.heard("Hey Max, bring the mug")
    room.says("I begin: bring the mug")
    graph.until(lambda: world.held, "the skill begins")
    room.heard("Max stop")
    room.says("bring the mug")
    graph.until(lambda: world.cancelled, "the skill is stopped")
    assert sum("I begin" in one.data for one in room.spoken) == 1


def test_the_robot_does_not_answer_itself_and_hears_stop_while_it_speaks(graph: Graph) -> None:
    pytest.importorskip("nav2_msgs")
    ask = ["Ask: Which apple?", "Act: done"]
    planner = graph.household({"root": ask, "once more": ask}, **ASKS)
    speech = Speech(graph)
    room = Room(graph, says=SAYS)
    goal = graph.task()
    speech.says("Which apple?")
    room.heard("the green one")  # it still speaks: whoever that was has not heard the question
    speech.ends("Which apple?")
    graph.until(lambda: not room.node.mouth.speaking, "it is silent")
    room.heard("which apple")  # its echo
    room.heard("the red one")
    assert goal.result.success
    assert words_told(planner) == ['The person answers: "the red one".']
    goal = graph.task("once more")
    speech.says("Which apple?")
    room.heard("no stop!")
    speech.is_cancelled()
    assert goal.result.error_code == Result.CANCELED


def test_what_others_publish_is_said_one_after_the_other(graph: Graph) -> None:
    pytest.importorskip("nav2_msgs")
    graph.household({})
    speech = Speech(graph)
    room = Room(graph, says=SAYS)
    other = graph.probe.create_publisher(String, "speech", 10)
    graph.until(other.get_subscription_count, "somebody listens")
    for text in ("first", "second"):
        other.publish(String(data=text))
    speech.ends("first")
    speech.ends("second")
    graph.until(lambda: not room.node.mouth.speaking, "it is silent")


def test_where_no_planner_is_there_it_says_so(graph: Graph) -> None:
    node = graph.add(VoiceNode(VoiceEntry(), context=graph.context))
    spoken = graph.listen(String, "speech")
    node.hears("bring the mug")
    graph.until(lambda: spoken, "it says something")
    assert "no planner /reactree_planner" in spoken[0].data


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ({"hears": {"type": "std_msgs/msg/Nothing"}}, "std_msgs/msg/Nothing"),
        ({"hears": {"field": "words"}}, "field 'words'"),
        ({"hears": {"type": "std_msgs/msg/Bool"}}, "field 'data' is not text"),
        ({"says": {"publish": "tts", "type": "std_msgs/msg/String", "goal": {"text": "{text}"}}}, "text"),
        ({"says": {"publish": "tts", "type": "std_msgs/msg/String", "goal": {"data": "{words}"}}}, "words"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(graph: Graph, entry: dict[str, Any], wrong: str) -> None:
    with pytest.raises(UserError) as refused:
        VoiceNode(VoiceEntry.model_validate(entry), "robot.yaml:12: voice", context=graph.context)
    assert str(refused.value).startswith("robot.yaml:12: voice")
    assert wrong in str(refused.value)
