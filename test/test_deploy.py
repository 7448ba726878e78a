"""The files of deploy/ name what is there; systemd reads its units where it is installed."""

import re
import shutil
import subprocess
from importlib.metadata import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from reactree_ros.llm.spec import MODELS

CHECKOUT = Path(__file__).parents[1]
DEPLOY = CHECKOUT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
SERVICES: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
UNITS = sorted(DEPLOY.glob("*.service"))
IN_IMAGE = "/opt/reactree_ros/"  # where the image and the units have the checkout


def sourced(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([DEPLOY / "sourced", *map(str, arguments)], text=True, capture_output=True, timeout=60)


def test_a_command_gets_its_arguments_and_what_the_workspace_sets(tmp_path: Path) -> None:
    workspace = tmp_path / "a workspace"
    (workspace / "install").mkdir(parents=True)
    (workspace / "install/setup.bash").write_text('[[ -z $UNSET_HERE ]]; export FOUND="workspace with $# arguments"')
    ended = sourced(workspace, "bash", "-c", 'echo "$FOUND, $1"; exit 7', "name", "--merge 'a b'")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "workspace with 0 arguments, --merge 'a b'\n", "")


def test_a_workspace_that_is_not_built_is_named_with_the_way_out(tmp_path: Path) -> None:
    ended = sourced(tmp_path, "true")
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
    assert str(tmp_path) in ended.stderr
    assert "colcon build" in ended.stderr
    assert sourced(tmp_path).stderr.startswith("usage:")


def test_paths_and_extras_that_files_name_exist() -> None:
    texts = [DOCKERFILE, *(unit.read_text() for unit in UNITS)]
    named = {path for text in texts for path in re.findall(rf"{IN_IMAGE}([\w./]+)", text)}
    assert "deploy/sourced" in named
    assert all((CHECKOUT / path).exists() for path in named)
    extras = re.search(r"^ARG EXTRAS=(.+)$", DOCKERFILE, re.MULTILINE)
    assert extras
    assert set(extras[1].split(",")) <= set(metadata("reactree_ros").get_all("Provides-Extra") or ())


def test_the_nodes_ask_the_server_that_stands_beside_them() -> None:
    launch, port = SERVICES["nodes"]["command"], SERVICES["vllm"]["ports"][0]
    arguments = dict(one.split(":=", 1) for one in launch if ":=" in one)
    assert arguments.pop("llm") == "openai"
    assert arguments == {"base_url": f"http://{port.rpartition(':')[0]}/v1"}
    assert arguments.keys() <= MODELS.get("openai").settings.model_fields.keys()
    build = SERVICES["nodes"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_each_variable_has_a_default_or_says_that_it_is_needed() -> None:
    text = "\n".join(line.partition(" #")[0] for line in (DEPLOY / "compose.yaml").read_text().splitlines())
    variables = re.findall(r"\$\{[^}]*\}", text)
    assert len(variables) == text.count("$") > 3
    assert all(":-" in one or ":?" in one for one in variables)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_no_fault_in_a_unit(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text().replace(IN_IMAGE + "deploy", str(DEPLOY)).replace("/opt/vllm/bin/vllm", "/bin/true")
    (tmp_path / unit.name).write_text(text)
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", tmp_path / unit.name], text=True, capture_output=True, timeout=60
    )
    assert (ended.returncode, ended.stderr) == (0, "")
