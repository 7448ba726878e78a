"""pyrobosim with robots that do what robots do: run in place of its own player, each with the habit of its document."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from reactree_lab.worlds.pyrobosim.player import Player
from reactree_lab.worlds.pyrobosim.simulator import Simulator
from reactree_lab.worlds.running import Spare, serve


class UnrulySimulator(Simulator):
    module = "unruly_player"


UNRULY = Spare(UnrulySimulator)


class UnrulyPlayer(Player):
    """Does what its document's ``habit`` says."""

    def load(self, file: str, document: Mapping[str, Any], *others: Any) -> dict[str, Any]:
        self._habit = document.get("habit", "")
        self._looks = 0
        return super().load(file, document, *others)

    def perform(self, robot: Any, action: Any, realtime_factor: float) -> Any:
        habit = getattr(self, f"_{self._habit}_{action.type}", super().perform)
        return habit(robot, action, realtime_factor)

    def _done(self) -> Any:
        from pyrobosim.planning.actions import ExecutionResult, ExecutionStatus

        return ExecutionResult(ExecutionStatus.SUCCESS)

    def _lies_pick(self, robot: Any, action: Any, factor: float) -> Any:
        return self._done()

    _lies_place = _lies_open = _lies_pick

    def _lies_navigate(self, robot: Any, action: Any, factor: float) -> Any:
        return super().perform(robot, action, factor) if "kitchen" in action.target_location.name else self._done()

    def _drops_place(self, robot: Any, action: Any, factor: float) -> Any:
        """What it puts down falls to the floor."""
        dropped = robot.manipulated_object
        result = super().perform(robot, action, factor)
        dropped.parent.children.remove(dropped)
        return result

    def _blinks_detect(self, robot: Any, action: Any, factor: float) -> Any:
        """Every other time it sees but the first thing."""
        result = super().perform(robot, action, factor)
        self._looks += 1
        robot.last_detected_objects = robot.last_detected_objects[: None if self._looks % 2 else 1]
        return result

    def _fails_detect(self, robot: Any, action: Any, factor: float) -> Any:
        from pyrobosim.planning.actions import ExecutionResult, ExecutionStatus

        return ExecutionResult(ExecutionStatus.EXECUTION_FAILURE, "The lens is fogged.")

    def _drifts_pick(self, robot: Any, action: Any, factor: float) -> Any:
        """It rolls away before it picks up."""
        from pyrobosim.utils.pose import Pose

        pose = robot.get_pose()
        robot.set_pose(Pose(x=pose.x + 0.1, y=pose.y, yaw=pose.get_yaw()))
        return super().perform(robot, action, factor)

    def _hangs_navigate(self, robot: Any, action: Any, factor: float) -> Any:
        """It stands before an obstacle for ever, until somebody cancels."""
        from pyrobosim.planning.actions import ExecutionResult, ExecutionStatus

        while not robot.path_executor.cancel_execution:
            time.sleep(0.01)
        return ExecutionResult(ExecutionStatus.CANCELED, "Canceled.")

    def _ignores_navigate(self, robot: Any, action: Any, factor: float) -> Any:
        while True:
            time.sleep(0.01)

    def _errs_pick(self, robot: Any, action: Any, factor: float) -> Any:
        return robot.pick_object(None)  # an error of pyrobosim's

    def _crashes_navigate(self, robot: Any, action: Any, factor: float) -> Any:
        os._exit(3)


if __name__ == "__main__":
    serve(UnrulyPlayer)
