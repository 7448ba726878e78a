r"""Writes the table of a paper: a ``tabular`` with the rules of booktabs, for ``\input``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from reactree_lab.bench.comparison import (
    ALL_INPUT,
    ALL_OUTPUT,
    DECISIONS,
    GSR,
    SECONDS,
    SIGNIFICANT,
    SSR,
    STEPS,
    Measure,
    Pairing,
    estimate,
)
from reactree_lab.bench.results import RunLine

#: Measures with an interval; the best value is bold. Fewer steps are no better if the goal is missed.
_RANKED = (GSR, SSR)
_MEANS = (DECISIONS, STEPS, ALL_INPUT, ALL_OUTPUT, SECONDS)
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "≈": r"$\approx$",
    "–": "--",
    "…": r"\ldots{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def as_latex(runs: Mapping[str, Sequence[RunLine]], found: Sequence[Pairing], notes: Sequence[str]) -> str:
    """Write planners as rows; ``found`` compares every two of them, ``notes`` become comments."""

    def best(name: str, measure: Measure) -> bool:
        of_it = [one.seen_from(name) for one in found if one.measure is measure and name in (one.one, one.other)]
        return 0 < sum(one.mean > 0 and one.p < SIGNIFICANT for one in of_it) == len(runs) - 1

    measures = (*_RANKED, *_MEANS)
    head = ["planner", "tasks", *(measure.name for measure in measures)]
    rows = [
        [
            escaped(name),
            str(len({run.task_id for run in those})),
            *(f"\\textbf{{{_value(those, one)}}}" if best(name, one) else _value(those, one) for one in _RANKED),
            *(_value(those, one) for one in _MEANS),
        ]
        for name, those in runs.items()
    ]
    comments = (
        r"\usepackage{booktabs}",
        "Means; GSR and SSR with 95 % intervals. Bold: better than each other planner, "
        f"p < {SIGNIFICANT} (McNemar for GSR, Wilcoxon for SSR; not corrected).",
        *notes,
    )
    return "\n".join(
        (
            *(f"% {' '.join(one.split())}" for one in comments),
            f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
            r"\toprule",
            _row(map(escaped, head)),
            r"\midrule",
            *map(_row, rows),
            r"\bottomrule",
            "\\end{tabular}\n",
        )
    )


def escaped(text: str) -> str:
    return re.sub("|".join(map(re.escape, _SPECIAL)), lambda found: _SPECIAL[found[0]], " ".join(text.split()))


def _row(cells: Iterable[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _value(runs: Sequence[RunLine], measure: Measure) -> str:
    known = estimate(runs, measure)
    if known is None:
        return "--"
    mark = r"$\approx$ " if measure.counts_tokens and any(run.approximate_tokens for run in runs) else ""
    mean = f"{mark}{known.mean:.{measure.digits}f}"
    if measure not in _RANKED or known.low is None:
        return mean
    return f"{mean} ({known.low:.{measure.digits}f}--{known.high:.{measure.digits}f})"
