"""A bridge or an inference node as a process of its own that holds what it is asked until SIGUSR1 comes.

    python held_nodes.py (bridge | inference) [--ros-args …]

It prints `ready` when it is there, and a line when it begins to hold something and when that is cancelled. After
SIGUSR1 it holds nothing any more.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence

from reactree_ros.background.pending import Pending
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.bridge.bridge_node import BridgeNode
from reactree_ros.nodes.inference.inference_node import InferenceNode
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


def held_bridge() -> BridgeNode:
    node = BridgeNode("held_bridge", world=HeldWorld())
    _say("ready")
    return node


def held_inference() -> InferenceNode:
    node = InferenceNode("held_inference", model=HeldModel())
    _say("ready")
    return node


if __name__ == "__main__":
    run_node(held_bridge if sys.argv[1] == "bridge" else held_inference)
