"""By what nodes are spun, and how they are woken."""

from __future__ import annotations

import gc
import signal
import sys
import threading

import pytest
from processes import Processes
from rclpy.task import Task
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import RecordPart
from ros_graph import Graph, HeldWorld
from std_msgs.msg import Bool

from reactree_ros.background.pending import Pending
from reactree_ros.nodes import executors, steady
from reactree_ros.nodes.planner.task import QOS, RecordTopic
from reactree_ros.nodes.waiting import Wake, settled

FALLEN_BACK = """
from reactree_ros.nodes import executors, watchdog
executors.version = lambda package: "7.1.10"
watchdog.main()
"""


CALLBACKS = 100, 600


COUNTED = f"""
import gc, itertools, sys
from reactree_ros.nodes import executors, spinning, steady, watchdog
executors.version = lambda package: sys.argv[1]
called, objects = itertools.count(), []

def count():
    if next(called) in {CALLBACKS}:
        gc.collect()
        objects.append(len(gc.get_objects()))
    if objects[1:]:
        print(f"kept {{objects[-1] - objects[0]}} objects")

def counted():
    node = watchdog.Watchdog()
    steady.every(node, 0.001, count)
    return node

spinning.run_node(counted)
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
    pytest.importorskip("rclpy.experimental")
    monkeypatch.setattr(executors, "version", lambda package: version)
    assert executors.lacking() == lacking


def test_a_node_that_falls_back_says_so_and_ends_as_others_do(processes: Processes) -> None:
    node = processes.start(sys.executable, "-c", FALLEN_BACK)
    node.wait_for("spun by the SingleThreadedExecutor, by which a decision takes longer: the EventsExecutor of rclpy")
    node.signal(signal.SIGINT)
    assert node.ended_cleanly(0)


@pytest.mark.parametrize("version", ["7.1.10", "7.1.11"])
def test_nothing_is_kept_of_a_callback_by_any_executor(processes: Processes, version: str) -> None:
    node = processes.start(sys.executable, "-c", COUNTED, version)
    node.wait_for("\nkept ")
    kept = int(node.output.partition("\nkept ")[2].split()[0])
    assert kept < (CALLBACKS[1] - CALLBACKS[0]) / 10
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


@pytest.mark.parametrize("whole_node", [True, False])
def test_a_timer_that_is_due_once_more_after_its_end_calls_nothing(graph: Graph, whole_node: bool) -> None:
    called: list[str] = []
    node = graph.add_node("short_lived", alone=True)
    timer = steady.every(node, 60.0, lambda: called.append("due"))
    timer.callback()
    assert called == ["due"]
    if whole_node:
        graph.kill(node)
    else:
        node.destroy_timer(timer)
    timer.callback()
    assert called == ["due"]


def test_who_wants_to_know_when_a_message_was_sent_is_told_by_every_executor(graph: Graph) -> None:
    heard: list[tuple[bool, int]] = []
    hear = executors.WithInfo(lambda msg, info: heard.append((msg.data, info["source_timestamp"])))
    graph.probe.create_subscription(Bool, "stop", hear, 1)
    publisher = graph.probe.create_publisher(Bool, "stop", 1)
    graph.until(publisher.get_subscription_count)
    publisher.publish(Bool(data=True))
    graph.until(lambda: heard)
    assert heard[0][0] is True
    assert heard[0][1] > 0


def test_no_task_is_kept_of_what_was_awaited(graph: Graph) -> None:
    world = HeldWorld()
    graph.bridge(world)

    def carry_out(skills: int) -> int:
        for _ in range(skills):
            goal = graph.skill("go to kitchen 1")
            graph.until(lambda: world.held, "the skill is carried out")
            world.finish()
            assert goal.result.outcome == ExecuteSkill.Result.DONE
        gc.collect()
        return sum(isinstance(one, Task) for one in gc.get_objects())

    before = carry_out(2)
    assert carry_out(20) < before + 10


def test_what_a_coroutine_raises_after_it_has_waited_ends_the_spin(graph: Graph) -> None:
    pending: Pending[None] = Pending()

    async def fail() -> None:
        await settled(graph.probe, pending)
        raise RuntimeError("a fault of the test")

    graph.until(lambda: graph.probe.executor)
    graph.probe.executor.create_task(fail())
    graph.step()
    pending.succeed(None)
    with pytest.raises(RuntimeError, match="a fault of the test"):
        graph.until(lambda: False)


def test_a_record_that_nobody_hears_is_told_from_its_beginning_to_who_comes(graph: Graph) -> None:
    topic, heard = RecordTopic(graph.probe), list[RecordPart]()
    write = topic.begin(RecordPart().goal_id)
    write({"e": "run", "id": "a" * 32}, b"first")
    topic.publish()
    graph.probe.create_subscription(RecordPart, "probe/record", heard.append, QOS)
    graph.until(lambda: graph.probe.count_subscribers("probe/record"), "somebody hears")
    write({"e": "interrupted"}, b"second")

    def publish() -> bool:
        topic.publish()
        return bool(heard)

    graph.until(publish, "the record is told")
    assert [(part.begin, part.data) for part in heard] == [(0, "first\nsecond\n")]
    write({"e": "end"}, b"third")
    topic.publish(unheard=True)
    graph.until(lambda: heard[1:], "the rest is told")
    assert (heard[1].begin, heard[1].data) == (len("first\nsecond\n"), "third\n")
