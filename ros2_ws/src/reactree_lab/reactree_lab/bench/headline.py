"""The result of a bench in one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from reactree_lab.bench.comparison import GSR, SIGNIFICANT, Estimate, Pairing, estimate
from reactree_lab.bench.results import RunLine


def ranked(runs: Mapping[str, Sequence[RunLine]]) -> dict[str, Estimate]:
    """Return the GSR of each planner of which a run was judged by a goal, the highest first."""
    judged = {name: those for name, those in runs.items() if any(run.gsr is not None for run in those)}
    shares = {name: known for name, those in judged.items() if (known := estimate(those, GSR)) is not None}
    return dict(sorted(shares.items(), key=lambda one: -one[1].mean))


def headline(runs: Mapping[str, Sequence[RunLine]], found: Sequence[Pairing]) -> str:
    """Say which planner reaches most, and how the next one differs; ``found`` compares every two."""
    shares = ranked(runs)
    if not shares:
        claims = (f"{name} claims {fmean(run.verdict.claimed for run in those):.2f}" for name, those in runs.items())
        return f"No run was judged by a goal, so none counts as reached; {', '.join(claims)}."
    best, *others = shares
    said = f"{best} reaches {shares[best].mean:.2f} of {_tasks(runs[best])}"
    if not others:
        return f"{said} [{shares[best].low:.2f}, {shares[best].high:.2f}]."
    second, count = others[0], _tasks(runs[others[0]])
    of = "" if count == _tasks(runs[best]) else f" of {count}"
    said += f", {second} {shares[second].mean:.2f}{of}: "
    between = [one for one in found if one.measure is GSR and {one.one, one.other} == {best, second}]
    if not between:
        return f"{said}they have no task and seed in common, so nothing is compared."
    notes = list(_notes(between[0], max(len(runs[best]), len(runs[second]))))
    if (alike := sum(one.mean == shares[best].mean for one in shares.values())) > 2:
        notes.append(f"{alike} of {len(shares)} planners reach as much")
    elif len(shares) > 2:
        notes.append(f"these are the first two of {len(shares)}, for which p is not corrected")
    return f"{said}{_difference(between[0].seen_from(best))}{''.join(f'; {note}' for note in notes)}."


def _difference(one: Pairing) -> str:
    mean, *ends = (round(value, 2) + 0.0 for value in (one.mean, *(one.interval or ())))  # no -0.00
    interval = f" [{', '.join(f'{end:.2f}' for end in ends)}]" if ends else ""
    return f"{mean:+.2f}{interval}, p {one.p_shown}{'' if one.p < SIGNIFICANT else ', not significant'}"


def _notes(one: Pairing, runs: int) -> Iterator[str]:
    if one.pairs < runs:
        yield f"the difference is of the {one.pairs} runs that both have"
    if one.pairs > one.tasks:
        yield "p takes runs of one task as independent"


def _tasks(runs: Sequence[RunLine]) -> int:
    return len({run.task_id for run in runs})
