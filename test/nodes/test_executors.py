"""By what nodes are spun, and how they are woken."""

from __future__ import annotations

import importlib.util
import signal
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from processes import Processes

if importlib.util.find_spec("rclpy"):
    from reactree_ros.nodes import executors
    from reactree_ros.nodes.waiting import Wake

if TYPE_CHECKING:
    from ros_graph import Graph

pytestmark = pytest.mark.ros

FALLEN_BACK = """
from reactree_ros.nodes import executors, watchdog
executors.version = lambda package: "7.1.10"
watchdog.main()
"""


@pytest.mark.parametrize(
    ("version", "lacking"),
    [
        ("7.1.11", ""),
        ("9.1.2", ""),
        ("10.0.4", ""),
        ("7.1.10", "the EventsExecutor of rclpy 7.1.10 serves no coroutines; 7.1.11 does"),
        ("9.1.1", "the EventsExecutor of rclpy 9.1.1 serves no coroutines; 9.1.2 does"),
    ],
)
def test_an_events_executor_is_used_that_serves_coroutines(
    version: str, lacking: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "rclpy.experimental.events_executor", object())
    monkeypatch.setattr(executors, "version", lambda package: version)
    assert executors.lacking() == lacking


def test_an_rclpy_without_an_events_executor_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rclpy.experimental", None)
    assert executors.lacking() == "this rclpy has no EventsExecutor"


def test_a_node_that_falls_back_says_so_and_ends_as_others_do(processes: Processes) -> None:
    node = processes.start(sys.executable, "-c", FALLEN_BACK)
    node.wait_for("spun by the SingleThreadedExecutor, by which a decision takes longer: the EventsExecutor of rclpy")
    node.signal(signal.SIGINT)
    assert node.ended_cleanly(0)


def test_what_is_woken_in_other_threads_is_called_once_for_all_of_them(graph: Graph) -> None:
    called: list[int] = []
    wake = Wake(graph.probe, lambda: called.append(threading.get_ident()))
    threads = [threading.Thread(target=wake.trigger) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    graph.until(lambda: called)
    assert called == [threading.get_ident()]
    wake.trigger()
    graph.until(lambda: len(called) == 2)


def test_what_was_closed_is_not_called_any_more(graph: Graph) -> None:
    called: list[str] = []
    closed, other = (Wake(graph.probe, lambda name=name: called.append(name)) for name in ("closed", "other"))
    closed.trigger()
    closed.close()
    other.trigger()
    graph.until(lambda: called)
    assert called == ["other"]
