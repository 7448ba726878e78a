"""What README and docs say is carried out, page by page, block by block."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.blocks import ROOT, RUN, Block, Place, blocks_of, pages
from llm.asked import decide
from openai_peer import Peer
from small_questions import understood


def run_here(block: Block) -> bool:
    return block.language in RUN and not (block.needs or block.not_run or block.run_by)


def run_on_ros(block: Block) -> bool:
    return bool(block.needs)


def with_blocks(which: Any) -> Iterable[Any]:
    """Return the pages that have such blocks, by name."""
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix()) for page in pages() if any(map(which, blocks_of(page)))
    ]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A folder with an environment, and a server in which the expert answers."""
    with Peer(say=lambda prompt: understood(prompt) or decide(prompt)) as peer:
        yield Place.make(tmp_path / "page", peer.base_url)


@pytest.mark.docs
@pytest.mark.parametrize("page", with_blocks(run_here))
def test_a_page_does_what_it_says(page: Path, place: Place) -> None:
    for block in filter(run_here, blocks_of(page)):
        place.carry_out(block)


@pytest.mark.ros
@pytest.mark.parametrize("page", with_blocks(run_on_ros))
def test_a_page_does_on_ros_what_it_says(page: Path, place: Place) -> None:
    ros2 = shutil.which("ros2")
    if ros2 is None or subprocess.run([ros2, "pkg", "prefix", "reactree_ros"], capture_output=True).returncode:
        pytest.skip("ROS 2 with this package is not sourced")
    for block in filter(run_on_ros, blocks_of(page)):
        place.carry_out(block)
