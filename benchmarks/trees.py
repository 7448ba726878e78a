"""Which behaviour trees in XML of a folder are read, each leaf taken for a skill, and why the others are not.

python benchmarks/trees.py FOLDER [--seconds 1] [--refused]
"""

from __future__ import annotations

import argparse
import re
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

from reactree_doors.trees.xml_in import read_routine
from reactree_ros.errors import UserError


def came_of(path: Path, seconds: float) -> str:
    """Return why a file is refused, with node and line; empty if it is read."""

    def late(*_: Any) -> None:
        raise UserError(f"{path}:1: it takes more than {seconds:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        read_routine(path, goal=None, missing={})
    except UserError as error:
        return str(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def main() -> None:
    """Print how many are read, then the reasons, the most frequent first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="the longest that a file may take")
    parser.add_argument("--refused", action="store_true", help="print each file that is refused, with node and line")
    options = parser.parse_args()
    reasons, slowest = Counter[str](), 0.0
    for path in sorted(options.folder.rglob("*.xml")):
        begun = time.perf_counter()
        said = came_of(path, options.seconds)
        slowest = max(slowest, time.perf_counter() - begun)
        reason = re.sub(r"^.*?:\d+: (<[^>]*>: )?", "", said).partition(";")[0]
        reasons[re.sub(r"'[^']*'|\d+", "…", reason)[:90]] += 1
        if said and options.refused:
            print(said)
    print(f"read {reasons['']} of {reasons.total()} files, the slowest in {slowest:.2f} s")
    del reasons[""]
    for reason, count in reasons.most_common():
        print(f"{count:5} {reason}")


if __name__ == "__main__":
    main()
