"""Who lives, as far as it is heard."""

from __future__ import annotations

import pytest
from rclpy.node import Node
from reactree_interfaces.msg import Heartbeat as HeartbeatMsg
from ros_graph import Graph

from reactree_ros.nodes import steady
from reactree_ros.nodes.heartbeat import Heartbeat, Lives


def test_nodes_that_beat_at_the_same_moment_are_all_heard(graph: Graph) -> None:
    nodes = [Node(f"node_{number}", context=graph.context) for number in range(12)]  # not spun: they beat when told to
    beats, lives = [Heartbeat(node) for node in nodes], Lives(graph.probe)
    names = {f"/{node.get_name()}" for node in nodes}
    graph.until(lambda: all(lives.life(name) for name in names), "each is heard as soon as it is there")
    lives.beats.clear()
    for heartbeat in beats:
        heartbeat.beat()
    graph.until(lambda: set(lives.beats) == names, "each is heard again")
    for node in nodes:
        node.destroy_node()


def test_of_two_lives_of_one_name_the_later_one_is_the_nodes(graph: Graph) -> None:
    lives = Lives(graph.probe, silence=600.0)
    first, second = (Node("twin", context=graph.context) for _ in range(2))
    one = Heartbeat(first)
    graph.until(lambda: lives.life("/twin") == one._said.life)
    other = Heartbeat(second)
    graph.until(lambda: lives.life("/twin") == other._said.life)
    assert (lives.was_heard("/twin"), lives.was_heard("/nobody"), lives.life("/nobody")) == (True, False, None)
    for node in (first, second):
        node.destroy_node()


def test_the_time_in_which_a_listener_was_busy_is_nobodys_silence(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(steady, "now", lambda: now)
    lives = Lives(graph.probe, silence=1.5)
    lives._hear(HeartbeatMsg(node="/late", life=1))
    for _ in range(3):
        now += 60.0
        assert lives.ended() == []
    for _ in range(4):
        now += 0.1
        ended = lives.ended()
    assert [said.node for said in ended] == ["/late"]
