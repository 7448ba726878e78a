"""Goals in a row with random faults, on a simulated robot: what moves, how each goal ends, and what the nodes hold.

python benchmarks/chaos.py [--goals 100] [--seed 0] [--minutes 30]

Needs ROS 2 with nav2_msgs and the built workspace, sourced. Each goal meets one fault at a random moment: a node or the
robot's servers are killed and started again, the emergency stop is pressed and released, the goal is canceled, or
/clock stands still. It ends with 1 where the base moved for longer after a stop, a cancel, an end or a kill than it
may, or where a goal did not end, or ended without a reason.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rclpy
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from reactree_interfaces.action import ExecuteTask
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool
from tf2_msgs.msg import TFMessage

from reactree_ros.nodes.heartbeat import Lives

ROOT = Path(__file__).parents[1]
TEST = ROOT / "test" / "nodes"
sys.path.insert(0, str(TEST))

from processes import Process, Processes  # noqa: E402

INSTRUCTIONS = (
    "Turn on the table lamp",
    "Put 1 pudding on the coffee table",
    "Put 1 apple on the coffee table",
    "Put 1 cup on the kitchen table",
)
NODES = {"robot_bridge": "robot_bridge_node", "planner": "planner_node", "inference": "inference_node"}
NAMES = {"planner": "reactree_planner"}
FAULTS = ("nothing", "stop", "cancel", "clock", *(f"kill {name}" for name in (*NODES, "watchdog", "robot")))
#: Longest time from a fault to the base's standstill, in seconds: what is silent is noticed after 1.5 s.
STILL_WITHIN = defaultdict(lambda: 1.0, {"kill robot_bridge": 3.0, "kill planner": 3.0})
#: Longest wait for a goal to end, or for a node to be there, in seconds.
BOUND = 90.0
#: A base that moved less than this between two transforms stands, in metres.
STANDS = 0.001
#: Metres per second of the simulated base.
SPEED = "5.0"
#: How long the base is watched after the end of a goal, in seconds.
WATCH = 0.6


class Base:
    """Where the simulated base is, by tf; tells when it moved last."""

    def __init__(self, node: Node) -> None:
        self.moved_at = float("-inf")
        self.metres = 0.0
        self._at: tuple[float, float] | None = None
        node.create_subscription(TFMessage, "/tf", self._hear, 100)

    def replaced(self) -> None:
        """The robot was started anew, somewhere else."""
        self._at = None

    def _hear(self, msg: TFMessage) -> None:
        for transform in msg.transforms:
            if transform.child_frame_id == "base_link":
                at = (transform.transform.translation.x, transform.transform.translation.y)
                step = 0.0 if self._at is None else abs(at[0] - self._at[0]) + abs(at[1] - self._at[1])
                if step > STANDS:
                    self.moved_at = time.monotonic()
                    self.metres += step
                self._at = at


class Chaos:
    """The robot, the nodes, and what is done to them.

    Args:
        domain: ROS domain.
        seed: Of everything that is random.
    """

    def __init__(self, domain: int, seed: int) -> None:
        self._random = random.Random(seed)
        rclpy.init(domain_id=domain)
        self._node = Node("chaos")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._button = self._node.create_publisher(Bool, "/emergency_stop", latched)
        self._button.publish(Bool(data=False))
        self._clock = self._node.create_publisher(Clock, "/clock", 10)
        self._ticking, self._ticked_at = True, 0.0
        self._lives = Lives(self._node)
        self._base = Base(self._node)
        self._client = ActionClient(self._node, ExecuteTask, "reactree_planner/execute_task")
        self._clients: dict[str, Any] = {}
        self._started = Processes(domain)
        self.processes: dict[str, Process] = {}
        self.lives = Counter[str]()
        self.ends: dict[str, Counter[str]] = {fault: Counter() for fault in FAULTS}
        self.still: dict[str, list[float]] = {fault: [] for fault in FAULTS}
        self.violations: list[str] = []
        self.held: dict[str, tuple[int, int]] = {}  # what each process held in its life: kB, descriptors

    # ------------------------------------------------------------------ the nodes

    def start(self, name: str) -> None:
        """Start a node, or the robot, and bring it up."""
        self.lives[name] += 1
        if name == "robot":
            self._base.replaced()
            arguments = (str(TEST / "robot_servers.py"), "--speed", SPEED, "--without", "button")
            self.processes[name] = self._started.start(sys.executable, *arguments)
            return
        own = {
            "robot_bridge": [f"robot_config:={ROOT / 'config/robot.yaml'}"],
            "planner": ["bridge:=robot_bridge", "tick_rate:=50.0"],
        }
        given = [part for one in [*own.get(name, []), "use_sim_time:=true"] for part in ("-p", one)]
        self.processes[name] = self._started.node(NODES.get(name, name), "--ros-args", *given)

    def bring_up(self, name: str) -> None:
        """Wait until a node lives; bring it to its active state where it has one."""
        pid, full = self.processes[name].pid, f"/{NAMES.get(name, name)}"
        self.until(lambda: any(said.pid == pid for said in self._lives.living(full)), f"{name} lives")
        while name in ("robot_bridge", "inference"):
            state = self._ask(GetState, f"{full}/get_state", GetState.Request())
            if state is not None and state.current_state.id == State.PRIMARY_STATE_ACTIVE:
                return
            if state is not None and state.current_state.id in (1, 2):
                ids = {1: Transition.TRANSITION_CONFIGURE, 2: Transition.TRANSITION_ACTIVATE}
                request = ChangeState.Request(transition=Transition(id=ids[state.current_state.id]))
                self._ask(ChangeState, f"{full}/change_state", request)

    def _ask(self, kind: Any, name: str, request: Any) -> Any:
        if name not in self._clients:
            self._clients[name] = self._node.create_client(kind, name)
        client = self._clients[name]
        self.until(client.service_is_ready, f"{name} is there")
        answer = client.call_async(request)
        end = time.monotonic() + 2.0
        self.until(lambda: answer.done() or time.monotonic() > end, "")
        if answer.done():
            return answer.result()
        client.remove_pending_request(answer)
        return None

    def held_by(self, name: str) -> tuple[int, int]:
        """Return what a process holds: memory in kB, file descriptors."""
        folder = Path(f"/proc/{self.processes[name].pid}")
        status = (folder / "status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]), len(list((folder / "fd").iterdir()))

    # ------------------------------------------------------------------ time

    def until(self, done: Callable[[], object], what: str, bound: float = BOUND) -> bool:
        """Spin until something is so; returns whether it was within the bound."""
        end = time.monotonic() + bound
        while not done():
            if time.monotonic() > end:
                if what:
                    raise TimeoutError(f"not within {bound:g} s: {what}")
                return False
            self.step()
        return True

    def step(self) -> None:
        """Spin once; /clock goes on where it is not halted."""
        now = time.monotonic()
        if self._ticking and now - self._ticked_at > 0.01:
            self._ticked_at, stamp = now, time.time_ns()
            msg = Clock()
            msg.clock.sec, msg.clock.nanosec = stamp // 10**9, stamp % 10**9
            self._clock.publish(msg)
        self._lives.ended()
        self._executor.spin_once(timeout_sec=0.01)

    def pass_time(self, seconds: float) -> None:
        """Spin for so many seconds."""
        end = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > end, "", seconds + 1.0)

    # ------------------------------------------------------------------ one goal

    def goal(self, number: int) -> None:
        """Send a goal, strike, and see how it ends and when the base stands."""
        fault = self._random.choice(FAULTS)
        instruction, delay = self._random.choice(INSTRUCTIONS), self._random.uniform(0.0, 4.0)
        handle = self._sent(instruction)
        asked = handle.get_result_async()
        struck_at = time.monotonic() + delay
        self.until(lambda: asked.done() or time.monotonic() > struck_at, "", delay + 1.0)
        since = time.monotonic()
        self._strike(fault, handle)
        if fault in ("stop", "kill robot_bridge", "kill planner", "kill robot"):
            self._see_it_stand(number, fault, since)
        self._mend(fault)
        if fault == "kill planner":
            self.ends[fault]["the planner was killed"] += 1
            return
        if not self.until(asked.done, "", BOUND):
            self.violations.append(f"goal {number} ({fault}): '{instruction}' has not ended within {BOUND:g} s")
            handle.cancel_goal_async()
            self.until(asked.done, "a goal that is canceled ends")
            return
        result = asked.result().result
        if fault == "cancel":
            self._see_it_stand(number, fault, since)
        else:
            self._see_it_stand(number, "nothing", time.monotonic())
        self.ends[fault][result.end or "?"] += 1
        if not result.end or (result.error_code and not result.message):
            self.violations.append(f"goal {number} ({fault}): ended without a reason: {result}")
        if result.end == "bug":
            self.violations.append(f"goal {number} ({fault}): {result.message}")

    def _sent(self, instruction: str) -> Any:
        while True:
            self.until(self._client.server_is_ready, "the planner offers its action")
            answer = self._client.send_goal_async(ExecuteTask.Goal(instruction=instruction))
            if self.until(answer.done, "", 3.0) and answer.result().accepted:
                return answer.result()

    def _strike(self, fault: str, handle: Any) -> None:
        if fault == "stop":
            self._button.publish(Bool(data=True))
        elif fault == "cancel":
            handle.cancel_goal_async()
        elif fault == "clock":
            self._ticking = False
        elif fault.startswith("kill "):
            name = fault.removeprefix("kill ")
            self.held.setdefault(name, self.held_by(name))
            self.processes[name].signal(signal.SIGKILL)
            self.processes[name].end()

    def _mend(self, fault: str) -> None:
        if fault == "stop":
            self.pass_time(self._random.uniform(0.0, 1.0))
            self._button.publish(Bool(data=False))
        elif fault == "clock":
            self.pass_time(self._random.uniform(0.5, 2.0))
            self._ticking = True
        elif fault.startswith("kill "):
            name = fault.removeprefix("kill ")
            self.start(name)
            if name != "robot":
                self.bring_up(name)

    def _see_it_stand(self, number: int, fault: str, since: float) -> None:
        """Watch the base after something that ends its motion; note how long it went on."""
        bound = STILL_WITHIN[fault]
        self.pass_time(bound + WATCH)
        moved = max(0.0, self._base.moved_at - since)
        self.still[fault].append(moved)
        if moved > bound:
            self.violations.append(f"goal {number} ({fault}): the base moved for {moved:.2f} s, may {bound:g} s")

    def close(self) -> None:
        """End everything."""
        self._started.kill_all()
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown()

    # ------------------------------------------------------------------ the table

    def table(self, goals: int, minutes: float, began: dict[str, tuple[int, int]]) -> str:
        """Return what came of it."""
        lines = [f"{goals} goals in {minutes:.1f} min; the base drove {self._base.metres:.0f} m", ""]
        lines.append(f"{'fault':<18} {'goals':>5}  {'still after, worst / bound':<27} ends")
        for fault in FAULTS:
            still = self.still[fault]
            worst = f"{max(still):.2f} s / {STILL_WITHIN[fault]:g} s ({len(still)})" if still else "-"
            ends = ", ".join(f"{end} {count}" for end, count in self.ends[fault].most_common())
            lines.append(f"{fault:<18} {self.ends[fault].total():>5}  {worst:<27} {ends}")
        lines += ["", f"{'process':<18} {'lives':>5}  {'first: MB, files':<18} last: MB, files"]
        for name, (first, files) in began.items():
            now, open_now = self.held_by(name)
            lines.append(
                f"{name:<18} {self.lives[name]:>5}  {f'{first / 1024:.1f}, {files}':<18} {now / 1024:.1f}, {open_now}"
            )
        lines += ["", f"violations: {len(self.violations) or 'none'}", *self.violations]
        return "\n".join(lines)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goals", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many minutes")
    parser.add_argument("--domain", type=int, default=100, help="ROS domain")
    options = parser.parse_args()
    chaos, done, began_at = Chaos(options.domain, options.seed), 0, time.monotonic()
    try:
        for name in ("robot", "watchdog", *NODES):
            chaos.start(name)
        for name in ("watchdog", *NODES):
            chaos.bring_up(name)
        chaos.pass_time(1.0)
        began = {name: chaos.held_by(name) for name in chaos.processes}
        while done < options.goals and time.monotonic() - began_at < 60.0 * options.minutes:
            chaos.goal(done)
            done += 1
        print(chaos.table(done, (time.monotonic() - began_at) / 60.0, began))
        sys.exit(1 if chaos.violations else 0)
    finally:
        chaos.close()


if __name__ == "__main__":
    main()
