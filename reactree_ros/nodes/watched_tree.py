"""The planner's tree: py_trees_ros', whose statistics of ticks are made only as long as somebody watches."""

from __future__ import annotations

from typing import Any

import py_trees_ros


class WatchedTree(py_trees_ros.trees.BehaviourTree):
    """A tree whose ticks cost less while no snapshot stream is open: averages and variances go into snapshots only.

    Those that somebody sees begin with the first tick after the stream was opened.
    """

    _counted = False

    def _statistics_pre_tick_handler(self, tree: Any) -> None:
        wanted = bool(self.snapshot_streams)
        if wanted and not self._counted:
            for series in (self.time_series, self.tick_interval_series, self.tick_duration_series):
                series.clear()
        self._counted = wanted
        if wanted:
            super()._statistics_pre_tick_handler(tree)

    def _statistics_post_tick_handler(self, tree: Any) -> None:
        if self._counted:
            super()._statistics_post_tick_handler(tree)
