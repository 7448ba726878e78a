"""What the robot says: on a topic, and by a speech package, one thing after the other."""

from __future__ import annotations

from collections import deque

from rclpy.node import Node
from std_msgs.msg import String

from reactree_ros.agent.skill import skill_of
from reactree_ros.agent.text import shortened_line
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.robot.mapped_skill import MappedCall, Order
from reactree_ros.nodes.robot.robot_goals import Underway
from reactree_ros.nodes.robot.robot_servers import Servers
from reactree_ros.nodes.settings import SILENCE
from reactree_ros.person.port import Echo
from reactree_ros.robot.config import VoiceEntry

#: Longest text, in characters; a longer one is cut.
LONGEST = 1000
#: How many texts wait at most; of more, the oldest is not said.
MOST = 20
#: Time between two looks at what is being said, in seconds.
PERIOD = 0.1
#: What a speech package is asked for.
_SAY = skill_of({"name": "say", "wording": "say {text}", "parameters": {"text": {"text": LONGEST}}})


class Mouth:
    """Says texts.

    Raises:
        UserError: The speech package's type is not there, or a field does not fit it.

    Attributes:
        echo: Knows what was said.
    """

    def __init__(self, node: Node, entry: VoiceEntry, where: str, heartbeat: Heartbeat) -> None:
        self._node, self._log = node, node.get_logger()
        self.echo = Echo()
        self._call = None if entry.says is None else MappedCall(entry.says, f"{where}.says", _SAY)
        self._calls = Calls(node, patience=SILENCE)
        self._servers = Servers(node, self._calls, filter(None, [self._call]), heartbeat)
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
        """Whether something is being said, as far as a speech package tells."""
        return self._underway is not None or bool(self._waiting)

    def say(self, text: str) -> None:
        """Say a text after those that wait."""
        text = shortened_line(text, LONGEST)
        self._own.append(text)
        self._topic.publish(String(data=text))
        self._take(text)

    def hush(self) -> None:
        """Break off what is being said, and forget what waits."""
        self._waiting.clear()
        if self._underway is not None and self._call is not None:
            self._servers.of(self._call).stop(self._underway)

    def close(self) -> None:
        self._servers.close()

    def _others(self, message: String) -> None:
        if message.data in self._own:
            self._own.remove(message.data)
        elif text := shortened_line(message.data, LONGEST):
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
        self._servers.watch(SILENCE)
        if self._underway is not None and steady.now() > self._until and self._call is not None:
            given_up, self._underway = self._underway, None
            self._servers.of(self._call).stop(given_up)
            self._over(f"{given_up.server} took too long")

    def _over(self, why: str) -> None:
        self.echo.record(self._now)
        self._underway = None
        if why:
            self._log.warning(f"'{self._now}' was not said: {why}")
        self._begin()
