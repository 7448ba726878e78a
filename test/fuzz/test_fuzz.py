"""Files that somebody else, or a crash, wrote: each reader ends with a result, or with a refusal of one line."""

from __future__ import annotations

import faulthandler
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
from fuzz.readers import NAMED, READERS, Reader

from reactree_ros.errors import UserError

#: Most seconds for a file: far more than any takes, so that one that does not end is a failure, not a hang.
WATCHDOG = 60
#: Most characters of a refusal, which is one line; the command line prints no more than the begin of a long one.
LONGEST = 1_000_000


class DoesNotEnd(BaseException):
    """A reader was at it for too long."""


def attempt(reader: Reader, seed: int, failures: Path) -> None:
    content = reader.content(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, NAMED.get(reader.name, f"file{reader.suffix}"))
        path.write_bytes(content)
        before = signal.signal(signal.SIGALRM, _too_long)
        signal.alarm(WATCHDOG)
        faulthandler.dump_traceback_later(2 * WATCHDOG, exit=True)  # where no signal is heard
        try:
            reader.read(path)
        except (Exception, DoesNotEnd) as error:
            if isinstance(error, UserError) and len(str(error).splitlines()) == 1 and len(str(error)) < LONGEST:
                return
            failures.mkdir(parents=True, exist_ok=True)
            kept = failures / f"{reader.name.replace(' ', '_')}_{seed}{reader.suffix}"
            kept.write_bytes(content)
            said = f"{type(error).__name__}: {str(error)[:300]}"
            raise AssertionError(f"{reader.name}, seed {seed}: {said}\nthe file is {kept}") from error
        finally:
            faulthandler.cancel_dump_traceback_later()
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)


def _too_long(*signal_: Any) -> None:
    raise DoesNotEnd


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
