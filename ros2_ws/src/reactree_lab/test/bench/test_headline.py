"""The result of a bench in one sentence."""

from __future__ import annotations

import pytest
from bench_runs import line

from reactree_lab.bench.comparison import pairings
from reactree_lab.bench.headline import headline
from reactree_lab.bench.results import RunLine

pytestmark = pytest.mark.bench


def of(planner: str, reached: int, tasks: int = 20, *, seeds: int = 1, first: int = 0) -> list[RunLine]:
    """Runs of a planner, which reaches the goals of the first tasks."""
    return [
        line(planner, task, seed=seed, gsr=float(task < first + reached))
        for task in range(first, first + tasks)
        for seed in range(seeds)
    ]


def said(*planners: list[RunLine]) -> str:
    runs = {some[0].planner: some for some in planners}
    return headline(runs, pairings(runs))


def test_the_better_of_two_is_first_with_difference_interval_and_p() -> None:
    # 8 of 20 differ: mean 0.4, standard deviation 0.5026, t 2.093; 2 / 2 ** 8
    better = "reactree_wm reaches 1.00 of 20, react_wm 0.60: +0.40 [0.16, 0.64], p 0.008."
    assert said(of("react_wm", 12), of("reactree_wm", 20)) == better
    assert said(of("reactree_wm", 20), of("react_wm", 12)) == better


def test_a_difference_that_may_be_chance_is_called_so() -> None:
    assert said(of("react", 15), of("reactree", 16)).endswith("+0.05 [-0.05, 0.15], p 1.000, not significant.")
    alike = "react reaches 0.75 of 20, reactree 0.75: +0.00 [0.00, 0.00], p 1.000, not significant."
    assert said(of("react", 15), of("reactree", 15)) == alike


def test_a_planner_alone_has_its_interval() -> None:
    assert said(of("react", 10)) == "react reaches 0.50 of 20 [0.30, 0.70]."


def test_of_several_the_first_two_are_compared_and_equals_counted() -> None:
    three = said(of("react", 2), of("zsp", 12), of("reactree", 20))
    assert three.startswith("reactree reaches 1.00 of 20, zsp 0.60: +0.40")
    assert three.endswith("p 0.008; these are the first two of 3, for which p is not corrected.")
    alike = said(of("react", 9), *(of(f"planner {number}", 20) for number in range(11)))
    assert alike.startswith("planner 0 reaches 1.00 of 20, planner 1 1.00: +0.00")
    assert alike.endswith("not significant; 11 of 12 planners reach as much.")


def test_runs_that_only_one_has_are_told() -> None:
    half = said(of("reactree", 20), of("react", 2, 10))
    assert half.startswith("reactree reaches 1.00 of 20, react 0.20 of 10: +0.80 [")
    assert half.endswith("p 0.008; the difference is of the 10 runs that both have.")
    apart = said(of("reactree", 20), of("react", 2, 10, first=20))
    assert apart.endswith("react 0.20 of 10: they have no task and seed in common, so nothing is compared.")


def test_a_single_task_has_no_interval_and_seeds_are_told() -> None:
    assert said(of("reactree", 1, 1), of("react", 0, 1)).endswith("react 0.00: +1.00, p 1.000, not significant.")
    assert said(of("reactree", 20, seeds=3), of("react", 12, seeds=3)).endswith(
        "p < 0.001; p takes runs of one task as independent."
    )


def test_what_no_goal_judged_is_not_ranked() -> None:
    claimed = [line("react", task, gsr=None, ssr=None) for task in range(4)]  # type: ignore[arg-type]
    assert said(claimed) == "No run was judged by a goal, so none counts as reached; react claims 1.00."
    assert said(claimed, of("reactree", 10)) == "reactree reaches 0.50 of 20 [0.30, 0.70]."
