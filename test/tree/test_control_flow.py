"""The three control flows (paper, Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import py_trees
import pytest
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.control_flow import ControlFlow, default_flows, flow_named
from reactree_ros.tree.flows.fallback import FallbackFlow
from reactree_ros.tree.flows.parallel import ParallelFlow
from reactree_ros.tree.flows.sequence import SequenceFlow
from reactree_ros.tree.options import ParallelPolicy


class Child(Behaviour):
    """Runs for so many ticks, then ends."""

    def __init__(self, name: str, end: Status, ticks: int = 1) -> None:
        super().__init__(name)
        self.end, self.ticks, self.log = end, ticks, list[str]()

    def initialise(self) -> None:
        self.log.append("initialise")

    def update(self) -> Status:
        self.ticks -= 1
        return Status.RUNNING if self.ticks >= 0 else self.end

    def terminate(self, new_status: Status) -> None:
        self.log.append(new_status.name)


def over(flow: type[ControlFlow], children: Sequence[Behaviour], policy: ParallelPolicy) -> Composite:
    """Build what carries a control flow out under a node of a run with one robot."""
    context = SimpleNamespace(options=SimpleNamespace(parallel=policy), team=SimpleNamespace(alone=True))
    return flow().over(SimpleNamespace(context=context), children)


def ends(flow: type[ControlFlow], policy: ParallelPolicy, outcomes: str) -> tuple[Status, int]:
    """Run children that succeed (S) or fail (F); returns the end and how many were started."""
    children = [Child(f"{i}", Status.SUCCESS if o == "S" else Status.FAILURE) for i, o in enumerate(outcomes)]
    composite = over(flow, children, policy)
    for _ in range(20):
        composite.tick_once()
        assert sum(child.status == Status.RUNNING for child in children) <= 1
        if composite.status != Status.RUNNING:
            break
    return composite.status, sum(bool(child.log) for child in children)


@pytest.mark.parametrize(
    ("flow", "policy", "outcomes", "status", "started"),
    [
        ("sequence", "majority", "SSS", "SUCCESS", 3),
        ("sequence", "majority", "SFS", "FAILURE", 2),
        ("fallback", "majority", "FFS", "SUCCESS", 3),
        ("fallback", "majority", "SFF", "SUCCESS", 1),
        ("fallback", "majority", "FFF", "FAILURE", 3),
        ("parallel", "majority", "FSS", "SUCCESS", 3),
        ("parallel", "majority", "FS", "FAILURE", 2),
        ("parallel", "majority", "FSFS", "FAILURE", 4),
        ("parallel", "majority", "SFF", "FAILURE", 3),
        ("parallel", "all", "FSS", "FAILURE", 3),
        ("parallel", "all", "SSS", "SUCCESS", 3),
    ],
)
def test_how_each_control_flow_ends(flow: str, policy: str, outcomes: str, status: str, started: int) -> None:
    assert ends(flow_named(flow), ParallelPolicy(policy), outcomes) == (Status[status], started)


@pytest.mark.parametrize(("policy", "name"), [("majority", "Majority"), ("all", "All")])
def test_a_parallel_says_its_policy_to_viewers(policy: str, name: str) -> None:
    parallel = over(ParallelFlow, [Child("1", Status.SUCCESS)], ParallelPolicy(policy))
    assert isinstance(parallel, py_trees.composites.Parallel)
    assert type(parallel.policy).__name__ == name


@pytest.mark.parametrize("flow", [FallbackFlow, ParallelFlow])
def test_children_that_failed_keep_their_status_while_the_next_one_runs(flow: type[ControlFlow]) -> None:
    first, second = Child("1", Status.FAILURE), Child("2", Status.SUCCESS, ticks=2)
    composite = over(flow, [first, second], ParallelPolicy.MAJORITY)
    for _ in range(3):
        composite.tick_once()
    assert (first.status, second.status, composite.status) == (Status.FAILURE, Status.RUNNING, Status.RUNNING)
    assert first.log == ["initialise", "FAILURE"]


@pytest.mark.parametrize("flow", default_flows())
def test_interrupting_stops_the_running_child(flow: type[ControlFlow]) -> None:
    child, other = Child("1", Status.SUCCESS, ticks=5), Child("2", Status.SUCCESS)
    composite = over(flow, [child, other], ParallelPolicy.MAJORITY)
    composite.tick_once()
    composite.stop(Status.INVALID)
    assert child.log == ["initialise", "INVALID"]
    assert other.log == []


@pytest.mark.parametrize("flow", default_flows())
def test_ticked_again_it_starts_from_its_first_child(flow: type[ControlFlow]) -> None:
    first, second = Child("1", Status.SUCCESS, ticks=0), Child("2", Status.SUCCESS, ticks=0)
    composite = over(flow, [first, second], ParallelPolicy.MAJORITY)
    composite.tick_once()
    composite.tick_once()
    assert first.log.count("initialise") == 2


def test_sequence_is_py_trees_own() -> None:
    assert type(over(SequenceFlow, [], ParallelPolicy.ALL)) is py_trees.composites.Sequence
