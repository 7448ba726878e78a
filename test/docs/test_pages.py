"""What README and docs say is carried out, page by page, block by block."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from docs.blocks import Block, Place, blocks_of, pages
from openai_peer import Peer

from reactree_ros.llm.expert.policy import decide

BLOCKS = [block for page in pages() for block in blocks_of(page)]


def cases() -> Iterator[Any]:
    """Yield every block, those of a page for one process."""
    for block in BLOCKS:
        marks = [pytest.mark.xdist_group(block.page), pytest.mark.ros if block.needs else pytest.mark.docs]
        yield pytest.param(block, id=block.where, marks=marks)


@pytest.fixture(scope="session")
def place_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Block], Place]]:
    """The place of a block's page, with a peer in which the expert answers."""
    places: dict[str, Place] = {}
    with Peer(say=decide) as peer:

        def find(block: Block) -> Place:
            if block.page not in places:
                places[block.page] = Place.make(tmp_path_factory.mktemp("page"), peer.base_url)
            return places[block.page]

        yield find


@pytest.mark.parametrize("block", cases())
def test_a_block_does_what_the_page_says(block: Block, place_of: Callable[[Block], Place]) -> None:
    if block.not_run:
        pytest.skip(block.not_run)
    if block.needs and not _ros_has_this_package():
        pytest.skip("ROS 2 with this package is not sourced")
    place_of(block).carry_out(block)


def _ros_has_this_package() -> bool:
    ros2 = shutil.which("ros2")
    return (
        ros2 is not None and not subprocess.run([ros2, "pkg", "prefix", "reactree_ros"], capture_output=True).returncode
    )
