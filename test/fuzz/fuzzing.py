"""One try of a reader: a file is made from a seed, and read; what is neither a result nor a refusal is a failure."""

from __future__ import annotations

import faulthandler
import signal
import tempfile
from pathlib import Path
from typing import Any

from fuzz.readers import NAMED, Reader

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
