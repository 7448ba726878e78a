"""A workspace as the README builds it: what is in its environment is seen wherever the workspace is sourced."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from processes import LONGEST, need_program

LIMIT = 60.0
ROOT = Path(__file__).resolve().parents[2]
SITE = Path("lib", Path(sysconfig.get_path("purelib")).parent.name, "site-packages")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """What the sourced workspace is sourced by, and an environment with one module beside it."""
    from ament_index_python.packages import get_package_prefix

    prefix = Path(get_package_prefix("reactree_ros"))
    install = next(folder for folder in (prefix, prefix.parent) if (folder / ".colcon_install_layout").exists())
    shutil.copytree(install, tmp_path / "install", symlinks=True, ignore=shutil.ignore_patterns("lib", "include"))
    (tmp_path / ".venv-ros" / SITE).mkdir(parents=True)
    (tmp_path / ".venv-ros" / SITE / "only_there.py").touch()
    return tmp_path


def test_sourcing_the_workspace_is_enough_to_see_its_environment(workspace: Path) -> None:
    script = (
        f"source install/local_setup.bash && exec '{sys.executable}' -c 'import only_there as o; print(o.__file__)'"
    )
    asked = subprocess.run(
        ["bash", "-c", script], cwd=workspace, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert asked.returncode == 0, asked.stderr
    assert Path(asked.stdout.strip()).resolve() == workspace / ".venv-ros" / SITE / "only_there.py"


def test_a_launch_where_pydantic_is_too_old_says_what_installs_it(tmp_path: Path) -> None:
    need_program("ros2")
    metadata = tmp_path / "pydantic-1.10.14.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: pydantic\nVersion: 1.10.14\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = ["ros2", "launch", "reactree_ros", "household.launch.py", "--show-args"]
    asked = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert asked.returncode == 1
    assert "reactree_ros needs pydantic>=2.6 (1.10.14): " in asked.stderr
    assert " -m pip install 'pydantic>=2.6'" in asked.stderr


def test_a_workspace_of_ones_own_has_every_package_by_the_readmes_line(tmp_path: Path) -> None:
    pytest.importorskip("colcon_core", reason="needs colcon, which builds workspaces")
    (line,) = re.findall(r"^python3 .* (build --base-paths .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    (tmp_path / "src").mkdir()
    (tmp_path / "src/reactree_ros").symlink_to(ROOT)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CMAKE_PREFIX_PATH": sys.prefix}

    def colcon(*arguments: str) -> str:
        program = "import sys; from colcon_core.command import main; sys.exit(main())"
        command = [sys.executable, "-c", program, *arguments]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=LONGEST)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    names = {"reactree_ros", *(path.parent.name for path in ROOT.glob("ros2_ws/src/*/setup.py"))}
    verb, *base_paths = shlex.split(line)
    assert set(colcon("list", "--names-only", *base_paths).split()) == {*names, "reactree_interfaces"}
    # The interfaces take most of the time, and are there already; colcon looks for their script only.
    script = tmp_path / "install/reactree_interfaces/share/reactree_interfaces/package.sh"
    script.parent.mkdir(parents=True)
    script.touch()
    colcon(verb, *base_paths, "--packages-skip", "reactree_interfaces")
    for name in names:
        assert (tmp_path / f"install/{name}/share/{name}/package.xml").exists(), name
