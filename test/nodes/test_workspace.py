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
from processes import need_program

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
    # The interfaces are built without C++ and optimisation, which takes most of the time.
    quick = ["--cmake-args", "-DBUILD_TESTING=OFF", "-DCMAKE_C_FLAGS=-O0 -w", "-DCMAKE_CXX_FLAGS=-O0 -w"]
    colcon = [sys.executable, "-c", "import sys; from colcon_core.command import main; sys.exit(main())"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CMAKE_PREFIX_PATH": sys.prefix}
    built = subprocess.run(
        [*colcon, *shlex.split(line), *quick],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert built.returncode == 0, built.stderr
    names = {"reactree_interfaces", *(path.parent.name for path in ROOT.glob("ros2_ws/src/*/setup.py"))}
    for name in {*names, "reactree_ros"}:
        assert (tmp_path / f"install/{name}/share/{name}/package.xml").exists(), name
