"""A peer of Nav2's lifecycle manager: it asks for what that one asks for, in its order, and asks nobody before."""

from __future__ import annotations

from collections.abc import Sequence

from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from ros_graph import Graph

CONFIGURE, ACTIVATE = Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE
DEACTIVATE, CLEANUP = Transition.TRANSITION_DEACTIVATE, Transition.TRANSITION_CLEANUP
SHUTDOWN = Transition.TRANSITION_UNCONFIGURED_SHUTDOWN
#: In which state a node must be after a transition.
AFTER = {
    CONFIGURE: State.PRIMARY_STATE_INACTIVE,
    ACTIVATE: State.PRIMARY_STATE_ACTIVE,
    DEACTIVATE: State.PRIMARY_STATE_INACTIVE,
    CLEANUP: State.PRIMARY_STATE_UNCONFIGURED,
    SHUTDOWN: State.PRIMARY_STATE_FINALIZED,
}


class Manager:
    """Nav2's manager with ``bond_timeout: 0.0``: up in the order of the names, down in the reverse one.

    It gives a request up at the first node that does not do as it was asked, as Nav2's does.
    """

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self._graph, self._names = graph, names

    def startup(self) -> bool:
        return self._all(CONFIGURE) and self._all(ACTIVATE)

    def pause(self) -> bool:
        return self._all(DEACTIVATE)

    def resume(self) -> bool:
        return self._all(ACTIVATE)

    def reset(self) -> bool:
        return self._all(DEACTIVATE) and self._all(CLEANUP)

    def shutdown(self) -> bool:
        return all(self._all(transition) for transition in (DEACTIVATE, CLEANUP, SHUTDOWN))

    def _all(self, transition: int) -> bool:
        names = self._names if transition in (CONFIGURE, ACTIVATE) else self._names[::-1]
        return all(self._change(name, transition) for name in names)

    def _change(self, name: str, transition: int) -> bool:
        asked = Transition(id=transition)
        done = self._graph.call(ChangeState, f"{name}/change_state", transition=asked).success
        state = self._graph.call(GetState, f"{name}/get_state").current_state.id
        return bool(done) and state == AFTER[transition]
