"""What lacks is named with a line that installs it for the process that lacks it: from a checkout, on no index."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import venv
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from sources import FOLDERS

from reactree_ros.cli.options import kinds
from reactree_ros.plugins import installation
from reactree_ros.plugins.installation import check_own_requirements, install_line

ROOT = Path(__file__).parents[2]
EXTRAS = {spec.extra for registry in kinds().values() for spec in registry if spec.extra}


def asked_for(line: str) -> list[Requirement]:
    _, *installed = line.split("-m pip install ")
    named = [shlex.split(one.partition(" && ")[0].removeprefix("--no-deps ")) for one in installed]
    return [Requirement(name) for names in named for name in names]


def consists_of(extra: str) -> set[str]:
    owner, _, name = extra.rstrip("]").partition("[")
    asked = [Requirement(line) for line in metadata.requires(owner) or []]
    names = (f'extra == "{name}"', f'extra == "{name}-no-deps"')
    of_it = [one for one in asked if one.marker is not None and str(one.marker).endswith(names)]
    ours = {f"{one.name}[{nested}]" for one in of_it if one.name in FOLDERS for nested in one.extras}
    return {one.name for one in of_it if one.name not in FOLDERS}.union(*map(consists_of, ours))


@pytest.mark.parametrize("extra", sorted(EXTRAS | {"reactree_lab[bench]", "reactree_lab[ray]"}))
def test_a_line_names_what_an_extra_consists_of_and_never_this_package(extra: str) -> None:
    named = {one.name for one in asked_for(install_line(extra))}
    assert named == consists_of(extra)
    assert named
    assert not named & set(FOLDERS)


def test_a_line_is_for_the_environment_of_the_process() -> None:
    assert sys.prefix != sys.base_prefix, "the tests run in a virtual environment"
    assert install_line("reactree_ros[openai]").startswith(f"{shlex.quote(sys.executable)} -m pip install ")


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    told = metadata.requires("reactree_ros")
    monkeypatch.setattr(metadata, "requires", lambda name: told)
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    monkeypatch.setattr(sys, "path", ["/opt/ros/jazzy/lib/python3.12/site-packages", "/usr/lib/python3/dist-packages"])
    monkeypatch.setattr(installation, "_externally_managed", lambda: True)
    return monkeypatch


def test_an_environment_on_the_path_is_the_one_that_is_installed_into(
    outside: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / ".venv-ros/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    outside.setattr(sys, "path", [*sys.path, str(site)])
    assert "-m venv" in install_line("reactree_ros[openai]"), "a folder is not an environment"
    (tmp_path / ".venv-ros/pyvenv.cfg").touch()
    assert install_line("reactree_ros[openai]") == f"{tmp_path}/.venv-ros/bin/python -m pip install 'openai>=1.40'"


def test_a_python_that_refuses_pip_is_not_asked_to_install(outside: pytest.MonkeyPatch) -> None:
    assert install_line("reactree_ros[openai]").startswith(
        "/usr/bin/python3 -m venv --system-site-packages .venv-ros && "
        ".venv-ros/bin/python -m pip install 'openai>=1.40' in the folder of the ROS workspace"
    )
    outside.setattr(installation, "_externally_managed", lambda: False)
    assert install_line("reactree_ros[openai]") == "/usr/bin/python3 -m pip install 'openai>=1.40'"


def test_an_extra_of_a_distribution_that_is_not_here_is_named_itself() -> None:
    assert install_line("not_installed_anywhere[big]").endswith("-m pip install 'not_installed_anywhere[big]'")


def test_what_is_too_old_or_not_there_is_named_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    check_own_requirements()
    version = metadata.version

    def of_ubuntu(name: str) -> str:
        if name == "typer":
            raise metadata.PackageNotFoundError(name)
        return "1.10.14" if name == "pydantic" else version(name)

    monkeypatch.setattr(metadata, "version", of_ubuntu)
    with pytest.raises(ImportError, match=r"pydantic>=2\.6 \(1\.10\.14\), typer>=0\.15\.4 \(not there\): ") as refused:
        check_own_requirements()
    assert [one.name for one in asked_for(str(refused.value))] == ["pydantic", "typer"]


def test_what_only_an_older_python_needs_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda name: ["nothing-like-it>=1; python_version < '3.4'"])
    check_own_requirements()
    monkeypatch.setattr(metadata, "requires", lambda name: ["nothing-like-it>=1; python_version < '3.99'"])
    with pytest.raises(ImportError, match=r"nothing-like-it>=1 \(not there\)"):
        check_own_requirements()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["reactree", "reactree list", "setup.py install", "setup.py develop"])
def test_with_ubuntus_pydantic_one_line_says_what_to_do_when_it_is_built_and_started(
    command: str, tmp_path: Path
) -> None:
    (tmp_path / "pydantic").mkdir()
    (tmp_path / "pydantic" / "__init__.py").touch()
    (tmp_path / "pydantic-1.10.14.dist-info").mkdir()
    (tmp_path / "pydantic-1.10.14.dist-info" / "METADATA").write_text("Name: pydantic\nVersion: 1.10.14\n")
    name, *given = command.split()
    script = str(ROOT / name) if name == "setup.py" else str(Path(sys.executable).with_name(name))
    found = subprocess.run(
        [sys.executable, script, *given],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert (found.returncode, found.stdout) == (1, "")
    assert re.fullmatch(r"error: reactree_ros needs pydantic>=2\.6 \(1\.10\.14\).* -m pip install .*\n", found.stderr)


# ---------------------------------------------------------------------- a ROS workspace's environment

HOOK = "resource/virtual_environment.dsv"


@pytest.mark.parametrize("prefix", ["install/reactree_ros", "install"], ids=["isolated", "merged"])
def test_a_sourced_workspace_sees_its_environment(tmp_path: Path, prefix: str) -> None:
    venv.create(tmp_path / ".venv-ros", symlinks=True, with_pip=False)
    (tmp_path / prefix).mkdir(parents=True)
    found = []
    for line in (ROOT / HOOK).read_text(encoding="utf-8").splitlines():
        kind, name, folder = line.split(";")
        assert (kind, name) == ("prepend-non-duplicate-if-exists", "PYTHONPATH")
        if (tmp_path / prefix / folder).exists():
            found.append(os.path.normpath(tmp_path / prefix / folder))
    site = tmp_path / ".venv-ros/lib" / Path(sysconfig.get_path("purelib")).parent.name / "site-packages"
    assert found == [str(site)]


def test_the_page_on_ros_installs_what_ubuntu_has_too_old() -> None:
    text = (ROOT / "docs/tutorials/on-ros-2.md").read_text(encoding="utf-8")
    line, *others = re.findall(r"^\.venv-ros/bin/python -m pip install (.*)$", text, re.MULTILINE)
    assert [asked_for(f"-m pip install {one}") for one in others] == [asked_for(install_line("reactree_local[small]"))]
    lines = {Requirement(one).name: Requirement(one) for one in metadata.requires("reactree_ros") or []}
    told = {one.name: one for one in map(Requirement, shlex.split(line.partition("#")[0]))}
    assert set(told) == {"pydantic", "typer", "openai", "setuptools"}
    assert all(told[name].specifier == lines[name].specifier for name in ("pydantic", "typer", "openai"))
