"""Lets people speak with a robot: what is heard on a topic is an instruction, an answer, or stop."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from functools import partial
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from rclpy.action import ActionClient
from rclpy.node import Node
from rclpy.qos import qos_profile_action_status_default
from rclpy.utilities import remove_ros_args
from reactree_interfaces.action import ExecuteTask
from std_msgs.msg import String

from reactree_ros.agent.skill import skill_of
from reactree_ros.agent.text import in_one_line, shortened_line
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls, settled
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.people.answer import AnswerNode
from reactree_ros.nodes.people.view import PLANNER
from reactree_ros.nodes.robot.goal_templates import is_text, reader
from reactree_ros.nodes.robot.mapped_skill import MappedCall, Order
from reactree_ros.nodes.robot.robot_servers import Servers, Underway
from reactree_ros.nodes.robot.robot_topics import ConfiguredTopic
from reactree_ros.nodes.settings import SILENCE
from reactree_ros.nodes.spinning import run_node
from reactree_ros.person.desk import Desk, Open
from reactree_ros.person.port import Echo, addressed, is_stop, spoken
from reactree_ros.robot.config import HearsEntry, VoiceEntry, load_robot

#: Longest text, in characters; a longer one is cut.
LONGEST_SAID = 1000
#: How many texts wait at most; of more, the oldest is not said.
MOST = 20
#: Time between two looks at what is being said, in seconds.
PERIOD = 0.1
#: What a speech package is asked for.
_SAY = skill_of({"name": "say", "wording": "say {text}", "parameters": {"text": {"text": LONGEST_SAID}}})


class Mouth:
    """Says texts."""

    def __init__(self, node: Node, entry: VoiceEntry, where: str, heartbeat: Heartbeat) -> None:
        self._node, self._log = node, node.get_logger()
        self.echo = Echo()
        self._call = None if entry.says is None else MappedCall(entry.says, f"{where}.says", _SAY)
        self._calls = Calls(node, patience=SILENCE)
        self._servers = Servers(node, self._calls, filter(None, [self._call]), heartbeat, stop_timeout=SILENCE)
        self._waiting: deque[str] = deque(maxlen=MOST)
        self._now = ""  # what is being said
        self._underway: Underway | None = None
        self._until = 0.0
        self._own: deque[str] = deque(maxlen=MOST)  # what comes back from the topic
        self._topic = node.create_publisher(String, entry.speech, MOST)
        node.create_subscription(String, entry.speech, self._others, MOST)
        steady.every(node, PERIOD, self._look)

    @property
    def speaking(self) -> bool:
        return self._underway is not None or bool(self._waiting)

    def say(self, text: str) -> None:
        text = shortened_line(text, LONGEST_SAID)
        self._own.append(text)
        self._topic.publish(String(data=text))
        self._take(text)

    def hush(self) -> None:
        self._waiting.clear()
        if self._underway is not None and self._call is not None:
            self._servers.server_for(self._call).stop(self._underway)

    def close(self) -> None:
        self._servers.close()

    def _others(self, message: String) -> None:
        if message.data in self._own:
            self._own.remove(message.data)
        elif text := shortened_line(message.data, LONGEST_SAID):
            self._take(text)

    def _take(self, text: str) -> None:
        self.echo.record(text)
        if self._call is not None:
            self._waiting.append(text)
            self._begin()

    def _begin(self) -> None:
        if self._underway is not None or not self._waiting or self._call is None:
            return
        self._now = self._waiting.popleft()
        order = self._call.order({"text": self._now})
        self._until = steady.now() + order.limit
        self._underway = sent = self._servers.send(_SAY.name, order)
        sent.result.add_done_callback(lambda _: self._ended(sent, order))

    def _ended(self, sent: Underway, order: Order) -> None:
        if sent is not self._underway:
            return
        why: object = sent.result.exception() if not sent.result.cancelled() else ""
        if not why and not sent.result.cancelled():
            _, why, _ = order.call.verdict(order, *sent.result.take())
        self._over(str(why or ""))

    def _look(self) -> None:
        self._calls.watch()
        self._servers.watch()
        if self._underway is not None and steady.now() > self._until and self._call is not None:
            given_up, self._underway = self._underway, None
            self._servers.server_for(self._call).stop(given_up)
            self._over(f"{given_up.server} took too long")

    def _over(self, why: str) -> None:
        self.echo.record(self._now)
        self._underway = None
        if why:
            self._log.warning(f"'{self._now}' was not said: {why}")
        self._begin()


#: Longest words that are taken in, in characters.
LONGEST = 2000
#: The origin of answers.
BY = "voice"
#: States of a goal that has not ended.
_LIVES = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)


class Ears(ConfiguredTopic):
    """Hears what a speech recogniser publishes."""

    def __init__(self, node: VoiceNode, entry: HearsEntry, where: str) -> None:
        super().__init__(node, entry, where)
        self._final = self._text(entry.field, where)
        self._partial = self._text(entry.partial, where) if entry.partial else lambda _: ""
        self._take = node.hears
        self.subscribe(self._hear, 10)

    def _text(self, path: str, where: str) -> Any:
        read, slot = reader(self._kind, path, where, counted=True)
        if not is_text(slot):
            raise UserError(f"{where}: field '{path}' is not text; name the one with what was said")
        return read

    def _hear(self, message: Any) -> None:
        self._take(spoken(self._final(message) or ""), spoken(self._partial(message) or ""))


class VoiceNode(AnswerNode):
    """Takes what people say to a robot, and says what it has to say; docs/reference/ros.md lists its endpoints.

    ``stop`` stops every task at once, also while the robot speaks, and before a sentence is recognised to its end.
    Other words answer the question that was asked last, else go to the task that runs, else they are an instruction.
    """

    def __init__(self, entry: VoiceEntry, where: str = "voice", planner: str = PLANNER, **kwargs: Any) -> None:
        self._desk = Desk()
        super().__init__(self._desk, planner, say=lambda text: self.get_logger().info(text), name=BY, **kwargs)
        self._desk.follow(self._pass_on)  # nothing waits here
        self._called = entry.called
        self.heartbeat = Heartbeat(self)
        self.mouth = Mouth(self, entry, where, self.heartbeat)
        self._asked: Open | None = None
        self._tasks: frozenset[bytes] = frozenset()
        action = f"{self._planner}/execute_task"
        self._client = ActionClient(self, ExecuteTask, action)
        status = f"{action}/_action/status"
        self.create_subscription(GoalStatusArray, status, self._note, qos_profile_action_status_default)
        self._ears = Ears(self, entry.hears, f"{where}.hears")
        steady.every(self, PERIOD, self._put_questions)

    def begin_stop(self) -> None:
        self.mouth.hush()
        self._desk.leave()

    def stopped(self) -> bool:
        return self.idle

    def destroy_node(self) -> None:
        self._client.destroy()
        self.mouth.close()
        super().destroy_node()

    def hears(self, words: str, so_far: str = "") -> None:
        """Act on what was heard; ``so_far`` is a sentence that has not ended."""
        meant = addressed(words, self._called)
        if any(is_stop(one) for one in (words, so_far, meant or "", addressed(so_far, self._called) or "")):
            self._stop(words or so_far)
            return
        if not words:
            return
        if ignored := self._ignored(words, meant):
            self.get_logger().info(f"{shortened_line(words, 200)!r} is ignored: {ignored}")
            return
        self.get_logger().info(f"heard {in_one_line(words)!r}")
        if self._question is not None:
            self._answer(self._question, words if meant is None else meant)
        elif self._tasks:
            self._pass_on(words if meant is None else meant)
        elif meant:
            self._begin(meant)

    @property
    def _question(self) -> Open | None:
        return None if self._asked is None or self._asked.answer.done() else self._asked

    def _ignored(self, words: str, meant: str | None) -> str:
        if self.mouth.speaking:
            return "the robot is speaking"
        if self.mouth.echo.is_echo(words):
            return "the robot has said it"
        if len(words) > LONGEST:
            return f"it is longer than {LONGEST} characters"
        idle = self._question is None and not self._tasks
        return f"it does not begin with '{self._called}'" if idle and not meant else ""

    # ------------------------------------------------------------------ what words are for

    def _stop(self, words: str) -> None:
        self.get_logger().warning(f"heard {in_one_line(words)!r}: stops")
        self.mouth.hush()
        one = self._question
        self._pass_on("stop") if one is None else self._desk.answer(one.number, "stop", BY)

    def _answer(self, one: Open, words: str) -> None:
        try:
            self._desk.answer(one.number, words, BY)
        except UserError as error:
            self.mouth.say(str(error))

    def _pass_on(self, words: str) -> None:
        told: Pending[None] = Pending()
        told.add_done_callback(lambda _: self._told(told))
        self._send(words, told)

    def _told(self, told: Pending[None]) -> None:
        if not told.cancelled() and (error := told.exception()) is not None:
            self.mouth.say(str(error))

    def _begin(self, instruction: str) -> None:
        if not self._client.server_is_ready():
            self.mouth.say(f"there is no planner {self._planner}")
            return
        sent = self._client.send_goal_async(ExecuteTask.Goal(instruction=instruction))
        sent.add_done_callback(partial(self._taken, instruction))

    def _taken(self, instruction: str, future: Any) -> None:
        answer = settled(future)
        if answer.exception() is not None or not answer.take().accepted:
            self.mouth.say(f"I cannot begin with '{instruction}' now")
            return
        self.mouth.say(f"I begin: {instruction}")
        future.result().get_result_async().add_done_callback(partial(self._ended, instruction))

    def _ended(self, instruction: str, future: Any) -> None:
        answer = settled(future)
        if answer.exception() is None:
            result = answer.take().result
            end = "It is done" if result.success else result.message or "It is not done"
            self.mouth.say(f"{end}: {instruction}")

    # ------------------------------------------------------------------ what goes on

    def _note(self, statuses: GoalStatusArray) -> None:
        living = (one for one in statuses.status_list if one.status in _LIVES)
        self._tasks = frozenset(bytes(one.goal_info.goal_id.uuid) for one in living)

    def _put_questions(self) -> None:
        if self._tasks and not self._client.server_is_ready():
            self._tasks = frozenset()  # the planner has gone, with its tasks
        one = self._desk.next
        if one is not None and one is not self._asked:
            self._asked = one
            self.mouth.say(one.question.text)


def voice_of(robot: str) -> tuple[VoiceEntry, str]:
    if not robot:
        return VoiceEntry(), "voice"
    config = load_robot(robot)
    if config.voice is None:
        raise UserError(f"{robot} has no voice; say under voice what it hears and what it says it by")
    return config.voice, config.at(robot, "voice")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robot-config", default="", help="the robot's file; empty: the topics heard and speech")
    parser.add_argument("--planner-node", default=PLANNER, help="name of the planner node")
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    run_node(lambda: VoiceNode(*voice_of(options.robot_config), options.planner_node))


if __name__ == "__main__":
    main()
