"""Goals in a row with random faults, on a simulated robot: its motion, the end of each goal, and the nodes' resources.

python benchmarks/chaos.py [--goals 1000] [--robot config/robots/office.yaml] [--faults 0.24] [--seed 0] [--minutes 50]

Needs ROS 2 with nav2_msgs and the built workspace, sourced, and a middleware that works over the loopback. The fault
"network" needs `unshare` and `ip` with root rights; without them it is left out.

Some goals meet a fault, in one of these phases: before the goal is accepted, during a decision, while the base drives,
or while the arm moves. The faults: a node, the navigation server or the rest of the robot is killed and restarted; the
emergency stop is pressed and released; the goal is canceled; /clock stands still; the loopback is gone for 5 s.

The robot is that of a household, or with --robot one of skills of its own under a policy: a wilful model tries each of
the skills that its file declares, with all values, also such as are denied and such as may not stand there. The fault
"client" is then another client, which sends a skill to the bridge meanwhile. It counts as a violation if the robot was
asked for two things at once, or for something else than a skill that the model or that client said, was declared and
was not denied. --robot delivery is the robot of ../shared/data/delivery_robot with its owner's rules: there the fault
"person" is somebody who comes near for a moment, and a drive above 0.8 m/s that goes on then is a violation.

The table shows how long the base moved after each fault, how goals ended, and the nodes' resources; Ctrl-C prints it
early. The script exits with 1 if the base moved for too long, if a goal did not end, ended without a reason, or was
given up by the agent, or if a node's memory or open files grow.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import rclpy
import yaml
from action_msgs.msg import GoalInfo
from action_msgs.srv import CancelGoal
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.action import ActionClient
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.signals import SignalHandlerOptions
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from reactree_interfaces.msg import Decision, SkillEnded
from rosgraph_msgs.msg import Clock
from std_msgs.msg import Bool
from std_srvs.srv import Trigger
from unique_identifier_msgs.msg import UUID

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import Offer, read_skill
from reactree_ros.nodes.heartbeat import Lives
from reactree_ros.nodes.robot.goal_templates import NoValue
from reactree_ros.nodes.robot.mapped_skill import plain, values_of
from reactree_ros.robot.config import load_robot
from reactree_ros.robot.map_file import load_map
from reactree_ros.robot.semantic_map import SemanticMap
from reactree_ros.robot.skills import MapSkills

ROOT = Path(__file__).parents[1]
TEST = ROOT / "test" / "nodes"
sys.path[:0] = [str(TEST), str(TEST.parent)]

from declared_robot import driving, mapped  # noqa: E402
from declared_skills import at_once, call_of, is_denied, outside, rules_of  # noqa: E402
from processes import Process, Processes  # noqa: E402
from robot.delivery import delivery_robot  # noqa: E402
from robot_servers import House, Journal, StateFile  # noqa: E402

THINGS = {"apple": "apple", "pudding": "pudding", "cup": "mug"}
PLACES = ("coffee table", "kitchen table", "kitchen counter")
#: Instructions that take a second; others take two to four.
SHORT = ("Turn on the table lamp", "Open the fridge", "Close the fridge")
#: Share of short instructions.
OFTEN = 0.85
PROCESSES = ("robot", "navigation", "watchdog", "robot_bridge", "planner", "inference")
NAMES = {"planner": "reactree_planner"}
PHASES = ("sent", "deciding", "driving", "manipulating")
FAULTS = ("stop", "cancel", "clock", "network", *(f"kill {name}" for name in PROCESSES))
#: Longest time from a fault to the base's standstill, in seconds; silence is noticed after 1.5 s.
STILL_WITHIN = defaultdict(lambda: 1.0, dict.fromkeys(("nothing", "stop", "cancel"), 0.3))
STILL_WITHIN |= dict.fromkeys(("kill robot_bridge", "kill planner"), 3.0)
#: Longest time that a drive goes on which is too fast near people, in seconds.
SLOWS_WITHIN = 0.3
#: The same after a lost network, from its return: the middleware sends requests again.
STILL_AFTER_NETWORK = 3.0
#: Longest wait for a goal to end, or for a node to start, in seconds.
BOUND = 90.0
#: Speed of the simulated base in metres per second, seconds of an arm movement, seconds of a decision.
SPEED, ARM, DECISION = "20.0", "0.15", "0.02"
#: Number of last log lines per process shown after a violation.
LAST_LINES = 15
#: Longest wait for the topic of decisions after the end of a goal, in seconds: a message may come late, or get lost.
HEARD_WITHIN = 5.0
#: How long to watch the base after its time to come to a standstill, in seconds.
WATCH = 0.5
#: How long the loopback is gone, in seconds.
GONE = 5.0
#: Goals in one life from which growth is a violation; goals of a node's warm-up; most growth in kB per goal.
LONG_LIFE, WARM, GROWTH = 100, 20, 20.0
#: Number of goals whose median size is one point of the growth.
PIECE = 20
IN_NAMESPACE = "--in-namespace"


class Base:
    """The simulated base's position and last motion, from the robot's own file: works without a network."""

    def __init__(self, file: StateFile) -> None:
        self._file = file

    @property
    def moved_at(self) -> float:
        """Time of the last motion, in seconds of the monotonic clock, which all processes share."""
        return float(self._file.read().get("moved_at", 0.0))

    @property
    def metres(self) -> float:
        """The distance driven."""
        return float(self._file.read().get("metres", 0.0))

    @property
    def house(self) -> dict[str, Any]:
        """What the household's robot holds, and where the things are."""
        return self._file.read()


class Household:
    """The household's robot.

    Attributes:
        model: Which model decides; empty: the expert.
        bridge: Parameters of its bridge.
        robot: Its simulation, a script with arguments.
        navigation: Arguments of its navigation.
        base: Its base.
        faults: Kinds of fault.
        drives: Servers by which it drives.
        acts: Servers by which it does something else.
    """

    model, navigation = "", ()
    drives, acts = frozenset({"navigate_to_pose"}), frozenset({"arm"})

    def __init__(self, folder: Path) -> None:
        self._state = folder / "robot.json"
        self.base, self.faults = Base(StateFile(self._state)), FAULTS
        self.bridge = {"robot_config": str(ROOT / "config/robot.yaml")}
        self.robot = ("robot_servers.py", "--without", "nav,button", "--state", str(self._state))

    def restarted(self, chaos: Chaos) -> None:
        """Let a new bridge find the house as it is at first."""
        chaos.ask(Trigger, "/put_back", Trigger.Request())

    def killed(self, pid: int) -> None:
        """Note that a process was killed."""

    def hears(self, said: str) -> None:
        """Note a decision, or what another client said."""

    def ended(self, said: SkillEnded) -> None:
        """Note the end of a skill."""

    def violations(self) -> list[str]:
        """Return what the robot should not have been asked for since the last goal."""
        return []

    def lines(self) -> list[str]:
        """Return what more the table says."""
        return []

    def instruction(self, random: random.Random, *, arm: bool) -> str:
        """Choose an instruction; a thing to bring is not in place yet, and is the held one, if any.

        Args:
            random: Random generator.
            arm: Whether the arm must move for it.
        """
        state, places = self.base.house, House().places
        if not state["held"] and not arm and random.random() < OFTEN:
            return random.choice(SHORT)
        thing = state["held"] or random.choice(sorted(THINGS))
        x, y, _ = state["objects"][thing]
        far = {place: abs(places[f"{place} 1"].pose.x - x) + abs(places[f"{place} 1"].pose.y - y) for place in PLACES}
        place = random.choice([place for place in PLACES if state["held"] or far[place] > 1.0])
        return f"Put 1 {THINGS[thing]} on the {place}"


class Declared(Household):
    """A robot with skills of its own, under a policy that allows all and denies some values.

    Args:
        file: What declares it.
        folder: For its state, its journal and the policy.
    """

    model = "wilful"

    def __init__(self, file: Path, folder: Path) -> None:
        super().__init__(folder)
        config = load_robot(file)
        self._declared, self._by = config.declared, mapped(config)
        self._map = SemanticMap(load_map(config.map), in_map=lambda pose: pose)
        self._journal, policy = Journal(folder / "journal"), folder / "policy.yaml"
        self._denied, rules = rules_of(config.declared)
        policy.write_text(yaml.safe_dump({"rules": rules}))
        self.bridge = {"robot_config": str(file), "policy": str(policy)}
        common = ("--journal", str(folder / "journal"))
        self.robot = ("declared_robot.py", str(file), "--without", "drives", "--state", str(self._state), *common)
        also = {name: kind for name, kind in driving(config).items() if name != "navigate_to_pose"}
        self.navigation = ("--also", ",".join(f"{name}={kind}" for name, kind in also.items()), *common)
        self.faults = (*FAULTS, "client")
        calls = [call.entry for one in self._by.values() for call in one.calls]
        self.drives = frozenset(driving(config))
        self.acts = frozenset(entry.server for entry in calls if entry.kind == "action") - self.drives
        self._said: list[str] = []  # all skills that were said, of which those of the last goals may be asked for yet
        self._read = self._seen = 0  # lines of the journal that were judged; violations of it
        self.done: Counter[str] = Counter()
        self._found: list[str] = []  # violations

    def instruction(self, random: random.Random, *, arm: bool) -> str:
        """Name two to four skills."""
        acts = [
            one.name for one in self._declared if {call.entry.server for call in self._by[one.name].calls} & self.acts
        ]
        goes = [one.name for one in self._declared if "at" in one.effect]
        some = random.choices([one.name for one in self._declared], k=random.randrange(1, 4))
        return f"{random.randrange(10**6)}: {', '.join([*goes[:1], *([random.choice(acts)] if arm else []), *some])}"

    def any_skill(self, random: random.Random) -> str:
        """Return a skill that another client says: any of them, perhaps one that may not be done."""
        conduct = MapSkills(self._declared)
        call = None
        while call is None:
            offer = random.choice([one for one in conduct.offered(self._map) if isinstance(one, Offer)])
            call = call_of(offer, random)
        wrong = call.skill.parameters and random.random() < 0.5
        return outside(call, random.choice(list(call.skill.parameters))) if wrong else call

    def restarted(self, chaos: Chaos) -> None:
        """A new bridge takes things to be where its map has them."""

    def killed(self, pid: int) -> None:
        """Note that a process was killed, and with it all that it did."""
        self._journal.note("", gone=pid)

    def hears(self, said: str) -> None:
        """Note a decision, or what another client said."""
        self._said.append(said.removeprefix("Act: "))

    def ended(self, said: SkillEnded) -> None:
        """Note the end of a skill; none that is denied, or is not a skill, may be done."""
        if said.outcome != ExecuteSkill.Result.DONE:
            return
        try:
            call = read_skill(said.skill, self._declared)
        except ParameterError as error:
            self._found.append(f"'{said.skill}' was done: {error}")
            return
        self.done[call.skill.name] += 1
        if is_denied(call, self._denied):
            self._found.append(f"'{call}' was done, and is denied")

    def lines(self) -> list[str]:
        """Return how often each skill was done."""
        return ["", "done: " + ", ".join(f"{one.name} {self.done[one.name]}" for one in self._declared)]

    def violations(self) -> list[str]:
        """Return what the robot should not have been asked for since the last goal."""
        journal = self._journal.read()
        twice = at_once(journal)
        found, self._found = [*self._found, *twice[self._seen :]], []
        self._seen = len(twice)
        allowed = [order for said in dict.fromkeys(self._said) for order in self._orders(said)]
        for line in journal[self._read :]:
            goal = line.get("begins", line.get("heard"))
            if goal is not None and (line["server"], _timeless(goal)) not in allowed:
                found.append(f"{line['server']} was asked for {goal}, which nobody said who may")
        self._read, self._said = len(journal), self._said[-LAST_LINES:]
        return found

    def _orders(self, said: str) -> list[tuple[str, Any]]:
        """Return what a skill asks for; nothing if it is none, or is denied."""
        try:
            call = read_skill(said, self._declared)
            if is_denied(call, self._denied):
                return []
            legs = self._by[call.skill.name].orders(values_of(self._map, call))
        except (ParameterError, NoValue):
            return []
        orders = [order for leg in legs for order in leg if order is not None and order.goal is not None]
        return [(one.call.entry.server, _timeless(json.loads(json.dumps(one.goal, default=plain)))) for one in orders]


class Delivery(Declared):
    """The robot of `../shared/data/delivery_robot` with its owner's rules, without what takes a minute or a camera.

    Args:
        folder: For the robot's files, and as of :class:`Declared`.
    """

    def __init__(self, folder: Path) -> None:
        stop = {"topic": "/emergency_stop", "latched": True}
        file = delivery_robot(
            folder / "delivery", emergency_stop=stop, without=("spray", "take photo", "wait for person")
        )
        super().__init__(file, folder)
        self.faults, self._judged = (*self.faults, "person"), 0  # lines of the journal

    def instruction(self, random: random.Random, *, arm: bool) -> str:
        """Name some skills, or write out an errand: to load something at the counter and hand it over."""
        some = super().instruction(random, arm=arm)
        if random.random() < 0.5:
            return some
        drawer, item = random.randrange(1, 5), random.choice(("pills", "blood sample"))
        errand = (
            *(f"close drawer {number}" for number in range(1, 5)),
            "navigate to counter at 0.5 m/s",
            f"open drawer {drawer}",
            f"load the {item} into drawer {drawer}",
            f"close drawer {drawer}",
            "navigate to nurse desk at 0.9 m/s",
            f"hand the {item} over to {random.choice(('Anna', 'Bob'))}",
        )
        return f"{some.partition(':')[0]}: {', '.join(f'Act: {skill}' for skill in errand)}"

    def nears(self, near: bool) -> None:
        """Note that a person has come near, or has gone."""
        self._journal.note("people_near", near=near)

    def violations(self) -> list[str]:
        """Return what the robot should not have done since the last goal: it drove too fast near people, too."""
        found, near, fast = super().violations(), None, dict[int, dict[str, Any]]()
        journal, self._judged = self._journal.read()[self._judged :], self._read
        for line in journal:
            ended = []
            if "near" in line:
                ended, began = list(fast.values()), near
                near = line["at"] if line["near"] else None
            elif "gone" in line:
                fast.pop(line["gone"], None)
            elif _timeless(line.get("begins", {})).get("speed", 0.0) > 0.8:
                fast[line["process"]] = line
            elif "ends" in line and line["process"] in fast:
                ended, began = [fast.pop(line["process"])], near
            for drive in ended:
                late = 0.0 if began is None else line["at"] - max(began, drive["at"])
                if late > SLOWS_WITHIN:
                    found.append(f"{drive['begins']} went on for {late:.2f} s near people")
        return found


def _timeless(message: Any) -> Any:
    """Return a message without the times in it, and numbers as they are in 32 bits and in 64."""
    if isinstance(message, dict):
        return {name: _timeless(one) for name, one in message.items() if name != "stamp"}
    return round(message, 5) if isinstance(message, float) else message


class Held:
    """The processes' resources over their lives: memory in kB and file descriptors, after each goal."""

    def __init__(self) -> None:
        self.lives: dict[str, list[list[tuple[int, int, int]]]] = defaultdict(list)

    def begin(self, name: str) -> None:
        """Record the start of a process."""
        self.lives[name].append([])

    def note(self, name: str, pid: int, goal: int) -> None:
        """Record a process's resources after a goal."""
        folder = Path(f"/proc/{pid}")
        status = (folder / "status").read_text()
        self.lives[name][-1].append(
            (goal, int(status.partition("VmRSS:")[2].split()[0]), len(os.listdir(folder / "fd")))
        )

    def longest(self, name: str) -> list[tuple[int, int, int]]:
        """Return a process's longest life."""
        return max(self.lives[name], key=len, default=[])

    def slope(self, name: str) -> float | None:
        """Return how fast a process grows at least in three quarters of its longest life, in kB per goal.

        A leak grows all the time. What warms up does not: Python doubles its table of interned strings once, after some
        100 goals, and all is level after some 180. None: that life was too short.
        """
        life = [kb for _, kb, _ in self.longest(name)]
        if len(life) < LONG_LIFE:
            return None
        sizes = [median(life[since : since + PIECE]) for since in range(WARM, len(life) - PIECE + 1, PIECE)]
        grown = sorted(later - sooner for sooner, later in itertools.pairwise(sizes))
        return grown[len(grown) // 4] / PIECE

    def lines(self) -> list[str]:
        """Return a line for each process."""
        lines = [
            f"{'process':<14} {'lives':>5} {'longest':>7}  {'first: MB, files':<17} {'last: MB, files':<17} kB per goal"
        ]
        for name in PROCESSES:
            life, slope = self.longest(name), self.slope(name)
            first, last = (f"{kb / 1024:.1f}, {files}" for _, kb, files in (life[0], life[-1])) if life else ("-", "-")
            grown = "-" if slope is None else f"{slope:.1f}"
            lines.append(f"{name:<14} {len(self.lives[name]):>5} {len(life):>7}  {first:<17} {last:<17} {grown}")
        return lines

    def violations(self) -> list[str]:
        """Return the processes that grow."""
        found = []
        for name in PROCESSES:
            slope, life = self.slope(name), self.longest(name)
            if slope is not None and slope > GROWTH:
                found.append(f"{name} grows by {slope:.1f} kB per goal, allowed are {GROWTH:g}")
            if slope is not None and life[-1][2] > life[WARM][2] + 3:
                found.append(f"{name} has {life[-1][2]} files open after {len(life)} goals, {life[WARM][2]} before")
        return found


class Deck:
    """Faults with their phases, shuffled; each comes equally often.

    Args:
        random: Random generator.
        faults: Kinds of fault.
    """

    def __init__(self, random: random.Random, faults: Sequence[str]) -> None:
        self._random = random
        self._all = [(fault, phase) for fault in faults for phase in PHASES]
        self._left: list[tuple[str, str]] = []

    def draw(self) -> tuple[str, str]:
        """Take a fault."""
        if not self._left:
            self._left = self._random.sample(self._all, len(self._all))
        return self._left.pop()

    def give_back(self, card: tuple[str, str]) -> None:
        """Put a fault back if its phase did not occur."""
        self._left.insert(self._random.randrange(len(self._left) + 1), card)


class Chaos:
    """The robot, the nodes, and the faults done to them.

    Args:
        site: The robot.
        domain: ROS domain.
        seed: Seed of all random choices.
        share: Share of goals that meet a fault.
        faults: Kinds of fault.
        asked: Signals that ask for an end.
    """

    def __init__(
        self, site: Household, domain: int, seed: int, share: float, faults: Sequence[str], asked: list[int]
    ) -> None:
        self.site = site
        self._random, self._share, self._asked = random.Random(seed), share, asked
        self._deck = Deck(self._random, faults)
        rclpy.init(domain_id=domain, signal_handler_options=SignalHandlerOptions.NO)
        self._node = Node("chaos")
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._button = self._node.create_publisher(Bool, "/emergency_stop", latched)
        self._button.publish(Bool(data=False))
        self._people = self._node.create_publisher(Bool, "/people_near", latched)
        self._people.publish(Bool(data=False))
        self._clock = self._node.create_publisher(Clock, "/clock", 10)
        self._ticking, self._ticked_at = True, 0.0
        self._lives = Lives(self._node)
        self._said: list[str] = []  # of the current goal: decisions and results of skills
        self._skills = self._decided = 0  # number of its skills that have ended, and of its decisions that were heard
        self._node.create_subscription(Decision, "/reactree_planner/decisions", self._hear_decision, 100)
        self._node.create_subscription(SkillEnded, "/robot_bridge/skill_ended", self._hear_skill, 10)
        self.base = site.base
        self._other = ActionClient(self._node, ExecuteSkill, "robot_bridge/execute_skill")
        self._client = ActionClient(self._node, ExecuteTask, "reactree_planner/execute_task")
        self._cancel = self._node.create_client(CancelGoal, "reactree_planner/execute_task/_action/cancel_goal")
        self._clients: dict[str, Any] = {}
        self._started = Processes(domain)
        self.processes: dict[str, Process] = {}
        self.held = Held()
        self.ends: dict[str, Counter[str]] = defaultdict(Counter)
        self.still: dict[str, list[float]] = defaultdict(list)
        self.phases: dict[str, Counter[str]] = defaultdict(Counter)
        self.violations: list[str] = []

    # ------------------------------------------------------------------ the nodes

    def start(self, name: str) -> None:
        """Start a process."""
        self.held.begin(name)
        of_bridge = [part for given in self.site.bridge.items() for part in ("-p", ":=".join(given))]
        robot, *arguments = self.site.robot
        model = (self.site.model,) if self.site.model else ()
        of_planner = ("-p", "bridge:=robot_bridge", "-p", "tick_rate:=50.0")
        command = {
            "robot": (sys.executable, str(TEST / robot), *arguments, "--arm-seconds", ARM),
            "navigation": (sys.executable, str(TEST / "navigation.py"), "--speed", SPEED, *self.site.navigation),
            "watchdog": (sys.executable, "-m", "reactree_ros.nodes.watchdog", "--ros-args"),
            "robot_bridge": (
                *(sys.executable, "-m", "reactree_ros.nodes.robot.robot_bridge_node", "--ros-args"),
                *of_bridge,
            ),
            "planner": (sys.executable, "-m", "reactree_ros.nodes.planner.planner_node", "--ros-args", *of_planner),
            "inference": (sys.executable, str(TEST / "slow_inference.py"), DECISION, *model, "--ros-args"),
        }[name]
        clock = ("-p", "use_sim_time:=true") if "--ros-args" in command else ()
        self.processes[name] = self._started.start(*command, *clock)

    def bring_up(self, name: str) -> None:
        """Wait until a process is up; activate it if it is a lifecycle node."""
        pid, full = self.processes[name].pid, f"/{NAMES.get(name, name)}"
        self.until(lambda: any(said.pid == pid for said in self._lives.living(full)), f"{name} lives")
        while name in ("robot_bridge", "inference", "planner"):
            state = self.ask(GetState, f"{full}/get_state", GetState.Request())
            if state is not None and state.current_state.id == State.PRIMARY_STATE_ACTIVE:
                return
            if state is not None and state.current_state.id in (1, 2):
                ids = {1: Transition.TRANSITION_CONFIGURE, 2: Transition.TRANSITION_ACTIVATE}
                request = ChangeState.Request(transition=Transition(id=ids[state.current_state.id]))
                self.ask(ChangeState, f"{full}/change_state", request)

    def ask(self, kind: Any, name: str, request: Any) -> Any:
        if name not in self._clients:
            self._clients[name] = self._node.create_client(kind, name)
        client = self._clients[name]
        self.until(client.service_is_ready, f"{name} is up")
        answer = client.call_async(request)
        if self.until(answer.done, "", 2.0):
            return answer.result()
        client.remove_pending_request(answer)
        return None

    def _kill(self, name: str) -> None:
        self.processes[name].signal(signal.SIGKILL)
        self.processes[name].end()
        self.site.killed(self.processes[name].pid)

    # ------------------------------------------------------------------ time

    def until(self, done: Callable[[], object], what: str, bound: float = BOUND) -> bool:
        """Spin until a condition holds; return whether it held in time."""
        end = time.monotonic() + bound
        while not done():
            if self._asked:
                raise KeyboardInterrupt
            if time.monotonic() > end:
                if what:
                    raise TimeoutError(f"not within {bound:g} s: {what}")
                return False
            self.step()
        return True

    def step(self) -> None:
        """Spin once; /clock advances unless it is halted."""
        now = time.monotonic()
        if self._ticking and now - self._ticked_at > 0.02:
            self._ticked_at, stamp = now, time.time_ns()
            msg = Clock()
            msg.clock.sec, msg.clock.nanosec = stamp // 10**9, stamp % 10**9
            self._clock.publish(msg)
        self._lives.ended()
        self._executor.spin_once(timeout_sec=0.02)

    def pass_time(self, seconds: float) -> None:
        """Spin for so many seconds."""
        self.until(lambda: False, "", seconds)

    # ------------------------------------------------------------------ received messages

    def _hear_decision(self, msg: Decision) -> None:
        self._decided = msg.count
        self._said.append(f"{'refused: ' if msg.reason else ''}{msg.text}")
        self.site.hears(msg.text)

    def _hear_skill(self, msg: SkillEnded) -> None:
        self._skills += 1
        self.site.ended(msg)
        self._said.append(f"    {msg.observation.text} {msg.message}")

    def _under_way(self, servers: Collection[str]) -> bool:
        """Return whether the bridge has a goal in progress on one of some servers."""
        services = {f"/{server}/_action/cancel_goal" for server in servers}
        return any(
            goal.cancel_service in services for said in self._lives.living("/robot_bridge") for goal in said.goals
        )

    # ------------------------------------------------------------------ one goal

    def goal(self, number: int) -> None:
        """Send a goal, perhaps with a fault, and observe its end and the base's standstill."""
        card = self._deck.draw() if self._random.random() < self._share else ("nothing", "")
        goal = Goal(self, self._client, self.site.instruction(self._random, arm=card[1] == "manipulating"))
        self._said, self._skills, self._decided, found = [goal.instruction], 0, 0, len(self.violations)
        if card[0] != "nothing" and not self._comes(card[1], goal):
            self._deck.give_back(card)
            card = ("nothing", "")
        fault, phase = card
        where = f"goal {number} ({' while '.join(filter(None, card))})"
        if fault != "nothing":
            self.phases[fault][phase] += 1
            self._strike(where, fault, goal)
        if fault == "kill planner":
            self.ends[fault]["the planner was killed"] += 1
        else:
            self._see_end(where, fault, goal)
        self.violations += [f"{where}: {one}: {self._said}" for one in self.site.violations()]
        self._note(number, self.violations[found:])

    def _note(self, number: int, violations: Sequence[str]) -> None:
        """Record the processes' resources after a goal, and show their last log lines after a violation."""
        for name, process in self.processes.items():
            self.held.note(name, process.pid, number)
            if violations:
                print(f"--- {name}", *process.output.splitlines()[-LAST_LINES:], sep="\n", flush=True)
        for violation in violations:
            print(f"VIOLATION {violation}", flush=True)

    def _comes(self, phase: str, goal: Goal) -> bool:
        """Wait for a phase of a goal, and a random time in it; return False if it does not occur."""
        if phase == "sent":
            return True
        self.until(lambda: goal.accepted or goal.ended, "the goal is answered")
        skills = self._random.randrange(4) if phase == "deciding" else 0
        moment = self._random.uniform(0.0, 0.03 if phase == "deciding" else 0.2)
        there = {
            "deciding": lambda: self._skills >= skills and len(self._said) > 1,
            "driving": lambda: self._under_way(self.site.drives),
            "manipulating": lambda: self._under_way(self.site.acts),
        }[phase]
        if not self.until(lambda: there() or goal.ended, "", BOUND):
            return False
        self.until(lambda: goal.ended, "", moment)
        return not goal.ended

    def _strike(self, where: str, fault: str, goal: Goal) -> None:
        """Cause a fault, wait for the base to stand still if it must, and repair the fault."""
        since = time.monotonic()
        if fault == "stop":
            self._button.publish(Bool(data=True))
            self._see_it_stand(where, fault, since)
            self._button.publish(Bool(data=False))
        elif fault == "cancel":
            goal.cancel()
            self._see_it_stand(where, fault, since)
        elif fault == "clock":
            self._halt_clock(where, goal)
        elif fault == "network":
            self._take_network(goal)
        elif fault == "client":
            self._say_besides()
        elif fault == "person":
            self._come_near(True)
            self.pass_time(self._random.uniform(0.5, 1.0))
            self._come_near(False)
        else:
            self._kill_and_start(where, fault, fault.removeprefix("kill "), since)

    def _halt_clock(self, where: str, goal: Goal) -> None:
        """Halt /clock; in half of the cases cancel the goal meanwhile."""
        self._ticking = False
        self.pass_time(self._random.uniform(0.2, 1.0))
        if self._random.random() < 0.5:
            since = time.monotonic()
            goal.cancel()
            self._see_it_stand(where, "clock", since)
        self._ticking = True

    def _take_network(self, goal: Goal) -> None:
        """Take the loopback down and up again; in half of the cases cancel the goal meanwhile."""
        until = time.monotonic() + GONE
        _loopback("down")
        if self._random.random() < 0.5:
            self.pass_time(self._random.uniform(0.0, GONE - 1.0))
            goal.cancel()
        self.pass_time(until - time.monotonic())
        _loopback("up")

    def _say_besides(self) -> None:
        """Be another client, who says a skill to the bridge meanwhile."""
        said = self.site.any_skill(self._random)
        self.site.hears(said)
        answer = self._other.send_goal_async(ExecuteSkill.Goal(skill=said))
        if self.until(answer.done, "", 5.0) and answer.result().accepted:
            ended = answer.result().get_result_async()
            self.until(ended.done, f"'{said}' ends")
            self._said.append(f"    besides: {said}: {ended.result().result.message or 'done'}")

    def _come_near(self, near: bool) -> None:
        self.site.nears(near)
        self._people.publish(Bool(data=near))

    def _kill_and_start(self, where: str, fault: str, name: str, since: float) -> None:
        """Kill a process and restart it, at once or later; a new bridge finds the house in its initial state."""
        self._kill(name)
        stops = name in ("robot_bridge", "planner", "navigation")
        at_once = name != "navigation" and self._random.random() < 0.5
        if at_once:
            self.start(name)
        if stops:
            self._see_it_stand(where, fault, since)
        if not at_once:
            self.start(name)
        if name == "robot_bridge":
            self.site.restarted(self)
        self.bring_up(name)

    def _see_end(self, where: str, fault: str, goal: Goal) -> None:
        """Observe how a goal ends, and that the base stands still then."""
        if not self.until(lambda: goal.ended, "", BOUND):
            self.violations.append(f"{where}: '{goal.instruction}' has not ended within {BOUND:g} s: {self._said}")
            goal.cancel()
            self.until(lambda: goal.ended, "a goal that is canceled ends")
            return
        result, ended = goal.result, time.monotonic()
        if fault == "network":
            self._see_it_stand(where, "network, then the end", ended, STILL_AFTER_NETWORK)
        else:
            self._see_it_stand(where, "end", ended, STILL_WITHIN["nothing"] if fault == "nothing" else 1.0)
        self.until(lambda: self._decided >= result.decisions, "", HEARD_WITHIN)  # topics may be slower than the end
        end = f"{result.end}" + (f" ({result.message})" if result.end not in ("success", "interrupted") else "")
        self.ends[fault][result.end or "?"] += 1
        print(f"{where}: {goal.instruction}: {end}, {result.steps} steps, {result.seconds:.1f} s", flush=True)
        if not result.end or (result.error_code and not result.message):
            self.violations.append(f"{where}: ended without a reason: {result}")
        if result.end in ("bug", "failure"):
            self.violations.append(f"{where}: {result.end}: {result.message}: {self._said}")
            print("\n".join(self._said), flush=True)

    def _see_it_stand(self, where: str, fault: str, since: float, bound: float | None = None) -> None:
        """Watch the base after something that must stop it; record how long it moved."""
        bound = STILL_WITHIN[fault] if bound is None else bound
        end = since + bound + WATCH
        # After an end, a short standstill is enough; after a fault the base might start again.
        quick = fault == "end"
        self.until(
            lambda: quick and time.monotonic() - max(since, self.base.moved_at) > bound, "", end - time.monotonic()
        )
        moved = max(0.0, self.base.moved_at - since)
        self.still[fault].append(moved)
        if moved > bound:
            self.violations.append(f"{where}: the base moved for {moved:.2f} s after {fault}, allowed are {bound:g} s")

    def close(self) -> None:
        """End everything."""
        self._started.kill_all()
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.try_shutdown()

    # ------------------------------------------------------------------ the table

    def table(self, goals: int, minutes: float) -> str:
        """Return the table of results."""
        lines = [f"{goals} goals in {minutes:.1f} min; the base drove {self.base.metres:.0f} m", ""]
        lines.append(f"{'fault':<18} {'goals':>5}  {'sent/deciding/driving/manipulating':<34}  ends")
        for fault in ("nothing", *self.site.faults):
            phases = "/".join(str(self.phases[fault][phase]) for phase in PHASES)
            ends = ", ".join(f"{end} {count}" for end, count in self.ends[fault].most_common())
            lines.append(f"{fault:<18} {self.ends[fault].total():>5}  {phases:<34}  {ends}")
        lines += ["", f"{'after':<22} {'seen':>5}  the base moved for at most"]
        for fault, still in self.still.items():
            lines.append(f"{fault:<22} {len(still):>5}  {max(still):.2f} s")
        violations = [*self.violations, *self.held.violations()]
        return "\n".join(
            [
                *lines,
                *self.site.lines(),
                "",
                *self.held.lines(),
                "",
                f"violations: {len(violations) or 'none'}",
                *violations,
            ]
        )


class Goal:
    """A goal, sent like a client that repeats it until it is accepted.

    Attributes:
        instruction: The instruction.
        accepted: Whether it was accepted.
    """

    def __init__(self, chaos: Chaos, client: ActionClient, instruction: str) -> None:
        self._chaos, self._client, self.instruction = chaos, client, instruction
        self.accepted, self._canceled = False, False
        self._handle: Any = None
        self._asked: Any = None
        chaos.until(client.server_is_ready, "the planner offers its action")
        self._send()

    def _send(self) -> None:
        self._id = UUID(uuid=list(os.urandom(16)))
        goal = ExecuteTask.Goal(instruction=self.instruction)
        self._sent_at = time.monotonic()
        self._client.send_goal_async(goal, goal_uuid=self._id).add_done_callback(self._answered)

    def _answered(self, future: Any) -> None:
        handle = future.result()
        if self.accepted:
            handle.cancel_goal_async()
        elif handle.accepted:
            self.accepted, self._handle = True, handle
            self._asked = handle.get_result_async()
            if self._canceled:
                handle.cancel_goal_async()

    @property
    def ended(self) -> bool:
        """Whether it has ended; if nobody answered, it is sent again."""
        if not self.accepted and time.monotonic() - self._sent_at > 3.0 and self._client.server_is_ready():
            self._send()
        return self._asked is not None and self._asked.done()

    @property
    def result(self) -> Any:
        """The result."""
        return self._asked.result().result

    def cancel(self) -> None:
        """Cancel it, also before it is accepted."""
        self._canceled = True
        if self._handle is not None:
            self._handle.cancel_goal_async()
        else:
            self._chaos._cancel.call_async(CancelGoal.Request(goal_info=GoalInfo(goal_id=self._id)))


def _loopback(state: str) -> None:
    subprocess.run(("ip", "link", "set", "lo", state), check=True)


def _in_a_namespace(arguments: list[str]) -> None:
    """Run the script in its own network namespace if that is allowed; otherwise return."""
    tools = shutil.which("unshare") and shutil.which("ip")
    try_it = ("unshare", "-n", "ip", "link", "set", "lo", "up")
    if tools and subprocess.run(try_it, check=False, capture_output=True).returncode == 0:
        os.execvp("unshare", ("unshare", "-n", sys.executable, *arguments, IN_NAMESPACE))
    print("the fault 'network' is left out: no right to a network namespace (unshare -n, ip)", flush=True)


def site_of(robot: str | None, folder: Path) -> Household:
    """Return the robot that is asked for."""
    if robot is None:
        return Household(folder)
    return Delivery(folder) if robot == "delivery" else Declared(Path(robot), folder)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--goals", type=int, default=1000)
    parser.add_argument(
        "--robot", help="one with skills of its own: delivery, or a file such as config/robots/office.yaml"
    )
    parser.add_argument("--faults", type=float, default=0.24, help="share of goals that meet a fault")
    parser.add_argument(
        "--only", default="", help="the only kind of fault, one of: " + ", ".join((*FAULTS, "client", "person"))
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so many minutes")
    parser.add_argument("--domain", type=int, default=100, help="ROS domain")
    parser.add_argument(IN_NAMESPACE, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.in_namespace:
        _loopback("up")
    else:
        _in_a_namespace(sys.argv)
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: asked.append(number))
    with tempfile.TemporaryDirectory() as folder:
        site = site_of(options.robot, Path(folder))
        faults = [
            one for one in site.faults if options.only in ("", one) and (options.in_namespace or one != "network")
        ]
        chaos = Chaos(site, options.domain, options.seed, options.faults, faults, asked)
        done, began = 0, time.monotonic()
        try:
            for name in PROCESSES:
                chaos.start(name)
            for name in PROCESSES:
                chaos.bring_up(name)
            while done < options.goals and time.monotonic() - began < 60.0 * options.minutes:
                chaos.goal(done)
                done += 1
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        finally:
            print(chaos.table(done, (time.monotonic() - began) / 60.0), flush=True)
            chaos.close()
    sys.exit(1 if chaos.violations or chaos.held.violations() or done < options.goals else 0)


if __name__ == "__main__":
    main()
