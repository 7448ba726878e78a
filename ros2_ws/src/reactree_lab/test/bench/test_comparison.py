"""Means, intervals and tests, against values worked out by hand or taken from tables."""

from __future__ import annotations

import pytest
from bench_runs import line

from reactree_lab.bench.comparison import (
    GSR,
    LONGEST_INPUT,
    SSR,
    STEPS,
    Estimate,
    estimate,
    mcnemar,
    pairings,
    wilcoxon,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(5, 10, 0.2366, 0.7634), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (1, 1, 0.2065, 1.0)],
)
def test_wilsons_interval(successes: int, count: int, low: float, high: float) -> None:
    assert wilson(successes / count, count) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.bench
@pytest.mark.parametrize(
    ("better", "worse", "p"),
    [(5, 1, 0.21875), (0, 8, 0.0078125), (3, 3, 1.0), (0, 0, 1.0), (1, 0, 1.0)],
)
def test_the_exact_mcnemar_test(better: int, worse: int, p: float) -> None:
    assert mcnemar([1.0] * better + [-1.0] * worse + [0.0] * 7)[1] == pytest.approx(p)


def test_success_is_estimated_over_tasks_not_over_their_seeds() -> None:
    runs = [line(task_id=task, seed=seed, gsr=float(task % 2)) for task in range(10) for seed in range(3)]
    found = estimate(runs, GSR)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.2366, 0.7634), abs=5e-5)


def test_what_is_known_of_no_run_has_no_estimate() -> None:
    assert estimate([line()], LONGEST_INPUT) is None
    assert estimate([line(), line(max_input_tokens=7)], LONGEST_INPUT) == Estimate(7.0, None, None)


def test_one_task_gives_a_mean_without_an_interval() -> None:
    assert estimate([line(steps=4), line(seed=1, steps=6)], STEPS) == Estimate(5.0, None, None)


@pytest.mark.bench
def test_a_mean_has_students_interval_cut_at_what_the_measure_can_be() -> None:
    found = estimate([line(task_id=task, steps=steps) for task, steps in enumerate((10, 20, 30))], STEPS)
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((20, 0, 20 + 4.302653 * 10 / 3**0.5), abs=1e-4)
    share = estimate([line(task_id=task, ssr=ssr) for task, ssr in enumerate((0.5, 1.0, 1.0))], SSR)
    assert share is not None
    assert share.high == 1.0


@pytest.mark.bench
def test_wilcoxons_test_leaves_out_pairs_without_a_difference() -> None:
    assert wilcoxon([1.0, 2.0, 3.0, 4.0, 5.0, 0.0])[1] == pytest.approx(2 / 2**5)
    assert wilcoxon([0.0, 0.0])[1] == 1.0


@pytest.mark.bench
def test_planners_are_compared_on_the_tasks_and_seeds_that_both_have() -> None:
    runs = {
        "react": [line("react", task, steps=10, gsr=0.0) for task in range(4)],
        "reactree": [line("reactree", task, steps=10 + task, gsr=1.0, ssr=None) for task in range(1, 6)],
    }
    success, steps = pairings(runs)  # no SSR: it is not known of one of them
    assert (success.one, success.other, success.measure, success.pairs) == ("react", "reactree", GSR, 3)
    assert (success.mean, success.median, success.p) == (1.0, 1.0, 0.25)
    assert (steps.measure, steps.mean, steps.median, steps.p) == (STEPS, 2.0, 2.0, 0.25)
    assert success.half == 0.0
    assert steps.half == pytest.approx(2.484, abs=0.001)  # Student's with two degrees of freedom: 4.303 / sqrt(3)


@pytest.mark.bench
def test_of_a_single_task_a_difference_has_no_interval() -> None:
    runs = {name: [line(name, 1, seed=seed, steps=steps) for seed in (0, 1)] for name, steps in (("a", 3), ("b", 5))}
    *_, steps = pairings(runs)
    assert (steps.pairs, steps.mean, steps.half) == (2, 2.0, None)


def test_one_planner_is_compared_with_none() -> None:
    assert pairings({"react": [line()]}) == []
