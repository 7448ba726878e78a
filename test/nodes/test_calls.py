"""When a node is called: each life of it only if it knows who calls, and has all its services."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rclpy.node import Node
from reactree_interfaces.msg import Heartbeat as HeartbeatMsg
from ros_graph import Graph
from std_srvs.srv import Trigger

from reactree_ros.nodes import calls, steady
from reactree_ros.nodes.calls import Calls, Introduction
from reactree_ros.nodes.heartbeat import Heartbeat, Lives


def test_who_introduces_itself_asks_again_where_an_answer_was_lost(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def lossy(client: Any, request: Any, answered: Any, *how: Any, ask: Any = calls.ask) -> Any:
        asked.append(request)
        return ask(client, request, answered if len(asked) > 2 else lambda _: None, *how)

    monkeypatch.setattr(calls, "ask", lossy)
    monkeypatch.setattr(calls, "ASKED_AGAIN", 0.05)
    introduction = Introduction(graph.probe, "late")
    assert not introduction.done(), "it is not there"
    node = graph.add_node("late", alone=True)
    graph.halt(node)
    graph.until(lambda: introduction.done() or len(asked) > 1)
    assert not introduction.done(), "it is there, and does not answer"
    graph.resume(node)
    graph.until(introduction.done)
    assert len(asked) > 2


class Asked:
    """A node that is called, and the names of the services that it is asked on; the first answers get lost."""

    def __init__(self, graph: Graph, monkeypatch: pytest.MonkeyPatch, life: int | None, *services: str) -> None:
        self.names: list[str] = []
        self.lost = 0
        self.life = life
        monkeypatch.setattr(calls, "ask", self._lossy(calls.ask))
        monkeypatch.setattr(calls, "ASKED_AGAIN", 0.05)
        lives: Any = SimpleNamespace(
            silence=1.5,
            life=lambda node: self.life,
            living=lambda node="": [SimpleNamespace(life=self.life)],
            ended=list,
            was_heard=lambda node: self.life is not None,
        )
        self.server = graph.add_node("server")
        for service in services:
            self.offer(service)
        self._graph, self._calls = graph, Calls(graph.probe, patience=3600.0, lives=lives)
        graph.probe.create_timer(0.02, self._calls.watch)
        self._client = graph.probe.create_client(Trigger, "server/work")

    def offer(self, service: str) -> None:
        self.server.create_service(Trigger, f"~/{service}", lambda request, response: response)

    def _lossy(self, ask: Any) -> Any:
        def lossy(client: Any, request: Any, answered: Any, *how: Any) -> Any:
            self.names.append(client.srv_name.rpartition("/")[2])
            lost = len(self.names) <= self.lost
            return ask(client, request, (lambda _: None) if lost else answered, *how)

        return lossy

    def begin(self) -> Any:
        return self._calls.call(self._client, Trigger.Request(), of="/server")

    def call(self) -> None:
        pending = self.begin()
        self._graph.until(pending.done, "it is answered")
        pending.take()


def test_each_life_of_a_node_is_called_only_when_it_knows_who_calls(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(graph, monkeypatch, 1, "work", "check")
    asked.lost = 2
    asked.call()
    assert asked.names == ["check"] * 3 + ["work"]
    asked.call()
    assert asked.names[4:] == ["work"], "it knows it"
    asked.life, asked.lost = 2, 6
    asked.call()
    assert asked.names[5:] == ["check"] * 2 + ["work"]


def test_a_node_that_lives_is_not_called_before_it_has_all_its_services(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "INTRODUCED_FOR", 0.0)
    asked = Asked(graph, monkeypatch, 1, "work")
    pending = asked.begin()
    for _ in range(100):
        graph.step()
    assert (asked.names, pending.done()) == ([], False), "the service may be that of a dead node which is listed yet"
    asked.offer("check")
    graph.until(pending.done, "it is answered")
    assert asked.names == ["check", "work"]


def test_a_node_without_a_heartbeat_nor_a_service_for_introductions_is_called_all_the_same(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "INTRODUCED_FOR", 0.1)
    asked = Asked(graph, monkeypatch, None, "work")
    asked.call()
    assert asked.names == ["work"]


# ---------------------------------------------------------------------- who lives


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
