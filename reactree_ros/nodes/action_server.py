"""An action's server that takes in a goal quickly."""

from __future__ import annotations

from typing import Any

import numpy
import rclpy.action


class ActionServer(rclpy.action.ActionServer):
    """rclpy's, with goal ids that are formatted quickly.

    rclpy formats the id of each goal four times, and each request to cancel or for a result, for log lines that nobody
    writes. The array that an id is takes a good part of the time between goal and skill for it.
    """

    def take_data(self) -> Any:
        """Take what has come."""
        taken = super().take_data()
        for kind in {"goal", "cancel", "result"} & set(taken):
            request = taken[kind][1]
            id = request.goal_info.goal_id if kind == "cancel" else request.goal_id
            id._uuid = id.uuid.view(_GoalId)  # the property would make a plain array of it
        return taken


class _GoalId(numpy.ndarray[Any, numpy.dtype[numpy.uint8]]):
    def __repr__(self) -> str:
        return self.tobytes().hex()

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)
