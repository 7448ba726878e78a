"""ROS 2, without importing it: which distribution is sourced or found, and the Python that it is built for."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path

from reactree_ros.doctor.installation import NOTE, RIGHT, WRONG, ProbeFailed, in_a_process
from reactree_ros.plugins.installation import Diagnosis

#: Folder of installed distributions.
DISTRIBUTIONS = Path("/opt/ros")
#: Longest time to import rclpy, in seconds.
PATIENCE = 20.0
_LARGEST_DOMAIN = 232  # a larger one has no ports
_FOR = re.compile(r"\.cpython-(\d)(\d+)")
_LOOK = """
import json, rclpy
from rclpy.utilities import get_rmw_implementation_identifier
from reactree_ros.nodes.executors import lacking
print(json.dumps([get_rmw_implementation_identifier(), lacking()]))
"""


def ros(distributions: Path = DISTRIBUTIONS) -> Iterator[Diagnosis]:
    prefixes = [Path(one) for one in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if one]
    name = os.environ.get("ROS_DISTRO", "")
    if not name or not prefixes:
        yield from _not_sourced(distributions)
        return
    yield Diagnosis("distribution", RIGHT, f"{name}, sourced")
    built_for = _built_for(prefixes, "rclpy")
    rmw = _chosen_rmw(name, prefixes)
    yield rmw
    if built_for is None:
        yield Diagnosis("rclpy", WRONG, f"is not in {', '.join(map(str, prefixes))}", f"apt install ros-{name}-rclpy")
    elif built_for != sys.version_info[:2]:
        yield _of_another_python("rclpy", built_for)
    elif rmw.level is WRONG:
        yield Diagnosis("rclpy", NOTE, "found, but not tested: without an RMW it cannot be imported")
    else:
        yield _rclpy(name)
    yield _domain()
    yield _interfaces(prefixes)
    yield _py_trees_ros(name, prefixes)


def _not_sourced(distributions: Path) -> Iterator[Diagnosis]:
    found = sorted(one.parent for one in distributions.glob("*/setup.bash"))
    if not found:
        state = f"none is sourced, and {distributions} has none; only the nodes need it"
        yield Diagnosis("distribution", NOTE, state, "install one: https://docs.ros.org")
        return
    *_, newest = found
    state = f"{', '.join(one.name for one in found)} in {distributions}, not sourced; only the nodes need it"
    yield Diagnosis("distribution", NOTE, state, f"source {newest / 'setup.bash'}")
    for one in found:
        built_for = _built_for([one], "rclpy")
        if built_for is not None and built_for != sys.version_info[:2]:
            state = f"of {one.name} is built for Python {_dotted(built_for)}, this is {_dotted(sys.version_info[:2])}"
            yield Diagnosis("rclpy", NOTE, state, _take(built_for))


def _built_for(prefixes: Sequence[Path], package: str) -> tuple[int, int] | None:
    # the Python of the first package of that name; None if there is none
    for prefix in prefixes:
        for folder in sorted(prefix.glob(f"l*/python3*/*-packages/{package}")):
            names = [one.name for one in folder.glob("*.so")]
            if found := next((match for name in names if (match := _FOR.search(name))), None):
                return int(found[1]), int(found[2])
            version = re.search(r"python(\d)\.(\d+)", str(folder))
            if version is not None:
                return int(version[1]), int(version[2])
    return None


def _of_another_python(what: str, built_for: tuple[int, int]) -> Diagnosis:
    state = f"is built for Python {_dotted(built_for)}, this is {_dotted(sys.version_info[:2])}"
    return Diagnosis(what, WRONG, state, _take(built_for))


def _take(version: tuple[int, int]) -> str:
    return f"for the nodes, run and install with python{_dotted(version)}"


def _rclpy(name: str) -> Diagnosis:
    try:
        loaded, slow = in_a_process(_LOOK, seconds=PATIENCE)
    except ProbeFailed as error:
        remedy = f"source {DISTRIBUTIONS / name / 'setup.bash'} in a new shell, before anything else"
        return Diagnosis("rclpy", WRONG, f"cannot be imported: {error}", remedy)
    state = f"imports in Python {_dotted(sys.version_info[:2])}, over {loaded}"
    if slow:
        remedy = f"update ros-{name}-rclpy: with this one, decisions and idle nodes cost several times as much"
        return Diagnosis("rclpy", NOTE, f"{state}; {slow}", remedy)
    return Diagnosis("rclpy", RIGHT, state)


def _chosen_rmw(name: str, prefixes: Sequence[Path]) -> Diagnosis:
    index = "share/ament_index/resource_index/rmw_typesupport"
    names = {one.name for prefix in prefixes for one in (prefix / index).glob("rmw_*")}
    there = sorted(names - {"rmw_implementation"})  # rmw_implementation only chooses among the others
    chosen = os.environ.get("RMW_IMPLEMENTATION", "")
    state = f"installed: {', '.join(there) or 'none'}"
    if chosen and chosen not in there:
        remedy = f"apt install ros-{name}-{chosen.replace('_', '-')}, or unset RMW_IMPLEMENTATION"
        return Diagnosis("RMW", WRONG, f"RMW_IMPLEMENTATION is {chosen}; {state}", remedy)
    if not there:
        return Diagnosis("RMW", WRONG, state, f"apt install ros-{name}-rmw-cyclonedds-cpp")
    return Diagnosis("RMW", RIGHT, f"{chosen or 'as by default'}; {state}")


def _domain() -> Diagnosis:
    text = os.environ.get("ROS_DOMAIN_ID", "").strip()
    if not text:
        return Diagnosis("ROS_DOMAIN_ID", RIGHT, "not set: 0")
    if text.isascii() and text.isdigit() and int(text) <= _LARGEST_DOMAIN:
        return Diagnosis("ROS_DOMAIN_ID", RIGHT, text)
    return Diagnosis("ROS_DOMAIN_ID", WRONG, repr(text), f"set a number from 0 to {_LARGEST_DOMAIN}, or unset it")


def _interfaces(prefixes: Sequence[Path]) -> Diagnosis:
    what = "reactree_interfaces"
    built_for = _built_for(prefixes, what)
    if built_for == sys.version_info[:2]:
        return Diagnosis(what, RIGHT, "built and sourced")
    if built_for is not None:
        return _of_another_python(what, built_for)
    workspace = Path(__file__).resolve().parents[2] / "ros2_ws"
    if (workspace / "install" / what).is_dir():
        return Diagnosis(what, NOTE, "built, not sourced", f"source {workspace / 'install/setup.bash'}")
    absent = "not built, or its workspace is not sourced; only the nodes need them"
    return Diagnosis(what, NOTE, absent, "cd ros2_ws && colcon build && source install/setup.bash, in a checkout")


def _py_trees_ros(name: str, prefixes: Sequence[Path]) -> Diagnosis:
    folders = [str(folder) for prefix in prefixes for folder in prefix.glob("l*/python3*/*-packages")]
    found = next(iter(metadata.distributions(name="py_trees_ros", path=[*folders, *sys.path])), None)
    if found is None:
        remedy = f"apt install ros-{name}-py-trees-ros"
        return Diagnosis("py_trees_ros", NOTE, "not installed; only watching the tree needs it", remedy)
    return Diagnosis("py_trees_ros", RIGHT, found.version)


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))
