"""Draws how planners compare whose models were trained alike, from `trained.csv`: GSR by things asked for, and by size.

And the curves of their trainings from scratch, from what `reactree lab train` wrote: `learning_PLANNER.csv`.

python docs/figures/trained.py FOLDER
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

from method import put

from reactree_lab.bench.comparison import Estimate, wilson
from reactree_lab.bench.plots import curves, success_by

MEASURED = Path(__file__).with_suffix(".csv")


def write(folder: Path) -> None:
    """Write these figures."""
    figures: dict[str, dict[str, dict[float, Estimate]]] = defaultdict(lambda: defaultdict(dict))
    with MEASURED.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            share, tasks = float(row["gsr"]), int(row["tasks"])
            figures[row["by"]][row["planner"]][float(row["value"])] = Estimate(share, *wilson(share, tasks))
    for by, estimates in figures.items():
        put(folder / f"trained_by_{by.split()[0]}.svg", success_by(by, estimates))
    for learnt in MEASURED.parent.glob("learning_*.csv"):
        with learnt.open(encoding="utf-8") as file:
            points = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
        put(folder / f"{learnt.stem}.svg", curves(points))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
