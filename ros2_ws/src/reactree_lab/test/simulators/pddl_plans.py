"""Plans of a real planner for problems in PDDL."""

from __future__ import annotations

from collections.abc import Sequence

from reactree_lab.worlds.pddl.domain import wording_of
from reactree_lab.worlds.pddl.engine import PddlSimulator, read_problem
from reactree_lab.worlds.pddl.world import PddlTask


def plan_of(task: PddlTask) -> list[str]:
    """The skills by which Fast Downward solves a task."""
    from unified_planning.shortcuts import OneshotPlanner

    problem, wording = read_problem(task.domain, task.problem), wording_of(task.domain.parent)
    with OneshotPlanner(name="fast-downward") as solver:
        plan = solver.solve(problem).plan
    assert plan is not None, f"{task.instruction} cannot be solved"
    return [wording.skill(one.action.name, list(map(str, one.actual_parameters))) for one in plan.actions]


def parts_of(task: PddlTask, plan: Sequence[str]) -> dict[str, list[str]]:
    """A plan in parts, as decisions, each named after the facts of the goal that hold from its end on."""
    wording = wording_of(task.domain.parent)
    engine = PddlSimulator(task.domain, task.problem, wording)
    since = dict.fromkeys(engine.goal, 0)
    held = set(engine.facts())
    for number, skill in enumerate(plan, 1):
        engine.carry_out(skill)
        now = set(engine.facts())
        since |= {fact: number for fact in engine.goal if fact in now and fact not in held}
        held = now
    parts: dict[str, list[str]] = {}
    begin = 0
    for end in sorted({number for number in since.values() if number}):
        facts = [wording.fact(fact) for fact, number in since.items() if number == end]
        parts[f"see to it that {' and '.join(facts)}"] = [f"Act: {skill}" for skill in plan[begin:end]]
        begin = end
    return parts
