"""Which behaviour trees in XML of a folder are read, each leaf declared as a skill, and why the others are not.

python benchmarks/trees.py FOLDER [--seconds 1] [--refused]
"""

from __future__ import annotations

import argparse
import re
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from reactree_doors.trees.bt_nodes import KINDS, SUBTREES
from reactree_doors.trees.xml_file import parsed
from reactree_doors.trees.xml_in import read_routine
from reactree_ros.agent.parameters import Text
from reactree_ros.agent.skill import Skill
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import text_of
from reactree_ros.files.xml import Element

#: What may be a port, and what of a nodes model is returned.
PORT, OUTPUTS = re.compile("(?!name$|ID$)[A-Za-z][A-Za-z0-9_-]*"), ("output_port", "inout_port")
#: The ports of each leaf, and whether a nodes model says that they are outputs.
Ports = dict[str, dict[str, bool]]


def ports_of(files: list[Path]) -> Ports:
    """Return the ports of each leaf of all files; subtrees have none, so that these cannot be declared."""
    found, left, trees = defaultdict[str, dict[str, bool]](dict), list[Element](), set[str]()
    for file in files:
        with suppress(UserError):
            left.append(parsed(text_of(file), str(file)))
    for one in left:  # which grows
        left += one.children
        name = one.attributes.get("ID", "") if one.tag in (*KINDS, *SUBTREES) else one.tag
        trees |= {name} if one.tag in SUBTREES else set()
        outputs = {each.attributes.get("name", ""): True for each in one.children if each.tag in OUTPUTS}
        found[name] = dict.fromkeys(filter(PORT.fullmatch, one.attributes), False) | found[name] | outputs
    return {name: ports for name, ports in found.items() if name not in trees}


def declared(name: str, ports: Mapping[str, bool]) -> Skill:
    wording = " ".join(["do", re.sub(r"[{}\[\]]", " ", name), *(f"{port} {{{port}}}" for port in ports)])
    returns = {port: Text() for port, is_output in ports.items() if is_output}
    return Skill(name=name, wording=wording, parameters=dict.fromkeys(ports, Text(default="-")), returns=returns)


def came_of(path: Path, seconds: float, ports: Ports) -> tuple[str, str]:
    """Return why a file is refused, with node and line, before and after its leaves are declared; empty if it is read.

    Before, what is not a node is taken for a skill, and so is a subtree that is missing.
    """

    def late(*_: Any) -> None:
        raise UserError(f"{path}:1: it takes more than {seconds:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    missing: dict[str, str] = {}
    try:
        read_routine(path, goal=None, missing=missing)
    except UserError as error:
        return str(error), str(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    try:
        read_routine(path, [declared(name, ports[name]) for name in missing if name in ports], goal=None)
    except UserError as error:
        return "", str(error)
    return "", ""


def main() -> None:
    """Print how many are read, then the reasons, the most frequent first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=1.0, help="the longest that a file may take")
    parser.add_argument("--refused", action="store_true", help="print each file that is refused, with node and line")
    options = parser.parse_args()
    reasons, read, slowest = Counter[str](), 0, 0.0
    ports = ports_of(files := sorted(options.folder.rglob("*.xml")))
    for path in files:
        begun = time.perf_counter()
        lenient, said = came_of(path, options.seconds, ports)
        slowest, read = max(slowest, time.perf_counter() - begun), read + (not lenient)
        reason = re.sub(r"^.*?:\d+: (<[^>]*>: )?", "", said).partition(";")[0]
        reasons[re.sub(r"'[^']*'|\d+", "…", reason)[:90]] += 1
        if said and options.refused:
            print(said)
    print(f"read {reasons['']} of {reasons.total()} files, each leaf declared; the slowest in {slowest:.2f} s")
    print(f"read {read} if subtrees that are missing are skills, too")
    del reasons[""]
    for reason, count in reasons.most_common():
        print(f"{count:5} {reason}")


if __name__ == "__main__":
    main()
