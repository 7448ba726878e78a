"""The budget counts as the recordings do."""

from __future__ import annotations

import pytest

from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.agent.decision import Counts

STEP = Counts(steps=1)


def test_a_step_is_a_decision_too() -> None:
    budget = Budget()
    budget.count()
    budget.count(STEP)
    assert (budget.decisions, budget.steps) == (2, 1)


def test_steps_are_looked_at_first() -> None:
    budget = Budget(max_decisions=1, max_steps=1)
    assert budget.reached() is None
    budget.count(STEP)
    assert budget.reached() is Limit.STEPS


@pytest.mark.parametrize("name", ["max_decisions", "max_steps"])
def test_a_limit_below_one_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is 0; it must be at least 1"):
        Budget(**{name: 0})
