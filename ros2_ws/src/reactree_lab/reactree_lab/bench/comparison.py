"""Statistics of a bench's planners: means with 95 % intervals, and paired tests between every two planners.

The unit of every interval is the task. Runs of one task with several seeds are averaged first, because they are not
independent samples.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean, median, stdev

from reactree_lab.bench.results import RunLine
from reactree_ros.agent.budget import Prices
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import checked, read_yaml

_CONFIDENCE = 0.95
_NORMAL = 1.959963984540054  # quantile of the normal distribution that leaves 2.5 % above


@dataclass(frozen=True, kw_only=True)
class Measure:
    name: str
    of: Callable[[RunLine], float | None]  # reads it from a result; None if unknown
    is_share: bool = False  # whether it lies between 0 and 1
    is_success: bool = False  # whether it is yes or no
    counts_tokens: bool = False  # whether it is a number of tokens that may be approximate
    digits: int = 1  # digits after the decimal point


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


GSR = Measure(name="GSR", of=lambda run: float(run.achieved), is_share=True, is_success=True, digits=3)
SSR = Measure(name="SSR", of=lambda run: run.ssr, is_share=True, digits=3)
STEPS = Measure(name="steps", of=lambda run: run.steps)
DECISIONS = Measure(name="decisions", of=lambda run: run.decisions)
EXECUTABLE = Measure(
    name="executable actions", of=lambda run: _ratio(run.executable_actions, run.actions), is_share=True, digits=3
)
LONGEST_INPUT = Measure(name="longest input, tokens", of=lambda run: run.max_input_tokens, counts_tokens=True, digits=0)
MEAN_OUTPUT = Measure(name="mean output, tokens", of=lambda run: run.mean_output_tokens, counts_tokens=True)
MEAN_INPUT = Measure(name="mean input, tokens", of=lambda run: run.mean_input_tokens, counts_tokens=True, digits=0)
ALL_INPUT = Measure(
    name="input of all requests, tokens", of=lambda run: run.all_input_tokens, counts_tokens=True, digits=0
)
ALL_OUTPUT = Measure(
    name="output of all requests, tokens", of=lambda run: run.all_output_tokens, counts_tokens=True, digits=0
)
CACHED = Measure(
    name="cached share of input", of=lambda run: _ratio(run.cached_tokens, run.prompt_tokens), is_share=True, digits=3
)
SECONDS = Measure(name="seconds", of=lambda run: run.seconds, digits=2)
#: The rows of the table; the last ones say how the language model was asked, and what of it was in vain.
MEASURES = (
    *(GSR, SSR, DECISIONS, STEPS, EXECUTABLE, LONGEST_INPUT),
    *(MEAN_INPUT, MEAN_OUTPUT, ALL_INPUT, ALL_OUTPUT, CACHED, SECONDS),
    Measure(name="seconds a decision", of=lambda run: _ratio(run.model_seconds, run.replies), digits=2),
    Measure(name="requests a decision", of=lambda run: _ratio(run.attempts, run.replies), digits=2),
    Measure(name="refused", of=lambda run: _ratio(run.refused_attempts, run.attempts), is_share=True, digits=3),
    Measure(name="repeated", of=lambda run: _ratio(run.repeated_attempts, run.attempts), is_share=True, digits=3),
    Measure(
        name="tokens refused", of=lambda run: _ratio(run.refused_tokens, run.output_tokens), is_share=True, digits=3
    ),
)

#: Further rows if the runs have prices.
COST = (
    Measure(name="cost, in the prices of the runs", of=lambda run: run.cost, digits=5),
    Measure(name="cost, without a cache", of=lambda run: run.cost_uncached, digits=5),
)

#: Further rows if the runs could ask a person.
ASKED = (
    Measure(name="questions", of=lambda run: run.questions, digits=2),
    Measure(name="needless questions", of=lambda run: run.needless, digits=2),
)


def read_prices(path: Path) -> dict[str, Prices]:
    """Read a YAML file of price lists by name, in dollars for a million tokens. Raises UserError."""
    try:
        lists = {str(name): checked(Prices, one) for name, one in dict(read_yaml(path)[0]).items()}
    except (TypeError, ValueError) as error:
        like = "'NAME: {input: 1, cached: 0.1, output: 5}'"
        raise UserError(f"{path}: is not a file of price lists, which look like {like}: {error}") from None
    return lists


def costs(name: str, prices: Prices) -> Iterator[Measure]:
    """Yield a run's cost by a price list, with the prefix cache as far as it is known, and without."""

    def cost(run: RunLine, cached: int | None) -> float | None:
        if run.all_input_tokens is None or run.all_output_tokens is None or cached is None:
            return None
        return 1000 * prices.cost_of(run.all_input_tokens, cached, run.all_output_tokens)

    said = f"cost by {name}, thousandths of a dollar"
    yield Measure(name=said, of=lambda run: cost(run, run.cached_tokens), counts_tokens=True, digits=2)
    yield Measure(name=f"{said}, without a cache", of=lambda run: cost(run, 0), counts_tokens=True, digits=2)


@dataclass(frozen=True)
class Estimate:
    mean: float
    low: float | None  # None for a single task
    high: float | None


def estimate(runs: Sequence[RunLine], measure: Measure) -> Estimate | None:
    """Estimate a measure from runs of one planner; None if no run has it.

    A success rate has Wilson's interval, with the number of tasks as sample size. Any other mean has Student's over the
    tasks, cut at the measure's limits.
    """
    values = _by_task(runs, measure)
    if not values:
        return None
    mean, count = fmean(values), len(values)
    if measure.is_success:
        return Estimate(mean, *wilson(mean, count))
    if count == 1:
        return Estimate(mean, None, None)
    half = _student(values)
    return Estimate(mean, max(0.0, mean - half), min(1.0, mean + half) if measure.is_share else mean + half)


def _student(values: Sequence[float]) -> float:
    from scipy.stats import t

    count = len(values)
    return float(t.ppf((1 + _CONFIDENCE) / 2, count - 1)) * stdev(values) / math.sqrt(count)


def wilson(share: float, count: int) -> tuple[float, float]:
    square = _NORMAL**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = _NORMAL * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, middle - half), min(1.0, middle + half)


#: A difference with a smaller p value is called significant.
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Pairing:
    one: str
    other: str
    measure: Measure
    pairs: int  # number of compared pairs of runs
    tasks: int  # number of tasks that they are of
    mean: float  # mean difference: the second planner's value minus the first one's
    half: float | None  # half of its 95 % interval, Student's over the tasks; None for a single task
    median: float
    test: str
    p: float  # the test's two-sided p value

    @property
    def p_shown(self) -> str:
        return "< 0.001" if self.p < 0.001 else f"{self.p:.3f}"

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the mean, cut at the measure's limits."""
        if self.half is None:
            return None
        low, high = self.mean - self.half, self.mean + self.half
        return (max(-1.0, low), min(1.0, high)) if self.measure.is_share else (low, high)

    def seen_from(self, planner: str) -> Pairing:
        """Return the comparison of one of its planners with the other: the difference is what this one has more."""
        if planner == self.other:
            return self
        return replace(self, one=self.other, other=self.one, mean=-self.mean, median=-self.median)


def pairings(runs: Mapping[str, Sequence[RunLine]]) -> list[Pairing]:
    """Compare every two planners by success, SSR and steps; leave out measures without any pair of runs."""
    found = []
    for one, other in combinations(runs, 2):
        first, second = ({(run.task_id, run.seed): run for run in runs[planner]} for planner in (one, other))
        for measure in (GSR, SSR, STEPS):
            by_task: dict[int, list[float]] = defaultdict(list)
            for key, run in first.items():
                before, after = measure.of(run), measure.of(second[key]) if key in second else None
                if before is not None and after is not None:
                    by_task[run.task_id].append(after - before)
            if by_task:
                differences = [difference for some in by_task.values() for difference in some]
                half = _student([fmean(some) for some in by_task.values()]) if len(by_task) > 1 else None
                test, p = mcnemar(differences) if measure.is_success else wilcoxon(differences)
                middle = fmean(differences), half, median(differences)
                found.append(Pairing(one, other, measure, len(differences), len(by_task), *middle, test, p))
    return found


def mcnemar(differences: Sequence[float]) -> tuple[str, float]:
    """Test exactly whether one planner succeeds in the other's failures more often than the other way round."""
    from scipy import stats

    better, worse = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
    return "McNemar, exact", float(stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0


def wilcoxon(differences: Sequence[float]) -> tuple[str, float]:
    """Test whether differences are centred at 0, by their signed ranks; pairs without difference are left out."""
    from scipy import stats

    there = [one for one in differences if one]
    return "Wilcoxon signed-rank", float(stats.wilcoxon(there).pvalue) if there else 1.0


def _by_task(runs: Sequence[RunLine], measure: Measure) -> list[float]:
    by_task: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        if (value := measure.of(run)) is not None:
            by_task[run.task_id].append(value)
    return [fmean(values) for values in by_task.values()]
