"""Programs of goal nodes: generators that say, step by step, what they wait for next."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from py_trees.behaviour import Behaviour

from reactree_ros.background.pending import Pending
from reactree_ros.tree.listener import Call


@dataclass(frozen=True)
class Wait:
    """Wait for a pending result; what comes back is its value, or what it failed with is raised.

    Attributes:
        while_held: Whether it goes on while the run is held; otherwise it is cancelled, and :class:`Held` is raised.
        call: What it was asked for outside of the run, which listeners are told; None for the run's own work. Its own
            work is to be looked at in the next tick, so that a run and its replay have the same ticks.
    """

    what: str  # its name, for errors
    pending: Pending[Any]
    late: type[Exception] = TimeoutError  # the type of the error if it does not come in time
    gone: type[Exception] | None = None  # the type of the error if somebody else cancels it; None: as if it were late
    next_tick: bool = False  # whether it is looked at in the next tick at the earliest, even if it is there at once
    seconds: float | None = None  # longest wait; None: as long as for a decision
    while_held: bool = True
    call: Call | None = None


@dataclass(frozen=True)
class Execute:
    """Carry a skill out by a leaf of its own; what comes back is the :class:`Observation`.

    If the run is held meanwhile, it is cancelled, and :class:`Held` is raised.
    """

    skill: str


@dataclass(frozen=True)
class Grow:
    """Run a subtree, which is inserted under the node; what comes back is its :class:`Status`."""

    subtree: Behaviour


@dataclass(frozen=True)
class Hold:
    """Wait as long as the run is held; nothing comes back."""


Step = Wait | Execute | Grow | Hold
#: What :meth:`ProgramNode.program` is; it returns whether the goal was reached.
Program = Generator[Step, Any, bool]
