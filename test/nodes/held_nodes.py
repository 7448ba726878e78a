"""A node as a process of its own that holds what it is asked until SIGUSR1 comes, or comes to an unusual end then.

    python held_nodes.py (bridge | inference | planner | robot_bridge) [raise | task | exit | lose] [--ros-args …]

Bridge and inference node print `ready` when they are there, and a line when they begin to hold something and when that
is cancelled. After SIGUSR1 they hold nothing any more, if no fault is named.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial

import rclpy
from rclpy.node import Node

from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.bridge.bridge_node import BridgeNode
from reactree_ros.nodes.inference.inference_node import InferenceNode
from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.nodes.robot.robot_bridge_node import RobotBridgeNode
from reactree_ros.nodes.spinning import run_node
from reactree_ros.world.port import Observation, Score, World


class Gate:
    """Holds calls until SIGUSR1 comes."""

    def __init__(self) -> None:
        self._open = False
        self._held: list[tuple[Pending, Callable[[], Pending]]] = []
        signal.signal(signal.SIGUSR1, lambda number, frame: self.release())

    def hold(self, what: str, call: Callable[[], Pending]) -> Pending:
        if self._open:
            return call()
        pending: Pending = Pending(on_cancel=lambda: _say(f"stopped: {what}"))
        self._held.append((pending, call))
        _say(f"holds: {what}")
        return pending

    def release(self) -> None:
        self._open = True
        held, self._held = self._held, []
        for pending, call in held:
            if not pending.done():
                pending.succeed(call().take())


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


class HeldWorld(World):
    def __init__(self) -> None:
        self.gate = Gate()
        self.world = SymbolicWorld(load_tasks(HOUSES["apartment"])[0])
        self.household, self.recallable = self.world.household, self.world.recallable

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self.world.reset(seed)

    def observe(self) -> Pending[Observation]:
        return self.world.observe()

    def available_skills(self) -> Pending[Sequence[str]]:
        return self.world.available_skills()

    def execute(self, skill: str) -> Pending[Observation]:
        return self.gate.hold(skill, lambda: self.world.execute(skill))

    def score(self) -> Pending[Score | None]:
        return self.world.score()


class HeldModel(LanguageModel):
    def __init__(self) -> None:
        self.gate = Gate()
        self.model = ExpertModel()

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        return self.gate.hold("a decision", lambda: self.model.decide(request))


def held_bridge() -> Node:
    node = BridgeNode("held_bridge", world=HeldWorld())
    _say("ready")
    return node


def held_inference() -> Node:
    node = InferenceNode("held_inference", model=HeldModel())
    _say("ready")
    return node


def fail() -> None:
    raise RuntimeError("a fault of the test")


#: What a node does when its end has come: it raises in each callback or in a task, calls `sys.exit`, or loses ROS.
FAULTS: dict[str, Callable[[Node], object]] = {
    "raise": lambda node: fail(),
    "task": lambda node: node.executor.create_task(fail),
    "exit": lambda node: sys.exit(3),
    "lose": lambda node: rclpy.try_shutdown(),
}
NODES = {"bridge": held_bridge, "inference": held_inference, "planner": PlannerNode, "robot_bridge": RobotBridgeNode}


def faulty(make: Callable[[], Node], fault: str) -> Node:
    """Make a node whose end comes by a fault when SIGUSR1 does."""
    faults: list[int] = []
    node = make()
    node.create_timer(0.02, lambda: faults and FAULTS[fault](node))
    signal.signal(signal.SIGUSR1, lambda number, frame: faults.append(number))
    return node


if __name__ == "__main__":
    make, fault = NODES[sys.argv[1]], next(iter(sys.argv[2:]), "")
    run_node(partial(faulty, make, fault) if fault in FAULTS else make)
