"""An action's server that takes in a goal quickly."""

from __future__ import annotations

from typing import Any

import numpy
import rclpy.action


class ActionServer(rclpy.action.ActionServer):
    """rclpy's, with goal ids that are formatted quickly.

    rclpy formats the id of each goal four times for log lines that nobody writes, and the array that an id is takes a
    good part of the time between goal and skill for it.
    """

    def take_data(self) -> Any:
        """Take what has come."""
        taken = super().take_data()
        for kind in {"goal", "result"} & set(taken):
            id = taken[kind][1].goal_id
            id._uuid = id.uuid.view(_GoalId)  # the property would make a plain array of it
        return taken


class _GoalId(numpy.ndarray[Any, numpy.dtype[numpy.uint8]]):
    def __format__(self, spec: str) -> str:
        return format(self.tobytes().hex(), spec)
