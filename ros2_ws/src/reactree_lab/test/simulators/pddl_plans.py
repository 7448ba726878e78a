"""Plans of a real planner for problems in PDDL."""

from __future__ import annotations

from reactree_lab.worlds.pddl.engine import read_problem, wording_of
from reactree_lab.worlds.pddl.world import PddlTask


def plan_of(task: PddlTask) -> list[str]:
    """The skills by which Fast Downward solves a task."""
    from unified_planning.shortcuts import OneshotPlanner

    problem, wording = read_problem(task.domain, task.problem), wording_of(task.domain.parent)
    with OneshotPlanner(name="fast-downward") as solver:
        plan = solver.solve(problem).plan
    assert plan is not None, f"{task.instruction} cannot be solved"
    return [wording.skill(one.action.name, list(map(str, one.actual_parameters))) for one in plan.actions]
