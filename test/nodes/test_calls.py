"""Which servers of a node with a heartbeat live, where the middleware lists killed ones for a while yet."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rcl_interfaces.srv import GetParameters
from ros_graph import Graph
from std_srvs.srv import Trigger

from reactree_ros.nodes import calls
from reactree_ros.nodes.calls import LISTED_FOR, SPEAKS_ON, TAKES_OFF, Calls, Introduction


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds


class Service:
    """A service of a node as a planner sees it: how many servers are listed, and which life speaks."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._count = 0
        self._listed: Any = calls._Listed("/inference", lambda: self._count)

    def seen(self, count: int, life: int | None, *, after: float = 0.1) -> int:
        """Take in what is to be seen some seconds later; returns how many live."""
        self._clock.seconds += after
        self._count = count
        self._listed.look(life)
        return int(self._listed.living)


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Service:
    clock = Clock()
    monkeypatch.setattr(calls, "steady", clock)
    return Service(clock)


def restarted(service: Service) -> None:
    """Kill a node and start it again; the middleware then takes the killed one off, and seems to lose both."""
    assert service.seen(1, 1) == 1
    assert service.seen(1, None, after=1.5) == 0, "it is listed, but dead"
    assert service.seen(1, 2) == 0, "another life speaks before it serves"
    assert service.seen(2, 2) == 1
    assert service.seen(0, 2, after=8.0) == 0, "for a moment neither is there"
    assert service.seen(1, 2) == 1


def test_a_second_death_is_seen_as_the_first(service: Service) -> None:
    restarted(service)
    assert service.seen(1, None, after=60.0) == 0
    assert service.seen(1, 3) == 0, "what is sent now would go to the dead one alone"
    assert service.seen(2, 3) == 1


def test_a_node_that_was_not_heard_because_the_network_was_gone_is_asked_at_once(service: Service) -> None:
    assert service.seen(1, 1) == 1
    assert service.seen(1, None, after=1.5) == 0
    assert service.seen(1, 1, after=3.5) == 1


def test_a_node_that_ends_in_order_is_no_dead_one_when_another_is_there(service: Service) -> None:
    assert service.seen(1, 1) == 1
    assert service.seen(0, 1) == 0
    assert service.seen(0, 1, after=TAKES_OFF + 0.1) == 0
    assert service.seen(0, None, after=1.5) == 0
    assert service.seen(1, 2) == 1


def test_one_that_is_there_as_soon_as_a_killed_one_is_taken_off_is_asked_at_once(service: Service) -> None:
    assert service.seen(1, 1) == 1
    assert service.seen(0, None) == 0
    assert service.seen(1, None) == 1
    assert service.seen(1, 2) == 1


def test_a_service_that_is_taken_off_while_its_node_lives_on_says_nothing_of_a_later_death(service: Service) -> None:
    assert service.seen(2, 1) == 2
    assert service.seen(1, 1) == 1
    assert service.seen(1, None, after=SPEAKS_ON) == 0


def test_a_killed_server_is_counted_as_dead_for_a_while_only(service: Service) -> None:
    assert service.seen(1, 1) == 1
    assert service.seen(1, 2) == 0
    assert service.seen(1, 2, after=LISTED_FOR) == 1


def test_who_introduces_itself_asks_again_where_an_answer_was_lost(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def lossy(client: Any, request: Any, answered: Any, ask: Any = calls.ask) -> Any:
        asked.append(request)
        return ask(client, request, answered if len(asked) > 2 else lambda _: None)

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
    """A node that is called, and the kinds of the requests to it, of which the first answers get lost."""

    def __init__(self, graph: Graph, monkeypatch: pytest.MonkeyPatch, **node: Any) -> None:
        self.kinds: list[type] = []
        self.lost = 0
        self.life = 1
        monkeypatch.setattr(calls, "ask", self._lossy(calls.ask))
        monkeypatch.setattr(calls, "ASKED_AGAIN", 0.05)
        monkeypatch.setattr(calls, "LISTED_FOR", 0.0)
        lives: Any = SimpleNamespace(
            life=lambda node: self.life,
            living=lambda node="": [SimpleNamespace(life=self.life)],
            ended=list,
            was_heard=lambda node: True,
        )
        server = graph.add_node("server", **node)
        server.create_service(Trigger, "~/check", lambda request, response: response)
        self._graph, self._calls = graph, Calls(graph.probe, patience=3600.0, lives=lives)
        graph.probe.create_timer(0.02, self._calls.watch)
        self._client = graph.probe.create_client(Trigger, "server/check")

    def _lossy(self, ask: Any) -> Any:
        def lossy(client: Any, request: Any, answered: Any) -> Any:
            self.kinds.append(type(request))
            lost = len(self.kinds) <= self.lost
            return ask(client, request, (lambda _: None) if lost else answered)

        return lossy

    def call(self) -> None:
        pending = self._calls.call(self._client, Trigger.Request(), of="/server")
        self._graph.until(pending.done, "it is answered")
        pending.take()


def test_each_life_of_a_node_is_called_only_when_it_knows_who_calls(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(graph, monkeypatch)
    asked.lost = 2
    asked.call()
    introduced, called = GetParameters.Request, Trigger.Request
    assert asked.kinds == [introduced] * 3 + [called]
    asked.call()
    assert asked.kinds[4:] == [called], "it knows it"
    asked.life, asked.lost = 2, 6
    asked.call()
    assert asked.kinds[5:] == [introduced] * 2 + [called]


def test_a_node_without_a_service_for_introductions_is_called_all_the_same(
    graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "INTRODUCED_FOR", 0.1)
    asked = Asked(graph, monkeypatch, start_parameter_services=False)
    asked.call()
    assert asked.kinds == [Trigger.Request]
