"""Fuzzes all readers for so many seconds: ``make fuzz SECONDS=600``, ``SEED=7`` to begin where another one began."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

import common  # noqa: E402, F401 - it adds the folders of the other distributions
from fuzz.readers import READERS  # noqa: E402
from fuzz.test_fuzz import attempt  # noqa: E402
from rich.console import Console  # noqa: E402

#: Failures after which nothing more is tried.
ENOUGH = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 10**9)
    parser.add_argument("--only", default="", help="the name of one reader")
    parser.add_argument("--failures", type=Path, default=Path("fuzz-failures"))
    given = parser.parse_args()
    readers = [one for one in READERS if given.only in ("", one.name)]
    console = Console(soft_wrap=True, highlight=False, markup=False)
    console.print(f"seed {given.seed}, {len(readers)} readers, {given.seconds:g} s")
    until, seed, found, where = time.monotonic() + given.seconds, given.seed, 0, set[str]()
    while time.monotonic() < until and found < ENOUGH:
        for reader in readers:
            try:
                attempt(reader, seed, given.failures)
            except AssertionError as error:
                cause = error.__cause__ or error
                last = traceback.extract_tb(cause.__traceback__)[-1]
                if (place := f"{reader.name} {type(cause).__name__} {last.filename}:{last.lineno}") not in where:
                    where.add(place)
                    found += 1
                    console.print(f"{error}\n", *traceback.format_tb(cause.__traceback__)[-4:], sep="")
        seed += 1
    console.print(f"{(seed - given.seed) * len(readers)} files, {found} failures")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
