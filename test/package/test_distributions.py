"""What is in the wheel and in the source distribution that `make test-package` has just built into dist/."""

from __future__ import annotations

import csv
import hashlib
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

import pytest
from sources import SIBLINGS

pytestmark = pytest.mark.package

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
#: Of a wheel's three parts two are called after the version.
NAMED = "reactree_ros-"
#: Files that are markers: there is nothing in them.
MARKERS = {"py.typed", "reactree_ros"}
SHARED = ROOT.parent / "shared"
LARGEST_MB = 3


def only(pattern: str) -> Path:
    (found,) = DIST.glob(pattern)
    return found


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by name; fails where a name is there twice."""
    with zipfile.ZipFile(wheel) as archive:
        twice = [name for name, times in Counter(archive.namelist()).items() if times > 1]
        assert twice == []
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return contents(only("reactree_ros-*.whl"))


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode:
        pytest.skip("this is not a checkout of git: what is tracked is not known")
    return set(listing.stdout.split("\0")) - {""}


def test_the_wheel_is_small_and_its_files_are_told(files: dict[str, bytes], capsys: pytest.CaptureFixture[str]) -> None:
    """The list is printed: it is what somebody who changes the package wants to look at."""
    parts: dict[str, list[int]] = defaultdict(list)
    for name, content in files.items():
        parts["/".join(PurePosixPath(name).parent.parts[:2])].append(len(content))
    packed = only("reactree_ros-*.whl").stat().st_size
    with capsys.disabled():
        print(f"\n{len(files)} files, {sum(map(len, files.values()))} bytes, {packed} packed:")  # noqa: T201
        for part, sizes in sorted(parts.items(), key=lambda item: -sum(item[1])):
            print(f"{sum(sizes):>10} bytes in {len(sizes):>3} files  {part}")  # noqa: T201
    assert packed < LARGEST_MB * 1_000_000


def test_no_content_is_in_the_wheel_twice(files: dict[str, bytes]) -> None:
    same = defaultdict(list)
    for name, content in files.items():
        if content or PurePosixPath(name).name not in MARKERS:
            same[hashlib.sha256(content).digest()].append(name)
    assert [names for names in same.values() if len(names) > 1] == []


def test_the_wheel_has_the_package_what_ros_looks_for_and_nothing_else(
    files: dict[str, bytes], tracked: set[str]
) -> None:
    installed = {name for name in files if name.startswith("reactree_ros/")}
    assert installed == {name for name in tracked if name.startswith("reactree_ros/")}
    shared = {name.partition("/data/share/")[2] for name in files if "/data/share/" in name}
    launched = {f"reactree_ros/{name}" for name in tracked if name.startswith(("config/", "launch/"))}
    assert shared == launched | {
        "ament_index/resource_index/packages/reactree_ros",
        "reactree_ros/README.md",
        "reactree_ros/hook/virtual_environment.dsv",
        "reactree_ros/package.xml",
        "reactree_ros/pyproject.toml",
    }
    others = {name for name in files if name not in installed and "/data/share/" not in name}
    assert {name.partition("/")[0] for name in others} == {f"{NAMED}{version()}.dist-info"}


def version() -> str:
    return only("reactree_ros-*.whl").name.removeprefix(NAMED).partition("-")[0]


def test_no_data_of_third_parties_is_in_the_wheel(files: dict[str, bytes]) -> None:
    """The recordings and the papers that the tests read beside the checkout stay there."""
    if not SHARED.exists():
        pytest.skip("the test material ../shared is not here")
    sizes = {len(content) for content in files.values() if content}
    theirs = {
        hashlib.sha256(path.read_bytes()).digest()
        for path in SHARED.rglob("*")
        if path.is_file() and path.stat().st_size in sizes
    }
    assert [name for name, content in files.items() if hashlib.sha256(content).digest() in theirs] == []


def test_the_source_distribution_has_no_tests_and_nothing_that_is_not_tracked(tracked: set[str]) -> None:
    with tarfile.open(only("reactree_ros-*.tar.gz")) as archive:
        names = [one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()]
    assert len(names) == len(set(names))
    made = {"PKG-INFO", "setup.cfg"}
    assert {name for name in names if not name.startswith("reactree_ros.egg-info/")} - made <= tracked
    assert [name for name in names if name.startswith(("test/", "ros2_ws/", "benchmarks/"))] == []
    assert {"CHANGELOG.rst", "LICENSE", "README.md", "pyproject.toml", "setup.py"} <= set(names)


def test_the_source_distribution_builds_the_wheel_that_the_checkout_builds(
    files: dict[str, bytes], tracked: set[str], tmp_path: Path
) -> None:
    """The wheel in dist/ was built from the source distribution."""
    for name in tracked:
        if name.startswith(("reactree_ros/", "config/", "launch/", "resource/")) or "/" not in name:
            (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "source" / name).write_bytes((ROOT / name).read_bytes())
    build = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "-o", str(tmp_path), str(tmp_path / "source")]
    subprocess.run(build, check=True, timeout=300, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    ours = contents(wheel)
    record = f"{NAMED}{version()}.dist-info/RECORD"
    assert recorded(ours.pop(record)) == recorded(files[record])
    assert ours == {name: content for name, content in files.items() if name != record}


def recorded(content: bytes) -> set[tuple[str, ...]]:
    """The lines of a wheel's RECORD, in whichever order."""
    return {tuple(line) for line in csv.reader(content.decode().splitlines())}


@pytest.mark.parametrize("sibling", SIBLINGS)
def test_a_sibling_has_its_package_and_nothing_of_the_core(tracked: set[str], sibling: str) -> None:
    home = f"ros2_ws/src/{sibling}/"
    names = set(contents(only(f"{sibling}-*.whl")))
    own = {name.removeprefix(home) for name in tracked if name.startswith(f"{home}{sibling}/")}
    assert {name for name in names if name.startswith("reactree_")} - own == {
        name for name in names if name.startswith(f"{sibling}-")
    }
    assert own <= names
