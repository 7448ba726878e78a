"""Houses that come with the package, made by `reactree lab house`; the apartment's task has one more wording."""

from __future__ import annotations

from pathlib import Path

_FOLDER = Path(__file__).parent

#: The shipped houses by name; the first is the default.
HOUSES = {name: _FOLDER / f"{name}.json" for name in ("apartment", "villa")}
