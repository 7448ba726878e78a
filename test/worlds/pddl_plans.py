"""Plans of a real planner for problems in PDDL, and a model that decides by them."""

from __future__ import annotations

from collections.abc import Sequence

from doubles import ScriptedModel

from reactree_ros.agent.prompt_files import prompt
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.planners.hiagent.examples import told_as_subgoals
from reactree_ros.planners.spec import planner
from reactree_ros.record.export import experiences_of
from reactree_ros.record.moment import Moment
from reactree_ros.record.writer import Recorder
from reactree_ros.world.pddl.domain import wording_of
from reactree_ros.world.pddl.engine import Engine, read_problem
from reactree_ros.world.pddl.world import PddlTask, PddlWorld

#: Planners whose prompts are the agent nodes' own text alone.
BARE = "system_text=false:fixed_example=false"


def plan_of(task: PddlTask) -> list[str]:
    """The skills by which Fast Downward solves a task."""
    from unified_planning.shortcuts import OneshotPlanner

    problem, wording = read_problem(task.domain, task.problem), wording_of(task.domain.parent)
    with OneshotPlanner(name="fast-downward") as solver:
        plan = solver.solve(problem).plan
    assert plan is not None, f"{task.instruction} cannot be solved"
    return [wording.skill(one.action.name, list(map(str, one.actual_parameters))) for one in plan.actions]


def parts_of(task: PddlTask, plan: Sequence[str]) -> dict[str, list[str]]:
    """A plan in parts, each named after the facts of the goal that hold from its end on."""
    wording = wording_of(task.domain.parent)
    engine = Engine(read_problem(task.domain, task.problem), wording)
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
        parts[f"see to it that {' and '.join(facts)}"] = list(plan[begin:end])
        begin = end
    return parts


def script_of(task: PddlTask, plan: Sequence[str], *, expands: bool) -> dict[str, list[str]]:
    """What a model says that follows a plan: all of it, or a part in each of the subgoals of an expansion."""
    parts = parts_of(task, plan) if expands else {task.instruction: list(plan)}
    script = {goal: [*(f"Act: {skill}" for skill in skills), "Act: done"] for goal, skills in parts.items()}
    if expands:
        script[task.instruction] = [f"Expand:\n- control flow: sequence\n- subgoals: {', '.join(parts)}"]
    return script


def carried_out(task: PddlTask, plan: Sequence[str], *, expands: bool) -> tuple[EpisodeResult, str]:
    """Have a plan carried out by ReAct, or by ReAcTree with a subgoal a part; returns the text of every node, too."""
    model = ScriptedModel(script_of(task, plan, expands=expands))
    with PddlWorld(task) as world:
        name = f"{'reactree' if expands else 'react'}:{BARE}"
        result = Episode(task.instruction, world=world, model=model, planner=planner(name)).run()
    last = script_of(task, plan, expands=expands)
    nodes: dict[str, str] = {}
    for request in model.requests:
        text = request.prompt.partition("Target_domain:\n")[2]
        goal = text.rpartition("Your task is to: ")[2].partition("\n")[0]
        nodes[goal] = f"{text}{last[goal][-1]}"
    return result, "\n\n".join(nodes.values()) + "\n"


def carried_out_by_hiagent(task: PddlTask, plan: Sequence[str]) -> tuple[EpisodeResult, str]:
    """Have a plan carried out by HiAgent, a part in each subgoal; returns what its example would tell, too."""
    parts = parts_of(task, plan)
    said = []
    for number, (subgoal, (first, *others)) in enumerate(parts.items(), 1):
        said += [f"{number} Subgoal: {subgoal}\nAction: {first}", *(f"Action: {skill}" for skill in others)]
    summaries = prompt("reactree_ros.agent:prompts", "summary.txt").partition("\n")[0]
    model = ScriptedModel(
        {task.instruction: [*said, "Action: done"], summaries: [f"{part}. Subgoal is met." for part in parts]}
    )
    moment = Moment()
    with PddlWorld(task) as world:
        name, record = planner(f"hiagent:{BARE}"), Recorder(moment.apply)
        result = Episode(task.instruction, world=world, model=model, planner=name, record=record).run()
    (experience,) = experiences_of(moment)
    return result, f"{told_as_subgoals(experience)}\n"
