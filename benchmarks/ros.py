"""What ROS adds: time per decision, cancel to stopped, tick jitter. Needs ROS 2 and the built workspace, sourced.

python benchmarks/ros.py [--tasks 10] [--cancels 100]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from py_trees_ros_interfaces.msg import BehaviourTree as Snapshot
from py_trees_ros_interfaces.srv import OpenSnapshotStream
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg

from reactree_ros.agent.decision import Decision
from reactree_ros.episode import Episode
from reactree_ros.llm.expert.model import ExpertModel
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.bridge_node import BridgeNode
from reactree_ros.nodes.inference_node import InferenceNode
from reactree_ros.nodes.spinning import run_node
from reactree_ros.pending import Pending
from reactree_ros.planners.spec import planner
from reactree_ros.tree.context import Listener
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.world.port import Observation, Score, World
from reactree_ros.world.virtualhome.generator import generate_house
from reactree_ros.world.virtualhome.household import WAH_NL
from reactree_ros.world.virtualhome.symbolic import SymbolicWorld
from reactree_ros.world.virtualhome.tasks import parse_tasks

BOUND = 60.0  # longest wait for anything, in seconds
GENERATION = 5.0  # seconds that the slow model takes
TICK_RATE = 50.0


class EndlessWorld(World):
    """Every skill runs until it is cancelled."""

    household = WAH_NL

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.of(Observation("You are in the house."))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.of(("go to kitchen 1",))

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending()

    def score(self) -> Pending[Score | None]:
        return Pending.of(None)


class SayingModel(LanguageModel):
    """Says one thing after a time."""

    def __init__(self, text: str, seconds: float) -> None:
        self._text, self._seconds = text, seconds

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        pending: Pending[Reply] = Pending()
        timer = threading.Timer(self._seconds, lambda: pending.succeed(Reply(self._text)))
        timer.daemon = True
        timer.start()
        return pending


SERVED: dict[str, Callable[[], Any]] = {
    "endless_bridge": lambda: BridgeNode(world=EndlessWorld()),
    "acting_inference": lambda: InferenceNode(model=SayingModel("Act: go to kitchen 1", 0.0)),
    "slow_inference": lambda: InferenceNode(model=SayingModel("Think: hm", GENERATION)),
}


class Bench(Node):
    """Sends goals and listens."""

    def __init__(self) -> None:
        super().__init__("bench")
        self.executor_ = SingleThreadedExecutor()
        self.executor_.add_node(self)
        self.client = ActionClient(self, ExecuteTask, "reactree_planner/execute_task")
        self.stamps: list[int] = []
        self.create_subscription(DecisionMsg, "reactree_planner/decisions", self._decided, 1000)

    def _decided(self, msg: DecisionMsg) -> None:
        self.stamps.append(msg.stamp.sec * 10**9 + msg.stamp.nanosec)

    def until(self, condition: Callable[[], object], seconds: float = BOUND) -> None:
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > seconds:
                raise TimeoutError("waited in vain")
            self.executor_.spin_once(timeout_sec=0.05)

    def answer(self, future: Any, seconds: float = BOUND) -> Any:
        self.until(future.done, seconds)
        return future.result()

    def bring_up(self, *names: str) -> None:
        for name in names:
            client = self.create_client(ChangeState, f"{name}/change_state")
            self.until(client.service_is_ready)
            for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
                request = ChangeState.Request(transition=Transition(id=transition))
                assert self.answer(client.call_async(request)).success
            self.destroy_client(client)
        self.until(self.client.server_is_ready)

    def start(self, **goal: Any) -> Any:
        handle = self.answer(self.client.send_goal_async(ExecuteTask.Goal(**goal)))
        assert handle.accepted
        return handle


@contextmanager
def processes(bench: Bench, *commands: list[str]) -> Iterator[None]:
    bench.until(lambda: not {"inference", "household_bridge", "reactree_planner"} & set(bench.get_node_names()))
    started = [subprocess.Popen(command, start_new_session=True) for command in commands]
    try:
        yield
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGINT)
        for process in started:
            process.wait(timeout=10)


def node(name: str, **parameters: object) -> list[str]:
    given = [part for key, value in parameters.items() for part in ("-p", f"{key}:={value}")]
    return [sys.executable, "-m", f"reactree_ros.nodes.{name}", "--ros-args", *given]


def served(name: str) -> list[str]:
    return [sys.executable, __file__, "--serve", name]


class Stamping(Listener):
    """Notes when decisions are taken."""

    def __init__(self) -> None:
        self.stamps: list[int] = []

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        self.stamps.append(time.time_ns())


def intervals(stamps: Sequence[int]) -> list[float]:
    """Milliseconds between one decision and the next."""
    return [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(stamps)]


def per_decision(bench: Bench, tasks: int) -> None:
    document = [generate_house(seed=seed, rooms=5, tasks=1)[0] | {"task_id": seed} for seed in range(tasks)]
    here: list[float] = []
    for task in parse_tasks(document):
        listener = Stamping()
        Episode(
            task.instruction,
            world=SymbolicWorld(task),
            model=ExpertModel(),
            planner=planner("reactree_wm"),
            listener=listener,
        ).run()
        here += intervals(listener.stamps)
    there: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tasks.json"
        file.write_text(json.dumps(document))
        with processes(bench, node("bridge_node", tasks=file), node("inference_node"), node("planner_node")):
            bench.bring_up("inference", "household_bridge")
            for seed in range(tasks):
                bench.stamps.clear()
                result = bench.answer(bench.start(task_id=seed).get_result_async()).result
                assert result.success, result.message
                bench.until(lambda: len(bench.stamps) >= result.decisions)  # noqa: B023
                there += intervals(bench.stamps)
    print(f"per decision, {len(there)} decisions: in-process median {statistics.median(here):.2f} ms, ", end="")
    print(f"over ROS {statistics.median(there):.2f} ms (p90 {quantile(there, 0.9):.2f}), ", end="")
    print(f"added {statistics.median(there) - statistics.median(here):.2f} ms (target: under 5)")


def cancel_to_stopped(bench: Bench, cancels: int) -> None:
    times = []
    with processes(bench, served("endless_bridge"), served("acting_inference"), node("planner_node")):
        bench.bring_up("inference", "household_bridge")
        for _ in range(cancels):
            bench.stamps.clear()
            handle = bench.start(instruction="go")
            bench.until(lambda: bench.stamps)  # the skill is decided, and on its way or running
            result = handle.get_result_async()
            begin = time.perf_counter()
            bench.answer(handle.cancel_goal_async())
            assert bench.answer(result).status == GoalStatus.STATUS_CANCELED
            times.append((time.perf_counter() - begin) * 1000)
    print(f"cancel to stopped, {cancels} times: median {statistics.median(times):.1f} ms, ", end="")
    print(f"p99 {quantile(times, 0.99):.1f} ms, longest {max(times):.1f} ms (target: p99 under 100)")


def jitter(bench: Bench) -> None:
    stamps: list[int] = []
    with processes(
        bench, served("endless_bridge"), served("slow_inference"), node("planner_node", tick_rate=TICK_RATE)
    ):
        bench.bring_up("inference", "household_bridge")
        opening = bench.create_client(OpenSnapshotStream, "reactree_planner/snapshot_streams/open")
        bench.until(opening.service_is_ready)
        request = OpenSnapshotStream.Request(topic_name="~/every_tick")
        request.parameters.snapshot_period = 0.0
        topic = bench.answer(opening.call_async(request)).topic_name

        def note(msg: Snapshot) -> None:
            stamps.append(msg.statistics.stamp.sec * 10**9 + msg.statistics.stamp.nanosec)

        bench.create_subscription(Snapshot, topic, note, 1000)
        bench.stamps.clear()
        handle = bench.start(instruction="go")
        bench.until(lambda: len(stamps) > GENERATION * 3 * TICK_RATE)
        bench.answer(handle.cancel_goal_async())
    # Around the end of a generation the tree is ticked at once, too; what is looked at is in between.
    regular = [stamp for stamp in sorted(set(stamps)) if all(abs(stamp - other) > 2e8 for other in bench.stamps)]
    period = 1e9 / TICK_RATE
    offsets = [(stamp - regular[0] + period / 2) % period - period / 2 for stamp in regular]
    on_time = quantile(offsets, 0.05)
    late = [max(0.0, offset - on_time) / 1e6 for offset in offsets]
    print(f"tick jitter at {TICK_RATE:g} Hz, {len(late)} ticks, a generation of {GENERATION:g} s in flight: ", end="")
    print(f"median {statistics.median(late):.2f} ms late, p99 {quantile(late, 0.99):.2f} ms (target: under 2)")


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10, help="tasks for the time per decision")
    parser.add_argument("--cancels", type=int, default=100, help="tasks to cancel")
    parser.add_argument("--serve", choices=SERVED, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        run_node(SERVED[options.serve])
        return
    rclpy.init()
    bench = Bench()
    per_decision(bench, options.tasks)
    cancel_to_stopped(bench, options.cancels)
    jitter(bench)
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
