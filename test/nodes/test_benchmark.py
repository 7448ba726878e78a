"""What the ROS benchmark makes of the times that it has seen."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.ros

MILLISECOND = 10**6


def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("ros_benchmark", Path(__file__).parents[2] / "benchmarks/ros.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("first", [0, 3, 10], ids=lambda late: f"the first {late} ms late")
def test_a_tick_that_is_late_makes_no_other_late(first: int) -> None:
    noise = [MILLISECOND // 10, -MILLISECOND // 10] * 50
    stamps = [20 * MILLISECOND * tick + about for tick, about in enumerate(noise)]
    stamps[0] += first * MILLISECOND
    late = benchmark().lateness(stamps, 20.0 * MILLISECOND)
    assert late[0] == pytest.approx(first + 0.2, abs=0.01)
    assert max(late[1:]) == pytest.approx(0.2, abs=0.01)
