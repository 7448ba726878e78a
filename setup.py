"""What `pyproject.toml` cannot say: the version, the files that ROS looks for under share/, and the nodes.

The version stands in `package.xml`, where ROS tools read it, and the licence too: how a `[project]` table names a
licence is not the same in the setuptools of Ubuntu 24.04 and in today's.
"""

import os
import sys
from glob import glob
from importlib.metadata import distributions
from pathlib import Path
from xml.etree import ElementTree

import setuptools
from setuptools import Distribution, setup

if int(setuptools.__version__.partition(".")[0]) < 64:  # as Ubuntu 22.04 has it (ROS 2 Humble)
    wanted = f"{sys.executable} -m pip install -U 'setuptools>=64,<80'"
    sys.exit(f"error: setuptools {setuptools.__version__} is too old: {wanted}")

NAME = "reactree_ros"
HERE = Path(__file__).parent
PACKAGE = ElementTree.parse(HERE / "package.xml").getroot()
# Of use only where ROS is sourced; `ros2 run` finds them by these names.
NODES = (
    "answer",
    "bridge_node",
    "bring_up",
    "composed",
    "execute_task",
    "inference_node",
    "planner_node",
    "robot_bridge_node",
    "view",
    "voice",
    "watchdog",
)


class WithNodes(Distribution):
    """Adds the nodes to the commands of `pyproject.toml` where ROS is sourced, and can be read by colcon."""

    def parse_config_files(self, *args, **kwargs):
        """Read `pyproject.toml`, then add to it."""
        super().parse_config_files(*args, **kwargs)
        # colcon prints what is read and evaluates that again, which fails for an object
        self.python_requires = self.metadata.python_requires = str(self.python_requires)
        if {"install", "develop"} & {*sys.argv}:  # colcon, which installs no requirement
            check(self.install_requires)
        if "AMENT_PREFIX_PATH" in os.environ:
            self.entry_points["console_scripts"] += [f"{name} = {NAME}.nodes.start:main" for name in NODES]


def check(requirements: list[str]) -> None:
    """End a build whose nodes could not start: a requirement is not here, or as old as Ubuntu's."""
    from packaging.requirements import Requirement  # colcon needs it, too

    lacked = {}
    for one in map(Requirement, requirements):
        found = next((there.version for there in distributions(name=one.name)), "not there")
        if found == "not there" or not one.specifier.contains(found, prereleases=True):
            lacked[str(one)] = found
    if lacked:
        said = ", ".join(f"{one} ({found})" for one, found in lacked.items())
        pip = " ".join(f"'{one}'" for one in [*lacked, "setuptools>=64,<80"])
        sys.exit(
            f"error: {NAME} needs {said} in the Python that builds. Next to src: {sys.executable} -m venv "
            f"--system-site-packages .venv-ros && .venv-ros/bin/python -m pip install {pip} && .venv-ros/bin/python "
            '"$(command -v colcon)" build'
        )


def share(folder: str, pattern: str) -> tuple[str, list[str]]:
    """The files of a folder as a `data_files` entry under share/."""
    found = sorted(glob(pattern, root_dir=HERE / folder))
    return f"share/{NAME}/{folder}", [os.path.join(folder, name) for name in found]


setup(
    distclass=WithNodes,
    version=PACKAGE.findtext("version"),
    license=PACKAGE.findtext("license"),
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        # the last two, because `colcon build --symlink-install` builds where only these files are linked to
        (f"share/{NAME}", ["package.xml", "README.md", "pyproject.toml"]),
        (f"share/{NAME}/hook", ["resource/virtual_environment.dsv"]),  # sourced with the workspace: `colcon.pkg`
        share("launch", "*.launch.py"),
        share("config", "*.yaml"),
        share("config/robots", "*.yaml"),
    ],
)
