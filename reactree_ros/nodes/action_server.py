"""An action server that accepts goals faster than rclpy's."""

from __future__ import annotations

from typing import Any

import numpy
import rclpy.action


class ActionServer(rclpy.action.ActionServer):
    """rclpy's action server, with goal ids that are fast to format.

    rclpy formats an id several times for each goal, cancel and result, for log lines that are switched off. Formatting
    the array of an id took a good part of the time between goal and skill.
    """

    def take_data(self) -> Any:
        """Take incoming requests."""
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
