"""Cost of ROS: time per decision, cancel to stopped, tick jitter, idle nodes. Needs ROS 2 and the built workspace.

python benchmarks/ros.py [--tasks 10] [--cancels 100] [--rounds 3] [--against FOLDER]

The reference is a bare action and a bare service of rclpy between two processes, measured in the same run. FOLDER holds
another ``reactree_ros`` (a checkout or an installation) with the same interfaces. Its nodes are measured alternately
with these, and the ratio is printed.
"""

from __future__ import annotations

import argparse
import cmath
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
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import rclpy
from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.action import ActionClient, ActionServer
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg
from std_srvs.srv import Trigger

import reactree_ros
from reactree_ros.agent.decision import Decision
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.generator import generate_house
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.bridge_node import BridgeNode
from reactree_ros.nodes.inference_node import InferenceNode
from reactree_ros.nodes.spinning import run_node
from reactree_ros.planners.spec import planner
from reactree_ros.tree.context import Listener
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.world.port import Observation, Score, World

BOUND = 60.0  # longest wait for anything, in seconds
GENERATION = 5.0  # seconds of a generation of the slow model
TICK_RATE = 50.0
IDLE = 5.0  # seconds of watching idle nodes
BARE = 200  # number of bare service calls and bare action goals


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
    """Gives one answer after a delay."""

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


def bare() -> None:
    """Serve an action and a service that do nothing, with bare rclpy."""
    rclpy.init(args=[])
    node = Node("bare")

    def execute(goal_handle: Any) -> ExecuteSkill.Result:
        goal_handle.succeed()
        return ExecuteSkill.Result()

    ActionServer(node, ExecuteSkill, "bare_action", execute, result_timeout=1)
    node.create_service(Trigger, "bare_service", lambda request, response: response)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        rclpy.spin(node)


class Bench(Node):
    """Sends goals and listens.

    Args:
        name: Its name.
        executor: Spins it; with few cores, its work is missing for the nodes.
    """

    def __init__(self, name: str, executor: Any) -> None:
        super().__init__(name)
        self.executor_ = executor
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


def taking(folder: str) -> dict[str, Any]:
    """Return how to start a process with the package of a folder, or with this package if empty.

    ``python -m`` looks into its working directory before everything else.
    """
    where = folder or str(Path(reactree_ros.__file__).parents[1])
    path = os.pathsep.join(filter(None, (where, os.environ.get("PYTHONPATH", ""))))
    return {"cwd": where, "env": {**os.environ, "PYTHONPATH": path}}


@contextmanager
def processes(bench: Bench, folder: str, *commands: list[str]) -> Iterator[list[int]]:
    """Run commands with the package of a folder, or the installed one if empty; yield their process ids."""
    bench.until(lambda: not {"inference", "household_bridge", "reactree_planner"} & set(bench.get_node_names()))
    started = [subprocess.Popen(command, start_new_session=True, **taking(folder)) for command in commands]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGINT)
        for process in started:
            process.wait(timeout=10)


def node(name: str, **parameters: object) -> list[str]:
    given = [part for key, value in parameters.items() for part in ("-p", f"{key}:={value}")]
    return [sys.executable, "-m", f"reactree_ros.nodes.{name}", "--ros-args", *given]


def served(name: str) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--serve", name]


class Stamping(Listener):
    """Records the times of decisions."""

    def __init__(self) -> None:
        self.stamps: list[int] = []

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        self.stamps.append(time.time_ns())


def intervals(stamps: Sequence[int]) -> list[float]:
    """Milliseconds between one decision and the next."""
    return [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(stamps)]


def bare_reference(bench: Bench) -> None:
    """Print the time of a call and of a goal between two otherwise idle processes."""
    with processes(bench, "", served("bare")):
        call = bench.create_client(Trigger, "bare_service")
        action = ActionClient(bench, ExecuteSkill, "bare_action")
        bench.until(lambda: call.service_is_ready() and action.server_is_ready())
        calls, goals = [], []
        for _ in range(BARE):
            begin = time.perf_counter()
            bench.answer(call.call_async(Trigger.Request()))
            calls.append((time.perf_counter() - begin) * 1000)
            handle = bench.answer(action.send_goal_async(ExecuteSkill.Goal(skill="nothing")))
            bench.answer(handle.get_result_async())
            goals.append((time.perf_counter() - begin) * 1000 - calls[-1])
        bench.destroy_client(call)
        action.destroy()
    print(f"bare rclpy between two processes: service {statistics.median(calls):.2f} ms, ", end="")
    print(f"action {statistics.median(goals):.2f} ms (medians)")


def houses(tasks: int) -> list[dict[str, Any]]:
    return [generate_house(seed=seed, rooms=5, tasks=1)[0] | {"task_id": seed} for seed in range(tasks)]


def in_process(tasks: int) -> list[float]:
    """Return the times between decisions without ROS."""
    times: list[float] = []
    for task in parse_tasks(houses(tasks)):
        listener = Stamping()
        Episode(
            task.instruction,
            world=SymbolicWorld(task),
            model=ExpertModel(),
            planner=planner("reactree_wm"),
            listener=listener,
        ).run()
        times += intervals(listener.stamps)
    return times


def over_ros(bench: Bench, tasks: int, folder: str) -> tuple[list[float], dict[str, float]]:
    """Return the times between decisions over ROS, and each idle node's share of a core before."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "tasks.json"
        file.write_text(json.dumps(houses(tasks)))
        nodes = ("inference_node", "bridge_node", "planner_node")
        commands = [node(name, **({"tasks": file} if name == "bridge_node" else {})) for name in nodes]
        with processes(bench, folder, *commands) as pids:
            bench.bring_up("inference", "household_bridge")
            idle = dict(zip(nodes, shares(bench, pids), strict=True))
            for seed in range(tasks):
                bench.stamps.clear()
                result = bench.answer(bench.start(task_id=seed).get_result_async()).result
                assert result.success, result.message
                bench.until(lambda: len(bench.stamps) >= result.decisions)  # noqa: B023
                times += intervals(bench.stamps)
    return times, idle


def shares(bench: Bench, pids: Sequence[int]) -> list[float]:
    """Return the processes' shares of a core while they are idle."""
    begin, took = time.monotonic(), [seconds_of(pid) for pid in pids]
    bench.until(lambda: time.monotonic() - begin > IDLE)
    passed = time.monotonic() - begin
    return [(seconds_of(pid) - before) / passed for pid, before in zip(pids, took, strict=True)]


def seconds_of(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def per_decision(bench: Bench, tasks: int, rounds: int, folders: Sequence[str]) -> None:
    here: list[float] = []
    there: dict[str, list[float]] = {folder: [] for folder in folders}
    idle: dict[str, list[dict[str, float]]] = {folder: [] for folder in folders}
    for _ in range(rounds):  # in turn, so that other load of the machine affects all of them
        here += in_process(tasks)
        for folder in folders:
            times, shares_of_nodes = over_ros(bench, tasks, folder)
            there[folder] += times
            idle[folder].append(shares_of_nodes)
    added = {folder: statistics.median(times) - statistics.median(here) for folder, times in there.items()}
    for folder, times in there.items():
        print(
            f"{of(folder)}per decision, {len(times)} decisions: in-process {statistics.median(here):.2f} ms, ", end=""
        )
        print(f"over ROS {statistics.median(times):.2f} ms (p90 {quantile(times, 0.9):.2f}), ", end="")
        print(f"added {added[folder]:.2f} ms (medians; target: at most 2.5)")
        for name in idle[folder][0]:
            share = statistics.median(one[name] for one in idle[folder])
            print(f"{of(folder)}idle {name}: {share:.1%} of a core (target: at most 1 %)")
    for folder in folders[1:]:
        print(
            f"added per decision, these over those of {folder}: {added[''] / added[folder]:.2f} (target: at most 0.35)"
        )


def of(folder: str) -> str:
    return f"{folder}: " if folder else ""


def cancel_to_stopped(bench: Bench, cancels: int, folder: str) -> None:
    times = []
    with processes(bench, folder, served("endless_bridge"), served("acting_inference"), node("planner_node")):
        bench.bring_up("inference", "household_bridge")
        for _ in range(cancels):
            bench.stamps.clear()
            handle = bench.start(instruction="go")
            bench.until(lambda: bench.stamps)  # the skill is decided, and sent or running
            result = handle.get_result_async()
            begin = time.perf_counter()
            bench.answer(handle.cancel_goal_async())
            assert bench.answer(result).status == GoalStatus.STATUS_CANCELED
            times.append((time.perf_counter() - begin) * 1000)
    print(f"{of(folder)}cancel to stopped, {cancels} times: median {statistics.median(times):.1f} ms, ", end="")
    print(f"p99 {quantile(times, 0.99):.1f} ms, longest {max(times):.1f} ms (target: p99 under 20)")


def jitter(bench: Bench, folder: str) -> None:
    from py_trees_ros_interfaces.msg import BehaviourTree as Snapshot  # the steps need no py_trees_ros
    from py_trees_ros_interfaces.srv import OpenSnapshotStream

    stamps: list[int] = []
    commands = [served("endless_bridge"), served("slow_inference"), node("planner_node", tick_rate=TICK_RATE)]
    with processes(bench, folder, *commands):
        bench.bring_up("inference", "household_bridge")
        opening = bench.create_client(OpenSnapshotStream, "reactree_planner/snapshot_streams/open")
        bench.until(opening.service_is_ready)
        request = OpenSnapshotStream.Request(topic_name="~/every_tick")
        request.parameters.snapshot_period = 0.0
        topic = bench.answer(opening.call_async(request)).topic_name

        def note(msg: Snapshot) -> None:
            stamps.append(msg.statistics.stamp.sec * 10**9 + msg.statistics.stamp.nanosec)

        watching = bench.create_subscription(Snapshot, topic, note, 1000)
        bench.stamps.clear()
        handle = bench.start(instruction="go")
        bench.until(lambda: len(stamps) > GENERATION * 3 * TICK_RATE)
        bench.answer(handle.cancel_goal_async())
        bench.destroy_subscription(watching)
        bench.destroy_client(opening)
    # Ticks also follow at once around the end of a generation; only those in between count.
    regular = [stamp for stamp in sorted(set(stamps)) if all(abs(stamp - other) > 2e8 for other in bench.stamps)]
    late = lateness(regular, 1e9 / TICK_RATE)
    print(f"{of(folder)}tick jitter at {TICK_RATE:g} Hz, {len(late)} ticks, ", end="")
    print(f"a generation of {GENERATION:g} s in flight: median {statistics.median(late):.2f} ms late, ", end="")
    print(f"p99 {quantile(late, 0.99):.2f} ms (target: under 2)")


def lateness(stamps: Sequence[int], period: float) -> list[float]:
    """Return by how many milliseconds each stamp is late, relative to the period of all of them."""
    turns = [cmath.rect(1.0, (stamp % period) / period * cmath.tau) for stamp in stamps]
    phase = cmath.phase(sum(turns)) / cmath.tau * period  # period of all stamps: a single one may be late
    offsets = [(stamp - phase + period / 4) % period - period / 4 for stamp in stamps]  # late rather than early
    on_time = quantile(offsets, 0.05)
    return [max(0.0, offset - on_time) / 1e6 for offset in offsets]


def quantile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10, help="tasks for the time per decision")
    parser.add_argument("--cancels", type=int, default=100, help="tasks to cancel")
    parser.add_argument("--rounds", type=int, default=3, help="how often to repeat the tasks")
    parser.add_argument("--against", default="", metavar="FOLDER", help="folder of another reactree_ros")
    parser.add_argument("--serve", choices=[*SERVED, "bare"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve == "bare":
        bare()
        return
    if options.serve:
        run_node(SERVED[options.serve])
        return
    from reactree_ros.nodes.executors import make_executor  # an earlier version that serves has none

    rclpy.init()
    plain = Bench("bare_bench", SingleThreadedExecutor())  # bare rclpy, as most use it
    bare_reference(plain)
    plain.destroy_node()
    bench = Bench("bench", make_executor())
    folders = ["", str(Path(options.against).resolve())] if options.against else [""]
    per_decision(bench, options.tasks, options.rounds, folders)
    for folder in folders:
        cancel_to_stopped(bench, options.cancels, folder)
        jitter(bench, folder)
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
