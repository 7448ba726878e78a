"""A private ROS graph for each test; without ROS, none is collected."""

from __future__ import annotations

import fcntl
import importlib.util
import itertools
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for processes.py and ros_graph.py

from processes import Processes

if importlib.util.find_spec("rclpy"):
    from ros_graph import Graph
else:
    collect_ignore_glob = ["test_*.py"]

#: Domains of graphs inside this process, and of processes: a node that a failed test left behind here hears no process.
#: One after the other, so that nothing of a test that has ended is heard in the next.
HERE, APART = itertools.cycle(range(81, 90)), itertools.cycle(range(91, 100))


#: ROS packages that no wheel of the package index has (`make test-ros`): a test that needs one is skipped without it.
OPTIONAL = (
    "delivery_interfaces",
    "launch",
    "launch_ros",
    "nav2_msgs",
    "py_trees_ros",
    "py_trees_ros_interfaces",
    "tf2_msgs",
    "tf2_ros",
    "vision_msgs",
)


def lacks(error: BaseException | None) -> str:
    """Say which optional ROS package an error is about; empty if it is another error, or the package is here."""
    if type(error).__name__ == "PackageNotFoundError" and "'reactree_ros'" in str(error):
        return "reactree_ros as colcon builds it"
    package = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    found = importlib.util.find_spec(package) if package in OPTIONAL else None
    return package if package in OPTIONAL and (found is None or found.origin is None) else ""  # the folder launch/


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let SWEEP leave cases out, but no test: each takes processor time in several nodes."""
    item.add_marker("ros")
    if item.get_closest_marker("parametrize") is not None:
        item.add_marker("sweep")


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> Generator[None, Any, Any]:
    """Skip a module that cannot be imported without an optional ROS package."""
    module = yield
    load = module._getobj

    def or_skip() -> Any:
        try:
            return load()
        except pytest.Collector.CollectError as error:
            cause = error.__cause__ or error.__context__
            if package := lacks(cause):
                pytest.skip(f"needs {package}", allow_module_level=True)
            raise

    module._getobj = or_skip
    return module


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Generator[None, Any, Any]:
    """Skip a test one of whose fixtures cannot be made without an optional ROS package."""
    return (yield from _or_skip())


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Skip a test that cannot go on without an optional ROS package."""
    return (yield from _or_skip())


def _or_skip() -> Generator[None, Any, Any]:
    try:
        return (yield)
    except (ImportError, LookupError) as error:
        if package := lacks(error):
            pytest.skip(f"needs {package}")
        raise


def pytest_make_parametrize_id(val: object) -> str | None:
    """Shorten what a test is called by: where setproctitle is, ROS names a log file after the test that runs."""
    return val[:40] if isinstance(val, str) and len(val) > 40 else None


def unused(domains: Iterator[int]) -> Iterator[int]:
    """Yield a ROS domain that no other run of these tests on this machine uses meanwhile."""
    for number in itertools.islice(domains, 9):
        with (Path(tempfile.gettempdir()) / f"reactree_ros_domain_{number}.lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield number
            return
    pytest.fail("every ROS domain from 81 to 99 is in use by other runs of these tests")


@pytest.fixture
def domain() -> Iterator[int]:
    """A ROS domain for nodes inside this process."""
    yield from unused(HERE)


@pytest.fixture
def graph(domain: int) -> Iterator[Graph]:
    """An empty ROS graph, in a context and a domain of its own."""
    graph = Graph(domain)
    yield graph
    graph.close()


@pytest.fixture
def house(graph: Graph, tmp_path: Path) -> Any:
    """A house in such a graph, in which there is no robot and no bridge yet."""
    from robot_house import House  # needs Nav2's messages

    return House(graph, tmp_path)


@pytest.fixture
def processes() -> Iterator[Processes]:
    """Starts processes in a domain of the test's own; they are gone at its end."""
    for domain in unused(APART):
        processes = Processes(domain)
        yield processes
        processes.kill_all()
