"""Bring-up: reads states first, leaves alone what is somebody else's, and says whose that is."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from processes import Process, Processes, release
from reactree_interfaces.msg import Heartbeat
from ros_graph import Graph

INSTRUCTION = "Put 1 pudding and 1 apple on the coffee table"


@pytest.fixture
def manager(processes: Processes) -> Iterator[Graph]:
    """Somebody else in the domain of the processes."""
    graph = Graph(processes.domain)
    yield graph
    graph.close()


def ask_for(manager: Graph, *transitions: str) -> None:
    """Do what a lifecycle manager does: ask for transitions without asking anybody."""
    for name in transitions:
        asked = Transition(id=getattr(Transition, f"TRANSITION_{name}"))
        assert manager.call(ChangeState, "held_bridge/change_state", transition=asked).success


def state(manager: Graph) -> str:
    return str(manager.call(GetState, "held_bridge/get_state").current_state.label)


def bring_up(processes: Processes, *arguments: str) -> Process:
    return processes.node("bring_up", *arguments)


# ---------------------------------------------------------------------- beside somebody else's bring-up


@pytest.mark.parametrize("already", [(), ("CONFIGURE",), ("CONFIGURE", "ACTIVATE")])
def test_a_node_is_brought_up_from_whatever_state_it_is_in(
    processes: Processes, manager: Graph, already: tuple[str, ...]
) -> None:
    bridge = processes.held("bridge")
    ask_for(manager, *already)
    assert bring_up(processes, "held_bridge").end() == 0
    assert state(manager) == "active"
    bridge.signal(signal.SIGINT)
    assert bridge.ended_cleanly(0)


def test_a_lifecycle_manager_at_work_beside_it_does_no_harm(processes: Processes, manager: Graph) -> None:
    held = [processes.held(kind) for kind in ("bridge", "inference")]
    both = [bring_up(processes, *names) for names in (("held_bridge", "held_inference"), ("held_bridge",))]
    configure = Transition(id=Transition.TRANSITION_CONFIGURE)
    for _ in range(20):  # most of them are refused
        manager.call(ChangeState, "held_bridge/change_state", transition=configure)
    assert [one.end() for one in both] == [0, 0], both[0].output + both[1].output
    assert state(manager) == "active"
    for process in held:
        process.signal(signal.SIGINT)
        assert process.ended_cleanly(0)


def test_a_node_that_was_shut_down_is_named(processes: Processes, manager: Graph) -> None:
    processes.held("bridge")
    ask_for(manager, "UNCONFIGURED_SHUTDOWN")
    process = bring_up(processes, "held_bridge")
    assert process.end() == 1
    assert "error: 'held_bridge' was shut down; end it and start it anew" in process.output


# ---------------------------------------------------------------------- bounds


def test_a_node_that_is_there_and_never_answers_is_named_within_a_bound(processes: Processes, manager: Graph) -> None:
    manager.bridge(name="held_bridge", active=False)
    heard = manager.listen(Heartbeat, "heartbeat")
    manager.until(lambda: heard, "it lives; from now on nothing of it runs any more")
    process = bring_up(processes, "held_bridge")
    assert process.end() == 1
    assert "error: 'held_bridge' does not say within 15 s in which state it is" in process.output


def test_a_node_that_is_not_there_is_named_within_a_bound(processes: Processes) -> None:
    process = bring_up(processes, "held_bridge", "--timeout", "1")
    assert process.end() == 1
    assert "error: there is no node 'held_bridge' within 1 s" in process.output


# ---------------------------------------------------------------------- whose node it is


def test_of_two_nodes_of_one_name_neither_is_touched_and_both_are_named(processes: Processes, manager: Graph) -> None:
    bridges = [processes.held("bridge") for _ in range(2)]
    for bridge in bridges:
        bridge.wait_for("ready")
    process = bring_up(processes, "held_bridge")
    assert process.end() == 1
    for bridge in bridges:
        assert f"a node '/held_bridge' (process {bridge.pid} on " in process.output
    assert "end one, or give each launch a namespace of its own" in process.output
    assert state(manager) == "unconfigured"


def test_a_second_launch_starts_nothing_and_says_whose_node_it_met_and_the_first_goes_on(
    processes: Processes, tmp_path: Path
) -> None:
    bridge, inference = processes.held("bridge"), processes.held("inference")
    assert bring_up(processes, "held_inference", "held_bridge").end() == 0
    release(inference)
    file = tmp_path / "parameters.yaml"
    names = "{bridge: held_bridge, inference: held_inference}"
    file.write_text(f"/**/reactree_planner: {{ros__parameters: {names}}}")
    first = processes.launch(f"params_file:={file}", f"instruction:={INSTRUCTION}")
    bridge.wait_for("holds: go to kitchen 1")

    second = processes.launch(f"instruction:={INSTRUCTION}")
    assert second.ended_cleanly(1)
    nodes = {"inference": "inference_node", "reactree_planner": "planner_node", "watchdog": "watchdog"}
    met = [f"there is a node '/{name}' (process {first.pid_of(of)} on " for name, of in nodes.items()]
    assert any(words in second.output for words in met), "it names one, whichever it met first"
    assert "already; end that, or give this launch a namespace of its own" in second.output
    assert "nothing was started" in second.output
    assert "bridge_node" not in second.output

    release(bridge)
    assert first.ended_cleanly(0)
    assert "Goal reached (end: done, GSR 1.00, SSR 1.00)" in first.output


def test_a_launch_begins_where_one_that_was_killed_has_left_nothing(processes: Processes) -> None:
    first = processes.launch()
    first.wait_until_up()
    first.kill()
    assert processes.launch(f"instruction:={INSTRUCTION}").ended_cleanly(0)
