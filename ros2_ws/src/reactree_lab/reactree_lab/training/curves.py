"""The curves of a training, as CSV and as a plot."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from reactree_lab.bench.plots import svg
from reactree_lab.training.checkpoint import write_whole

CSV, PLOT = "curves.csv", "curves.svg"


def write_curves(folder: Path, points: Sequence[Mapping[str, float]]) -> None:
    if points:
        write_whole(folder / CSV, as_csv(points))
        write_whole(folder / PLOT, as_plot(points))


def as_csv(points: Sequence[Mapping[str, float]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(points[0]), lineterminator="\n")
    writer.writeheader()
    for point in points:
        writer.writerow({name: f"{value:.6g}" if name != "tokens" else int(value) for name, value in point.items()})
    return text.getvalue().encode()


def as_plot(points: Sequence[Mapping[str, float]]) -> bytes:
    def draw(axes: Any) -> None:
        tokens = [point["tokens"] / 1e6 for point in points]
        for name in [one for one in points[0] if one.startswith("exact")]:
            axes.plot(tokens, [point[name] for point in points], label=name.replace("_", ": "))
        for name in ("loss", "held_out_loss"):
            axes.plot(tokens, [point[name] for point in points], label=name.replace("_", " "), linewidth=1.0)
        axes.set(xlabel="million tokens", ylabel="share of exact decisions; loss", ylim=(0, 1.02), xlim=(0, None))

    return svg(draw)
