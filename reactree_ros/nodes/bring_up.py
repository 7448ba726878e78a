"""Configures and activates lifecycle nodes, one after the other; ends with 0, or with 1 if one fails.

A node is left in a state that it has already, so a lifecycle manager may work at the same time. If two nodes have one
name, both are left alone: one of them is somebody else's. At the end each node must have everything that it needs, such
as a robot's servers; `bring_up` waits for that.

`launch_ros` waits for transition events, whose first one can be lost (ros2/rcl#1166: it then waits forever), and leaves
a traceback if it is stopped while a node starts. So the launch does not do this itself.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter
from typing import Any

import rclpy
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.node import Node
from rclpy.utilities import remove_ros_args
from reactree_interfaces.msg import Heartbeat
from reactree_interfaces.srv import ModelReady
from std_srvs.srv import Trigger

from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Introduction
from reactree_ros.nodes.heartbeat import PERIOD, Lives
from reactree_ros.nodes.spinning import Spinner, interruptible

#: Time to hear nodes that live already, in seconds. Fast DDS repeats a lost announcement after 3 s.
LISTENING = 4.0
#: Longest wait for a prompt answer, and for a silent node to be forgotten, in seconds.
DISCOVERY = 15.0
#: Longest wait for a transition, in seconds.
CARRYING_OUT = 120.0
#: Longest wait for a language model, in seconds.
LOADING = 1800.0
#: Time between two checks of a state, or of a model that loads, in seconds.
LOOK_PERIOD = 0.5
#: Tries of a transition: a model may become ready right after one.
TRIES = 3
#: Checks of a state before the node is given up.
LOOKS = 100
ACTIVE, FAILED, INTERRUPTED = 0, 1, 130
#: The transition of each state, and what it makes of the node.
STEPS = {
    State.PRIMARY_STATE_UNCONFIGURED: (Transition.TRANSITION_CONFIGURE, "configured"),
    State.PRIMARY_STATE_INACTIVE: (Transition.TRANSITION_ACTIVATE, "activated"),
}
ITSELF = "it says itself why"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", nargs="*", help="names of the nodes, relative to this one's namespace")
    parser.add_argument("--also", nargs="*", default=[], help="names of nodes that must live, but have no lifecycle")
    parser.add_argument("--absent", nargs="*", default=[], help="names of nodes that must not live")
    longest = "longest wait for a node, or for what it needs, in seconds"
    parser.add_argument("--timeout", type=float, default=60.0, help=longest)
    options = parser.parse_args(remove_ros_args(sys.argv)[1:])
    with interruptible() as asked:
        node = rclpy.create_node("bring_up")
        with Spinner(node, asked) as spinner:
            work = BringUp(node, spinner, options)
            checks = itertools.chain(
                map(work.absent, options.absent),
                map(work.active, options.nodes),
                map(work.there, options.also),
                map(work.equipped, options.nodes),
            )
            problem = next(filter(None, checks), "")
    if asked:
        sys.exit(INTERRUPTED)
    if problem:
        print(f"error: {problem}", file=sys.stderr)  # noqa: T201
    sys.exit(FAILED if problem else ACTIVE)


class BringUp:
    """Brings nodes up; every public method returns an obstacle, or an empty text."""

    def __init__(self, node: Node, spinner: Spinner, options: argparse.Namespace) -> None:
        self._node, self._spinner = node, spinner
        self._timeout = options.timeout
        self._lives = Lives(node, others=(*options.absent, *options.nodes, *options.also))
        self._began = steady.now()
        self._clients: dict[str, tuple[Any, Introduction]] = {}

    def absent(self, name: str) -> str:
        """Check that a node does not live; a killed one is forgotten after a while."""
        full = self._full(name)

        def settled() -> bool:
            listened = steady.now() - self._began > LISTENING
            return bool(self._living(name)) or (listened and full not in self._in_the_graph())

        self._spinner.spin_until(settled, seconds=DISCOVERY)
        if others := self._living(name):
            return f"there is {_whose(others[0])} already; end that, or give this launch a namespace of its own"
        if full in self._in_the_graph():
            return f"there is a node '{full}' already that says nothing; end that, or give this one another namespace"
        return ""

    def there(self, name: str) -> str:
        """Wait until a node lives; it must be the only one of its name."""
        if not self._spinner.spin_until(lambda: bool(self._living(name)), seconds=self._timeout):
            return f"there is no node '{name}' within {self._timeout:g} s"
        full = self._full(name)

        def settled() -> bool:  # on a busy machine all nodes beat rarely, and another one is heard late
            beats, since = self._lives.beats[full], self._lives.first[full]
            listened = steady.now() - since > LISTENING and beats > LISTENING / PERIOD
            return listened or len(self._living(name)) != 1

        self._spinner.spin_until(settled, seconds=DISCOVERY)
        others = self._living(name)
        if len(others) > 1:
            return f"there is {' and '.join(map(_whose, others))}; end one, or give each launch a namespace of its own"
        return ""

    def active(self, name: str) -> str:
        """Bring a node from its state to the active one."""
        failures = Counter[int]()
        for _ in range(LOOKS):
            if problem := self.there(name):
                return problem
            state = self._state(name)
            if state == State.PRIMARY_STATE_ACTIVE:
                return ""
            if state is None:
                return f"'{name}' does not say within {DISCOVERY:g} s in which state it is"
            if state == State.PRIMARY_STATE_FINALIZED:
                return f"'{name}' was shut down; end it and start it anew"
            if state not in STEPS:  # somebody else's transition
                self._wait()
                continue
            transition, done = STEPS[state]
            if self._changed(name, transition, state):
                continue
            failures[transition] += 1
            why = self._obstacle(name) if transition == Transition.TRANSITION_ACTIVATE else ITSELF
            if why or failures[transition] == TRIES:
                return f"'{name}' could not be {done}; {why or ITSELF}"
        return f"'{name}' does not become active; somebody else changes its state, too"

    def equipped(self, name: str) -> str:
        """Wait until a node has everything that it needs, e.g. the robot's servers."""
        end, said = steady.now() + self._timeout, False
        while True:
            answer = self._ask(Trigger, f"{name}/check", DISCOVERY)
            if answer is None:
                return f"'{name}' does not say within {DISCOVERY:g} s whether everything that it needs is there"
            if answer.success:
                return ""
            if self._spinner.asked or steady.now() > end:
                return f"'{name}' lacks what it needs (for {self._timeout:g} s): {answer.message}"
            if not said:
                print(f"'{name}' waits: {answer.message}", flush=True)  # noqa: T201
            said = True
            self._wait()

    def _wait(self) -> None:
        self._spinner.spin_until(lambda: False, seconds=LOOK_PERIOD)

    # ------------------------------------------------------------------ who is there

    def _full(self, name: str) -> str:
        return str(self._node.resolve_topic_name(name))

    def _living(self, name: str) -> list[Heartbeat]:
        self._lives.ended()
        return self._lives.living(self._full(name))

    def _in_the_graph(self) -> set[str]:
        found = self._node.get_node_names_and_namespaces()
        return {f"{namespace.rstrip('/')}/{name}" for name, namespace in found}

    # ------------------------------------------------------------------ what is asked of a node

    def _ask(self, kind: Any, service: str, seconds: float, **request: Any) -> Any:
        end, server = steady.now() + seconds, self._full(service.rpartition("/")[0])
        if service not in self._clients:
            self._clients[service] = self._node.create_client(kind, service), Introduction(self._node, server)
        client, introduction = self._clients[service]

        def reachable() -> bool:
            return client.service_is_ready() and introduction.done(self._lives.life(server))

        if not self._spinner.spin_until(reachable, seconds=seconds):
            return None
        answer = client.call_async(kind.Request(**request))
        if self._spinner.spin_until(answer.done, seconds=end - steady.now()):
            return answer.result()
        client.remove_pending_request(answer)
        return None

    def _state(self, name: str) -> int | None:
        answer = self._ask(GetState, f"{name}/get_state", DISCOVERY)
        return None if answer is None else int(answer.current_state.id)

    def _changed(self, name: str, transition: int, before: int) -> bool:
        asked = Transition(id=transition)
        answer = self._ask(ChangeState, f"{name}/change_state", CARRYING_OUT, transition=asked)
        return bool(answer is not None and answer.success) or self._state(name) not in (before, None)

    def _obstacle(self, name: str) -> str:
        end = steady.now() + LOADING
        while steady.now() < end:
            answer = self._ask(ModelReady, f"{name}/ready", DISCOVERY / 3)
            if answer is None:
                return ITSELF
            if answer.state != ModelReady.Response.LOADING:
                return "" if answer.state == ModelReady.Response.READY else str(answer.message)
            self._wait()
        return f"its language model was not loaded within {LOADING:g} s"


def _whose(said: Heartbeat) -> str:
    return f"a node '{said.node}' (process {said.pid} on {said.host})"


if __name__ == "__main__":
    main()
