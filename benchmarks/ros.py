"""Cost of ROS: time per decision, cancel to stopped, tick jitter, idle nodes. Needs ROS 2 and the built workspace.

python benchmarks/ros.py [--tasks 10] [--cancels 100] [--rounds 3] [--against FOLDER]
python benchmarks/ros.py --steps [--tasks 2] [--rounds 3]     # needs no py_trees_ros

The references are bare programs of rclpy that do the same exchange in the same run: an action and a service between two
processes, a cancel that passes through three, and a timer that ticks beside the planner. FOLDER holds another
``reactree_ros`` (a checkout or an installation) with the same interfaces. Its nodes are measured alternately with
these, and the ratio is printed.

``--steps`` prints where the time of a decision goes, from the planner's request to an inference node that answers at
once to the wake-up of the tree. The requests are those of real runs, in their order. Bare programs take turns with it:
a client and a service with messages that were made before. The first one sends the same messages, the second one empty
ones, and the last one has both ends in one process.
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
from typing import Any, NamedTuple

import rclpy
import ros_exchange
from action_msgs.msg import GoalStatus
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.action import ActionClient, ActionServer, CancelResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg
from reactree_interfaces.srv import Generate
from std_msgs.msg import Header
from std_srvs.srv import Trigger

import reactree_ros
from reactree_lab.household.generator import generate_house
from reactree_ros.agent.decision import Decision
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.bridge.bridge_node import BridgeNode
from reactree_ros.nodes.calls import Calls, SentGoal
from reactree_ros.nodes.executors import make_executor
from reactree_ros.nodes.inference import inference_node
from reactree_ros.nodes.inference.inference_node import InferenceNode
from reactree_ros.nodes.planner import adapters
from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import Wake
from reactree_ros.planners.spec import planner
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.listener import Listener
from reactree_ros.world.port import Observation, Score, World

BOUND = 60.0  # longest wait for anything, in seconds
GENERATION = 5.0  # seconds of a generation of the slow model
TICK_RATE = 50.0
IDLE = 5.0  # seconds of watching idle nodes
BARE = 200  # number of bare service calls and bare action goals
ANSWER = "Think: I look for it first."
#: Of a decision over ROS, in order.
STEPS = (
    *("to a message", "to send", "on its way", "to read", "to decide", "to a message", "on its way", "to read"),
    "to wake the tree",
)


class EndlessWorld(World):
    """Every skill runs until it is cancelled."""

    household = WAH_NL

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(Observation("You are in the house."))

    def available_skills(self) -> Pending[Sequence[str]]:
        return Pending.ready(("go to kitchen 1",))

    def execute(self, skill: str) -> Pending[Observation]:
        return Pending()

    def score(self) -> Pending[Score | None]:
        return Pending.ready(None)


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


class Noting(LanguageModel):
    """Answers at once, and notes when it is asked."""

    asked = 0

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        self.asked = time.monotonic_ns()
        return Pending.ready(Reply(ANSWER, prompt_tokens=3000, cached_tokens=2900, output_tokens=9))


class StampingInference(InferenceNode):
    """Says in ``answered_by`` when it got a request, asked the model, began the answer, and ended."""

    def __init__(self) -> None:
        self._noting, self._answering = Noting(), 0
        super().__init__(model=self._noting)
        to_msg = inference_node.reply_to_msg

        def stamped(*given: Any) -> Any:
            self._answering = time.monotonic_ns()
            return to_msg(*given)

        inference_node.reply_to_msg = stamped

    async def _answer(self, msg: Any, response: Any) -> Any:
        came = time.monotonic_ns()
        answer = await super()._answer(msg, response)
        answer.answered_by = f"{came} {self._noting.asked} {self._answering} {time.monotonic_ns()}"
        return answer


SERVED: dict[str, Callable[[], Any]] = {
    "endless_bridge": lambda: BridgeNode(world=EndlessWorld()),
    "acting_inference": lambda: InferenceNode(model=SayingModel("Act: go to kitchen 1", 0.0)),
    "slow_inference": lambda: InferenceNode(model=SayingModel("Think: hm", GENERATION)),
    "stamping_inference": StampingInference,
}


def offer_generate(node: Node, name: str) -> None:
    """Offer a service of bare rclpy whose answer was made before."""
    made = Generate.Response(text=ANSWER, prompt_tokens=3000, cached_tokens=2900, output_tokens=9)
    node.create_service(Generate, name, lambda request, response: made)


def bare() -> None:
    """Serve with bare rclpy: an action and services that do nothing, a goal that ends when canceled, and ticks."""
    node = Node("bare")
    group, canceled = ReentrantCallbackGroup(), [Future()]

    def execute(goal_handle: Any) -> ExecuteSkill.Result:
        goal_handle.succeed()
        return ExecuteSkill.Result()

    async def endless(goal_handle: Any) -> ExecuteSkill.Result:
        await canceled[0]
        canceled[0] = Future()
        goal_handle.canceled()
        return ExecuteSkill.Result()

    def cancel(goal_handle: Any) -> CancelResponse:
        canceled[0].set_result(None)
        return CancelResponse.ACCEPT

    ActionServer(node, ExecuteSkill, "bare_action", execute, result_timeout=1)
    more = {"cancel_callback": cancel, "callback_group": group, "result_timeout": 1}
    ActionServer(node, ExecuteSkill, "bare_endless", endless, **more)
    node.create_service(Trigger, "bare_service", lambda request, response: response)
    offer_generate(node, "bare_generate")
    ticks = node.create_publisher(DecisionMsg, "bare_ticks", 1000)

    def tick() -> None:
        ticks.publish(DecisionMsg(header=Header(stamp=node.get_clock().now().to_msg())))

    node.create_timer(1 / TICK_RATE, tick)
    spin(node)


def bare_task() -> None:
    """Serve with bare rclpy: an action that hands its goal on, and its cancel, as the planner does."""
    node, group = Node("bare_task"), ReentrantCallbackGroup()
    client, inner = ActionClient(node, ExecuteSkill, "bare_endless", callback_group=group), []

    async def execute(goal_handle: Any) -> ExecuteTask.Result:
        inner[:] = [await client.send_goal_async(ExecuteSkill.Goal())]
        goal_handle.publish_feedback(ExecuteTask.Feedback())
        await inner[0].get_result_async()
        goal_handle.canceled()
        return ExecuteTask.Result()

    def cancel(goal_handle: Any) -> CancelResponse:
        inner[0].cancel_goal_async()
        return CancelResponse.ACCEPT

    ActionServer(node, ExecuteTask, "bare_task", execute, cancel_callback=cancel, callback_group=group)
    spin(node)


BARE_ONES = {"bare": bare, "bare_task": bare_task}
#: The three programs that exchange again what was kept.
AGAIN = (ros_exchange.INFERENCE, ros_exchange.BRIDGE, ros_exchange.PLANNER)
#: The nodes that have to be configured and activated, in this order.
MANAGED = AGAIN


def keep_exchange(file: Path) -> None:
    """Be a planner node whose exchange is kept."""
    keeping = ros_exchange.Keeping()
    keeping.begin(SentGoal)
    run_node(PlannerNode)
    keeping.save(file)


def spin(node: Node) -> None:
    """Spin by the fastest executor, as our nodes are."""
    executor = make_executor()
    executor.add_node(node)
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        while rclpy.ok():
            executor.spin_once(timeout_sec=0.1)


def nanoseconds(stamp: Any) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


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
        self.stamps.append(nanoseconds(msg.header.stamp))

    def until(self, condition: Callable[[], object], seconds: float = BOUND) -> None:
        begin = time.monotonic()
        while not condition():
            if time.monotonic() - begin > seconds:
                raise TimeoutError("waited in vain")
            self.executor_.spin_once(timeout_sec=0.05)

    def answer(self, future: Any, seconds: float = BOUND) -> Any:
        self.until(future.done, seconds)
        return future.result()

    def bring_up(self, *names: str, goals: bool = True) -> None:
        for name in names:
            client = self.create_client(ChangeState, f"{name}/change_state")
            self.until(client.service_is_ready)
            for transition in (Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE):
                request = ChangeState.Request(transition=Transition(id=transition))
                assert self.answer(client.call_async(request)).success
            self.destroy_client(client)
        self.until(lambda: not goals or self.client.server_is_ready())

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
    """Run commands with the package of a folder, or the installed one if empty; yield their process ids.

    A process that is interrupted leaves the graph before it ends. One that has to be killed would stay in it for 18 s
    (Fast DDS) and mislead the next ones: then the benchmark ends.
    """
    started = [subprocess.Popen(command, start_new_session=True, **taking(folder)) for command in commands]
    try:
        yield [process.pid for process in started]
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGINT)
        try:
            for process in started:
                process.wait(timeout=BOUND)
        finally:
            for process in started:
                process.kill()


#: Starts a script of the nodes of any version.
START = "import sys; sys.argv[0] = sys.argv.pop(1); from reactree_ros.nodes.start import main; main()"


def node(name: str, **parameters: object) -> list[str]:
    given = [part for key, value in parameters.items() for part in ("-p", f"{key}:={value}")]
    return [sys.executable, "-c", START, name, "--ros-args", *given]


def served(name: str, *given: object) -> list[str]:
    return [sys.executable, str(Path(__file__).resolve()), "--serve", name, *map(str, given)]


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


def in_process(tasks: int) -> Over:
    """Carry tasks out without ROS."""
    times: list[float] = []
    began = time.process_time()
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
    return Over(times, {}, {"all": (time.process_time() - began) * 1000 / (len(times) + tasks)})


class Over(NamedTuple):
    """What was measured of some tasks over ROS.

    Attributes:
        times: Between decisions, in milliseconds.
        idle: Of each node its share of a core while it is idle.
        work: Of each node its milliseconds of processor time a decision, which other load hardly changes.
    """

    times: list[float]
    idle: dict[str, float]
    work: dict[str, float]


def over_ros(bench: Bench, tasks: int, folder: str, keep: Path | None = None) -> Over:
    """Carry tasks out over ROS; ``keep`` is a file for what the planner exchanges."""
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "tasks.json"
        file.write_text(json.dumps(houses(tasks)))
        commands = {
            "inference_node": node("inference_node"),
            "bridge_node": node("bridge_node", tasks=file),
            "planner_node": node("planner_node") if keep is None else served("planner", "--file", keep),
        }
        return carried_out(bench, tasks, folder, commands)


def exchanged_again(bench: Bench, tasks: int, file: Path, *, plain: bool) -> Over:
    """Have bare programs exchange what was kept."""
    more = ("--plain",) if plain else ()
    commands = {name: served(name, "--file", file, *more) for name in AGAIN}
    return carried_out(bench, tasks, "", commands, managed=())


def carried_out(
    bench: Bench,
    tasks: int,
    folder: str,
    commands: dict[str, list[str]],
    managed: Sequence[str] = MANAGED,
) -> Over:
    """Measure tasks that are carried out by some processes, of which some have to be configured and activated."""
    times: list[float] = []
    decisions = 0
    with processes(bench, folder, *commands.values()) as pids:
        bench.bring_up(*managed)
        idle = dict(zip(commands, shares(bench, pids), strict=True))
        before = [seconds_of(pid) for pid in pids]
        for seed in range(tasks):
            if seed == 1:  # in the first one they load what they need
                before, decisions = [seconds_of(pid) for pid in pids], 0
            bench.stamps.clear()
            result = bench.answer(bench.start(task_id=seed).get_result_async()).result
            assert result.success, result.message
            bench.until(lambda: len(bench.stamps) >= result.decisions)  # noqa: B023
            times += intervals(bench.stamps)
            decisions += result.decisions
        took = [seconds_of(pid) - earlier for pid, earlier in zip(pids, before, strict=True)]
    work = {name: seconds * 1000 / decisions for name, seconds in zip(commands, took, strict=True)}
    return Over(times, idle, work)


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


def composed(bench: Bench, tasks: int) -> Over:
    """Carry tasks out by nodes of one process."""
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "tasks.json"
        file.write_text(json.dumps(houses(tasks)))
        given = ("inference_node", "bridge_node", "--ros-args", "-p", f"household_bridge:tasks:={file}")
        return carried_out(bench, tasks, "", {"composed": [sys.executable, "-c", START, "composed", *given]})


def per_decision(bench: Bench, tasks: int, rounds: int, folders: Sequence[str]) -> None:
    """Print what a decision takes: here, over ROS, in one process, and in bare programs with the same messages."""
    here: list[Over] = []
    found: dict[str, list[Over]] = {folder: [] for folder in folders}
    in_one: list[Over] = []
    bare_ones: dict[str, list[Over]] = {"our executor": [], "rclpy's SingleThreadedExecutor": []}
    with tempfile.TemporaryDirectory() as kept:
        file = Path(kept) / "exchange"
        over_ros(bench, tasks, "", file)
        for _ in range(rounds):  # in turn, so that other load of the machine affects all of them
            here.append(in_process(tasks))
            for folder in folders:
                found[folder].append(over_ros(bench, tasks, folder))
            in_one.append(composed(bench, tasks))
            for name, overs in bare_ones.items():
                overs.append(exchanged_again(bench, tasks, file, plain="rclpy" in name))
    alone = show("in-process", here)
    added = {folder: show(f"{prefix(folder)}over ROS", overs, alone) for folder, overs in found.items()}
    show("in one process, by composed", in_one, alone)
    for folder, overs in found.items():
        for name in overs[0].idle:
            share = statistics.median(one.idle[name] for one in overs)
            print(f"{prefix(folder)}idle {name}: {share:.1%} of a core (target: at most 1 %)")
    for name, overs in bare_ones.items():
        ratios = compared(added[""], show(f"the same exchange by bare rclpy, {name}", overs))
        print(f"    ours over it: {ratios} (targets: 1.5, 1.5, 2)")
    for folder in folders[1:]:
        print(f"these over those of {folder}: {compared(added[''], added[folder])}")


def compared(ours: Sequence[float], theirs: Sequence[float]) -> str:
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return f"medians {ratios[0]:.2f}, means {ratios[1]:.2f}, processor time {ratios[2]:.2f}"


def show(what: str, overs: Sequence[Over], alone: Sequence[float] = (0.0, 0.0, 0.0)) -> Sequence[float]:
    """Print a decision's times and processor time; return what they add to those ``alone``: median, mean, processor."""
    times = [one for over in overs for one in over.times]
    work = {name: statistics.median(over.work[name] for over in overs) for name in overs[0].work}
    all_of_it = statistics.median(times), statistics.fmean(times), sum(work.values())
    added = tuple(one - other for one, other in zip(all_of_it, alone, strict=True))
    print(f"{what}, {len(times)} decisions: median {all_of_it[0]:.2f} ms (p90 {quantile(times, 0.9):.2f}), ", end="")
    print(f"mean {all_of_it[1]:.2f}; processor time {all_of_it[2]:.2f} ms: ", end="")
    print(", ".join(f"{name} {milliseconds:.2f}" for name, milliseconds in work.items()))
    if any(alone):
        print(f"    added: median {added[0]:.2f} ms, mean {added[1]:.2f}; processor time {added[2]:.2f}")
    return added


def prefix(folder: str) -> str:
    return f"{folder}: " if folder else ""


def bare_cancel(bench: Bench, cancels: int) -> None:
    """Print the time from cancel to stopped of bare actions: through two processes, as with planner and bridge."""
    times = []
    with processes(bench, "", served("bare"), served("bare_task")):
        client = ActionClient(bench, ExecuteTask, "bare_task")
        bench.until(client.server_is_ready)
        for _ in range(cancels):
            runs: list[Any] = []
            handle = bench.answer(client.send_goal_async(ExecuteTask.Goal(), feedback_callback=runs.append))
            bench.until(lambda: runs)  # noqa: B023
            times.append(canceled(bench, handle))
        client.destroy()
    print(f"bare cancel to stopped, {cancels} times: {spread(times)}")


def canceled(bench: Bench, handle: Any) -> float:
    """Cancel a goal; returns how many milliseconds it takes to end."""
    result = handle.get_result_async()
    begin = time.perf_counter()
    bench.answer(handle.cancel_goal_async())
    assert bench.answer(result).status == GoalStatus.STATUS_CANCELED
    return (time.perf_counter() - begin) * 1000


def spread(times: Sequence[float]) -> str:
    return f"median {statistics.median(times):.1f} ms, p99 {quantile(times, 0.99):.1f} ms, longest {max(times):.1f} ms"


def cancel_to_stopped(bench: Bench, cancels: int, folder: str) -> None:
    times = []
    with processes(bench, folder, served("endless_bridge"), served("acting_inference"), node("planner_node")):
        bench.bring_up(*MANAGED)
        for _ in range(cancels):
            bench.stamps.clear()
            handle = bench.start(instruction="go")
            bench.until(lambda: bench.stamps)  # the skill is decided, and sent or running
            times.append(canceled(bench, handle))
    print(f"{prefix(folder)}cancel to stopped, {cancels} times: {spread(times)} (target: p99 under 20)")


def jitter(bench: Bench, folder: str) -> None:
    from py_trees_ros_interfaces.msg import BehaviourTree as Snapshot  # the steps need no py_trees_ros
    from py_trees_ros_interfaces.srv import OpenSnapshotStream

    stamps: list[int] = []
    bare_stamps: list[int] = []
    commands = [served("endless_bridge"), served("slow_inference"), node("planner_node", tick_rate=TICK_RATE)]
    commands.append(served("bare"))
    with processes(bench, folder, *commands):
        bench.bring_up(*MANAGED)
        opening = bench.create_client(OpenSnapshotStream, "reactree_planner/snapshot_streams/open")
        bench.until(opening.service_is_ready)
        request = OpenSnapshotStream.Request(topic_name="~/every_tick")
        request.parameters.snapshot_period = 0.0
        topic = bench.answer(opening.call_async(request)).topic_name

        def note(msg: Snapshot) -> None:
            stamps.append(nanoseconds(msg.statistics.stamp))

        watching = bench.create_subscription(Snapshot, topic, note, 1000)
        beside = bench.create_subscription(
            DecisionMsg, "bare_ticks", lambda msg: bare_stamps.append(nanoseconds(msg.header.stamp)), 1000
        )
        bench.stamps.clear()
        handle = bench.start(instruction="go")
        bench.until(lambda: len(stamps) > GENERATION * 3 * TICK_RATE)
        bench.answer(handle.cancel_goal_async())
        bench.destroy_subscription(watching)
        bench.destroy_subscription(beside)
        bench.destroy_client(opening)
    # Ticks also follow at once around the end of a generation; only those in between count.
    regular = [stamp for stamp in sorted(set(stamps)) if all(abs(stamp - other) > 2e8 for other in bench.stamps)]
    late = lateness(bare_stamps, 1e9 / TICK_RATE)
    print(f"bare timer beside it, {len(late)} ticks: median {statistics.median(late):.2f} ms late, ", end="")
    print(f"p99 {quantile(late, 0.99):.2f} ms")
    late = lateness(regular, 1e9 / TICK_RATE)
    print(f"{prefix(folder)}tick jitter at {TICK_RATE:g} Hz, {len(late)} ticks, ", end="")
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


def recorded_requests(tasks: int) -> list[DecisionRequest]:
    """Return the requests of real runs; each prompt is as it was when it was sent."""
    asked: list[DecisionRequest] = []

    class Recording(ExpertModel):
        def decide(self, request: DecisionRequest) -> Pending[Reply]:
            asked.append(request)
            return super().decide(request)

    for task in parse_tasks(houses(tasks)):
        Episode(task.instruction, world=SymbolicWorld(task), model=Recording(), planner=planner("reactree_wm")).run()
    return asked


class Stamps:
    """Notes when the steps of the planner's side begin and end.

    Attributes:
        times: Begin and end of each step, in nanoseconds.
        msg: The message that was sent last.
        there: What the node noted.
    """

    def __init__(self, model: adapters.RosLanguageModel) -> None:
        self.times: dict[str, tuple[int, int]] = {}
        self.msg: Any = None
        self.there: list[int] = []
        for of, name in ((model._generate, "call_async"), (model, "_take_reply")):
            setattr(of, name, self._around(name, getattr(of, name)))

    def _around(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stamped(msg: Any) -> Any:
            begin = time.monotonic_ns()
            given = call(msg)
            self.times[name] = begin, time.monotonic_ns()
            if name == "call_async":
                self.msg = msg
            else:
                self.there = list(map(int, msg.answered_by.split()))
            return given

        return stamped


def decision(bench: Bench, model: adapters.RosLanguageModel, stamps: Stamps, request: DecisionRequest) -> list[float]:
    """Return the milliseconds of each step of a decision."""
    woken: list[int] = []
    wake = Wake(bench, lambda: woken.append(time.monotonic_ns()))
    begin = time.monotonic_ns()
    reply = model.decide(request)
    reply.add_done_callback(lambda _: wake.trigger())
    bench.until(lambda: woken)
    assert reply.take().text == ANSWER
    at = [begin, *stamps.times["call_async"], *stamps.there, *stamps.times["_take_reply"], woken[0]]
    return [(later - earlier) / 1e6 for earlier, later in itertools.pairwise(at)]


def steps(bench: Bench, tasks: int, rounds: int) -> None:
    """Print the steps of a decision, and the bare exchanges that took turns with it."""
    asked = recorded_requests(tasks)
    calls = Calls(bench, patience=BOUND)
    bench.create_timer(0.1, calls.watch)
    model = adapters.RosLanguageModel(bench, "inference", calls)
    stamps, taken = Stamps(model), []
    offer_generate(bench, "own_generate")
    bare_client, own = (bench.create_client(Generate, f"{name}_generate") for name in ("bare", "own"))
    bare_times: dict[str, list[float]] = {}

    def exchange(name: str, msg: Any, client: Any = bare_client) -> None:
        begin = time.perf_counter()
        bench.answer(client.call_async(msg))
        bare_times.setdefault(name, []).append((time.perf_counter() - begin) * 1000)

    with processes(bench, "", served("stamping_inference"), served("bare")):
        bench.bring_up("inference", goals=False)
        bench.until(lambda: bare_client.service_is_ready() and own.service_is_ready())
        for request in (one for _ in range(rounds) for one in asked):
            taken.append(decision(bench, model, stamps, request))
            exchange("the same messages", stamps.msg)
            exchange("empty messages", Generate.Request())
            exchange("the same messages in one process", stamps.msg, own)
    turns = statistics.median(len(request.turns) for request in asked)
    print(f"{len(taken)} decisions, {turns:.0f} turns in a prompt, medians in ms:")
    for name, times in zip(STEPS, zip(*taken, strict=True), strict=True):
        print(f"{name:>33} {statistics.median(times):8.3f}")
    whole = [sum(one) for one in taken]
    print(f"{'all':>33} {statistics.median(whole):8.3f}")
    for name, times in bare_times.items():
        ratio = statistics.median(ours / bare for ours, bare in zip(whole, times, strict=True))
        print(f"{f'bare, {name}':>33} {statistics.median(times):8.3f}   ours over it {ratio:.2f}")


def loaded() -> str:
    return f"load of the machine: {Path('/proc/loadavg').read_text().strip()}"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10, help="tasks for the time per decision")
    parser.add_argument("--cancels", type=int, default=100, help="tasks to cancel")
    parser.add_argument("--rounds", type=int, default=3, help="how often to repeat the tasks")
    parser.add_argument("--against", default="", metavar="FOLDER", help="folder of another reactree_ros")
    parser.add_argument("--steps", action="store_true", help="only the steps of a decision")
    parser.add_argument("--serve", choices=[*SERVED, *BARE_ONES, *AGAIN, "planner"], help=argparse.SUPPRESS)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve in BARE_ONES:
        rclpy.init(args=[])
        BARE_ONES[options.serve]()
        return
    if options.serve == "planner":
        keep_exchange(options.file)
        return
    if options.serve in AGAIN:
        rclpy.init(args=[])
        executor = ros_exchange.plain() if options.plain else make_executor()
        ros_exchange.exchange_again(options.serve, options.file, executor)
        return
    if options.serve:
        run_node(SERVED[options.serve])
        return
    rclpy.init()
    print(loaded())
    if options.steps:
        bench = Bench("bench", make_executor())
        print(f"spun by {type(bench.executor_).__name__}")
        steps(bench, options.tasks, options.rounds)
        print(loaded())
        rclpy.try_shutdown()
        return
    plain = Bench("bare_bench", SingleThreadedExecutor())  # bare rclpy, as most use it
    bare_reference(plain)
    plain.destroy_node()
    bench = Bench("bench", make_executor())
    folders = ["", str(Path(options.against).resolve())] if options.against else [""]
    per_decision(bench, options.tasks, options.rounds, folders)
    bare_cancel(bench, options.cancels)
    for folder in folders:
        cancel_to_stopped(bench, options.cancels, folder)
        jitter(bench, folder)
    print(loaded())
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
