"""Worlds behind a bridge keep to the port as every world does: a household, and a robot."""

from __future__ import annotations

import importlib.util
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from doubles import ScriptedModel
from plans import BARE
from reactree_interfaces.srv import DescribeHousehold
from ros_graph import Graph
from webshop_catalogue import GOALS, way_to
from webshop_peer import WebShopPeer

from reactree_ros.background.pending import Pending, asked, pass_on
from reactree_ros.household.houses import HOUSES
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import load_tasks
from reactree_ros.world.check import check_world
from reactree_ros.world.port import Observation, Score, World
from reactree_ros.world.wrappers import WorldWrapper

#: Longest time for a whole check, in seconds.
BOUND = 120.0


class InTheExecutorsThread(WorldWrapper):
    """Is asked in any thread, and asks a world in the one in which its node's executor spins, as a planner does."""

    def __init__(self, inner: World) -> None:
        super().__init__(inner)
        self._asked: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return self._later(self.inner.reset, seed)

    def observe(self) -> Pending[Observation]:
        return self._later(self.inner.observe)

    def survey(self) -> Pending[Observation]:
        return self._later(self.inner.survey)

    def available_skills(self) -> Pending[Sequence[str]]:
        return self._later(self.inner.available_skills)

    def execute(self, skill: str) -> Pending[Observation]:
        return self._later(self.inner.execute, skill)

    def score(self) -> Pending[Score | None]:
        return self._later(self.inner.score)

    def close(self) -> None:
        """The test closes the adapter when nothing spins any more."""

    def ask_what_waits(self) -> None:
        while not self._asked.empty():
            self._asked.get()()

    def _later(self, ask: Callable[..., Pending[Any]], *given: Any) -> Pending[Any]:
        outer: Pending[Any] = Pending()
        self._asked.put(lambda: outer.cancelled() or pass_on(asked(ask, *given), outer))
        return outer


def problems(graph: Graph, bridge: str) -> list[str]:
    """What is wrong with the world behind a bridge."""
    world = graph.ros_world(bridge, patience=10.0)
    graph.wait(world.learn(), "the household is known")
    here = InTheExecutorsThread(world)
    with ThreadPoolExecutor(1) as checking:
        found = checking.submit(check_world, here)
        end = time.monotonic() + BOUND
        while not found.done():
            assert time.monotonic() < end, f"the check did not end within {BOUND:g} s"
            here.ask_what_waits()
            graph.step()
    world.close()
    return found.result()


def test_a_household_behind_a_bridge_keeps_to_the_port(graph: Graph) -> None:
    graph.bridge(SymbolicWorld(load_tasks(HOUSES["apartment"])[0]))
    assert problems(graph, "household_bridge") == []


@pytest.mark.skipif(not importlib.util.find_spec("nav2_msgs"), reason="needs nav2_msgs")
def test_a_robot_behind_a_bridge_keeps_to_the_port(graph: Graph, tmp_path: Path) -> None:
    from test_robot_bridge import House

    house = House(graph, tmp_path)
    house.add_robot()
    house.start()
    assert problems(graph, "robot_bridge") == []


def test_a_shop_over_http_is_shopped_in_over_ros_and_one_that_is_gone_is_told(graph: Graph) -> None:
    goal = GOALS[2]
    said = way_to(goal)
    graph.inference(ScriptedModel({goal.instruction: said}))
    graph.planner(planner=f"react:{BARE}")
    with WebShopPeer() as peer:
        graph.bridge(world="webshop", server=peer.url)
        peer.misbehave["/instruction_text"] = "late"
        bought = graph.task("", task_id=2).result
    assert (bought.success, bought.gsr, bought.end) == (True, 1.0, "done")
    gone = graph.task("", task_id=3).result
    assert (gone.success, gone.end, "\n" in gone.message) == (False, "world_gone", False)
    assert graph.call(DescribeHousehold, "household_bridge/household").error_code == DescribeHousehold.Response.NONE
