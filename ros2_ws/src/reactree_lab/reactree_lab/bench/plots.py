"""The plots of a report, as SVG."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, Concatenate, ParamSpec

import numpy as np

from reactree_lab.bench.comparison import Estimate
from reactree_lab.bench.results import Event, RunLine

#: A curve over the course of runs ends when fewer than this share of a planner's runs continue.
STILL_RUNNING = 0.1
#: Actions per point of the executability plot.
BIN = 5
# Colours for colour-blind people, too (Okabe and Ito), and dashes for overlapping lines.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_DASHES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)))
_WIDTH = 5.6  # inches: text can be read on a phone, too
_SHORT = 26  # characters of a name that leaves room for another one beside it

P = ParamSpec("P")


def _as_svg(draw: Callable[Concatenate[Any, P], None]) -> Callable[P, bytes]:
    """Return what makes a plot; the function draws it on axes, its first argument."""

    def drawn(*given: P.args, **named: P.kwargs) -> bytes:
        import matplotlib
        from matplotlib.figure import Figure

        styles = [(_DASHES[number % len(_DASHES)], _COLOURS[number % len(_COLOURS)]) for number in range(28)]
        dashes, colours = zip(*styles, strict=True)
        settings = {
            "axes.prop_cycle": matplotlib.cycler(linestyle=dashes, color=colours),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.grid": True,
            "font.family": "sans-serif",
            "grid.alpha": 0.3,
            "lines.linewidth": 2.0,
            "svg.fonttype": "none",  # keeps text as text
            "text.parse_math": False,  # a name may have dollars in it
            "svg.hashsalt": "reactree",  # makes the same plot give the same file
        }
        with matplotlib.rc_context(settings):
            figure = Figure(figsize=(_WIDTH, 3.6), layout="constrained")
            axes = figure.add_subplot()
            draw(axes, *given, **named)
            lines, names = axes.get_legend_handles_labels()
            if names:
                columns = 1 if max(map(len, names)) > _SHORT else 2
                figure.set_figheight(3.2 + 0.2 * math.ceil(len(names) / columns))
                figure.legend(lines, names, frameon=False, loc="outside lower center", ncols=columns, handlelength=3)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()

    return drawn


@_as_svg
def success(axes: Any, estimates: Mapping[str, Estimate]) -> None:
    axes.figure.set_figheight(0.8 + 0.42 * len(estimates))
    for row, (planner, one) in enumerate(estimates.items()):
        axes.annotate(f"{one.mean:.2f}  {planner}", (0, row - 0.25), va="bottom")  # above, as it may be long
        axes.plot([one.low, one.high], [row, row], color=_COLOURS[0], linestyle="-", clip_on=False)
        axes.plot(one.mean, row, color=_COLOURS[0], marker="o", clip_on=False)
    axes.set(xlabel="GSR, with 95 % interval", xlim=(0, 1), ylim=(len(estimates) - 0.5, -0.9), yticks=[])
    axes.spines.left.set_visible(False)


@_as_svg
def success_by_decisions(axes: Any, runs: Mapping[str, Sequence[RunLine]]) -> None:
    longest = max(run.decisions for those in runs.values() for run in those)
    for planner, those in runs.items():
        ends = sorted(run.decisions for run in those if run.achieved)
        shares = [(number + 1) / len(those) for number in range(len(ends))]
        axes.step([0, *ends, longest], [0, *shares, shares[-1] if shares else 0], where="post", label=planner)
    axes.set(xlabel="decisions", ylabel="share of runs that reached their goal", ylim=(0, 1.02), xlim=(0, None))


@_as_svg
def success_by(axes: Any, what: str, estimates: Mapping[str, Mapping[float, Estimate]]) -> None:
    for number, (planner, known) in enumerate(estimates.items()):
        aside = 0.04 * (number - (len(estimates) - 1) / 2)  # draws intervals side by side
        at = [count + aside for count in known]
        (line,) = axes.plot(at, [one.mean for one in known.values()], marker="o", markersize=4, label=planner)
        for x, one in zip(at, known.values(), strict=True):
            axes.plot([x, x], [one.low, one.high], color=line.get_color(), linestyle="-", linewidth=1)
    axes.set(xlabel=what, ylabel="GSR", ylim=(0, 1.02))
    axes.set_xticks(sorted({count for known in estimates.values() for count in known}))


@_as_svg
def tokens_along_the_run(axes: Any, events: Mapping[str, Sequence[Sequence[Event]]]) -> None:
    for planner, those in events.items():
        columns = _columns([[event.input_tokens for event in run if event.input_tokens] for run in those])
        requests = range(1, len(columns) + 1)
        (line,) = axes.plot(requests, [fmean(column) for column in columns], label=planner)
        low, high = ([float(np.percentile(column, part)) for column in columns] for part in (25, 75))
        axes.fill_between(requests, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    axes.set(xlabel="request", ylabel="tokens of the prompt", ylim=(0, None), xlim=(0, None))


@_as_svg
def executability_by_step(axes: Any, events: Mapping[str, Sequence[Sequence[Event]]]) -> None:
    for planner, those in events.items():
        columns = _columns([[event.executable for event in run if event.is_action] for run in those])
        bins = [columns[start : start + BIN] for start in range(0, len(columns), BIN)]
        shares = [fmean(value for column in those_columns for value in column) for those_columns in bins]
        axes.plot([BIN * number + (BIN + 1) / 2 for number in range(len(bins))], shares, label=planner)
    axes.set(xlabel="action of the run", ylabel="share of actions carried out", ylim=(0, 1.02), xlim=(0, None))


def _columns(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    there = [row for row in rows if row]
    lengths = sorted((len(row) for row in there), reverse=True)
    fewest = max(1, round(STILL_RUNNING * len(there)))
    length = lengths[fewest - 1] if lengths else 0
    return [[row[index] for row in there if index < len(row)] for index in range(length)]


@_as_svg
def curves(axes: Any, points: Sequence[Mapping[str, float]]) -> None:
    tokens = [point["tokens"] / 1e6 for point in points]
    for name in [one for one in points[0] if one.startswith("exact")]:
        axes.plot(tokens, [point[name] for point in points], label=name.replace("_", ": "))
    for name in ("loss", "held_out_loss"):
        axes.plot(tokens, [point[name] for point in points], label=name.replace("_", " "), linewidth=1.0)
    axes.set(xlabel="million tokens", ylabel="share of exact decisions; loss", ylim=(0, 1.02), xlim=(0, None))
