"""Files that somebody else, or a crash, wrote: each reader ends with a result, or with a refusal of one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from fuzz.fuzzing import attempt
from fuzz.readers import READERS, Reader

#: Files of each reader; `make fuzz` goes on from there.
FILES = 60


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_every_reader_ends_with_a_result_or_a_refusal(reader: Reader, tmp_path: Path) -> None:
    for seed in range(FILES):
        attempt(reader, seed, tmp_path)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_what_is_whole_is_read(reader: Reader, tmp_path: Path) -> None:
    for number, content in enumerate(reader.samples()):
        path = tmp_path / f"{number}{reader.suffix}"
        path.write_bytes(content)
        if not reader.name.startswith("about"):
            reader.read(path)
        assert content
