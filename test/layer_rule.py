"""The layer rule as a table, from import-linter's contracts in pyproject.toml: for docs/architecture.md.

python test/layer_rule.py docs/architecture.md
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grimp
from importlinter.api import read_configuration

ROOT = Path(__file__).parents[1]
PACKAGE = "reactree_ros"
#: Between these two lines of the page is what this makes.
BEGIN, END = "<!-- the layer rule: made by `make layers` -->", "<!-- end of the layer rule -->"
#: What is imported of others, in one column.
OUTSIDE = "ROS"


@dataclass(frozen=True)
class Contract:
    """One contract.

    Attributes:
        name: What it says in words.
        importers: Who may not import, by their names within the package; empty: everybody.
        excepted: Who is none of them.
        imported: What they may not import.
        allowed: Imports that are left alone: who, what; ``**`` is everybody, or everything.
        directly: Whether it is about import statements alone, not about what these import in turn.
    """

    name: str
    importers: tuple[str, ...]
    excepted: tuple[str, ...]
    imported: tuple[str, ...]
    allowed: tuple[tuple[str, str], ...]
    directly: bool = False

    def forbids(self, importer: str, imported: str) -> bool:
        """Whether one may not import the other."""
        if importer in (*self.excepted, imported) or imported not in self.imported:
            return False
        return importer in self.importers or not self.importers


def contracts() -> list[Contract]:
    """The contracts, as import-linter reads them.

    Raises:
        ValueError: One is of a type that this cannot draw.
    """
    return [_read(one) for one in read_configuration(str(ROOT / "pyproject.toml"))["contracts_options"]]


def _read(options: dict[str, Any]) -> Contract:
    allowed = tuple(
        (_short(who), _short(what))
        for who, what in (edge.split(" -> ") for edge in sorted(options.get("ignore_imports", ())))
    )
    if options["type"] == "forbidden":
        whole = tuple(who for who, what in allowed if what == "**")
        importers = tuple(_short(name) for name in options["source_modules"])
        return Contract(
            options["name"],
            () if importers == ("",) else importers,
            whole,
            tuple(dict.fromkeys(_short(name) for name in options["forbidden_modules"])),
            tuple(edge for edge in allowed if edge[1] != "**"),
        )
    if options["type"] == "protected":
        importers = tuple(_short(name) for name in options["allowed_importers"])
        imported = tuple(_short(name) for name in options["protected_modules"])
        return Contract(options["name"], (), importers, imported, allowed, directly=True)
    if options["type"] == "acyclic_siblings":
        return Contract(options["name"], (), (), (), allowed)
    raise ValueError(f"a contract of type {options['type']!r} cannot be drawn; teach test/layer_rule.py to")


def _short(name: str) -> str:
    """``reactree_ros.llm.*`` is ``llm``; whatever is not of the package is ROS."""
    if name == "**":
        return name
    if name.partition(".")[0] != PACKAGE:
        return OUTSIDE
    return re.sub(r"\.?\*+$", "", name).removeprefix(PACKAGE).removeprefix(".") or ("**" if "*" in name else "")


def arrows() -> list[tuple[str, str]]:
    """Which room imports which, each pair once: a room is a folder or a module of the package's own folder.

    Imports in functions and for types alone count, too.
    """
    graph = grimp.build_graph(PACKAGE)
    found = set()
    for module in graph.modules - {PACKAGE}:
        rooms = {name.split(".")[1] for name in graph.find_modules_directly_imported_by(module) - {PACKAGE}}
        found |= {(module.split(".")[1], room) for room in rooms - {module.split(".")[1]}}
    return sorted(found)


def table(rules: list[Contract]) -> str:
    """Who may not import what: a row for who, a column for what, in it the numbers of the contracts that forbid it."""
    columns = list(dict.fromkeys(name for rule in rules for name in rule.imported))
    named = list(dict.fromkeys(name for rule in rules for name in (*rule.importers, *rule.excepted, *rule.imported)))
    rows = [*(name for name in named if name != OUTSIDE), "every other"]
    lines = [f"| imports | {' | '.join(f'`{name}`' for name in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = [
            " ".join(f"✗{number}" for number, rule in enumerate(rules, 1) if rule.forbids(row, column)) or " "
            for column in columns
        ]
        lines.append(f"| {row if row == 'every other' else f'`{row}`'} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"{number}. {_said(rule)}" for number, rule in enumerate(rules, 1))])


def _said(rule: Contract) -> str:
    edges = ", ".join(f"`{what}`" if who == "**" else f"`{who}` → `{what}`" for who, what in rule.allowed)
    remarks = [*["directly"] * rule.directly, *[f"left alone: {edges}"] * bool(edges)]
    return f"{rule.name} ({'; '.join(remarks)})" if remarks else rule.name


def with_table(page: str, rules: list[Contract]) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table(rules)}\n\n{END}{after}"


def main() -> None:
    """Write the table into the page that is named."""
    path = Path(sys.argv[1])
    path.write_text(with_table(path.read_text(encoding="utf-8"), contracts()), encoding="utf-8")


if __name__ == "__main__":
    main()
