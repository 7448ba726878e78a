"""A private ROS graph for each test; collected, though not run, without ROS."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for ros_graph.py

if importlib.util.find_spec("rclpy"):
    from ros_graph import Graph

#: One after the other, so that nothing of a test that ended is heard in the next.
DOMAINS = itertools.cycle(range(81, 90))


@pytest.fixture
def graph() -> Iterator[Graph]:
    """An empty ROS graph, in a context and a domain of its own."""
    graph = Graph(next(DOMAINS))
    yield graph
    graph.close()
