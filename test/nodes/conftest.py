"""A private ROS graph for each test; collected, though not run, without ROS."""

from __future__ import annotations

import fcntl
import importlib.util
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for processes.py and ros_graph.py

from processes import Processes

if importlib.util.find_spec("rclpy"):
    from ros_graph import Graph

DOMAINS = range(81, 100)
#: One after the other, so that nothing of a test that has ended is heard in the next.
NEXT = itertools.cycle(DOMAINS)


@pytest.fixture
def domain() -> Iterator[int]:
    """A ROS domain that no other run of these tests on this machine uses meanwhile."""
    for number in itertools.islice(NEXT, len(DOMAINS)):
        with (Path(tempfile.gettempdir()) / f"reactree_ros_domain_{number}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield number
            return
    pytest.fail(f"every ROS domain from {DOMAINS[0]} to {DOMAINS[-1]} is in use by other runs of these tests")


@pytest.fixture
def graph(domain: int) -> Iterator[Graph]:
    """An empty ROS graph, in a context and a domain of its own."""
    graph = Graph(domain)
    yield graph
    graph.close()


@pytest.fixture
def processes(domain: int) -> Iterator[Processes]:
    """Starts processes in a domain of the test's own; they are gone at its end."""
    processes = Processes(domain)
    yield processes
    processes.kill_all()
