"""The fixed examples are what the expert does, in a house of ours; ``python test/planners/test_examples.py`` writes
them again where the expert has changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from reactree_ros.agent.prompt_files import prompt
from reactree_ros.llm.expert_model import ExpertModel
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.planners.plan import tidied
from reactree_ros.planners.variants import variant
from reactree_ros.run import Run
from reactree_ros.tree.context import RunContext
from reactree_ros.world.generator import generate_house, solution
from reactree_ros.world.symbolic import SymbolicWorld
from reactree_ros.world.tasks import parse_tasks

EXAMPLES = {
    "react": "react",
    "react_wm": "react_wm",
    "reactree": "reactree",
    "reactree_wm": "reactree_wm",
    "reactree:control_flow=seq+fb": "reactree_seq_fb",
    "reactree_wm:control_flow=seq+fb": "reactree_wm_seq_fb",
    "reactree:control_flow=seq": "reactree_seq",
    "reactree_wm:control_flow=seq": "reactree_wm_seq",
}


def trajectory(planner: str) -> str:
    """What the expert says and sees in one task of a house, agent node after agent node."""
    task = parse_tasks(generate_house(seed=7, tasks=1))[0]
    chosen = variant(planner)
    context = RunContext(
        model=ExpertModel(),
        world=SymbolicWorld(task),
        working_memory=WorkingMemory() if chosen.working_memory else None,
    )
    assert Run(task.instruction, context, planner=chosen.build).run().achieved
    return "\n\n".join(node.text.rstrip("\n") for node in context.nodes)


def plan() -> str:
    """The same task as a plan: what leads to the goal, read off the house's graph, and no instance that is carried."""
    document = generate_house(seed=7, tasks=1)
    survey = SymbolicWorld(parse_tasks(document)[0]).survey().take()
    steps = [*map(tidied, solution(document[0])), "done"]
    return "\n".join([survey.text, f"Your task is to: {document[0]['nl_instructions'][0]}", *steps])


@pytest.mark.parametrize("planner", EXAMPLES)
def test_a_fixed_example_is_what_the_expert_does(planner: str) -> None:
    assert prompt(f"wah_nl/{EXAMPLES[planner]}.txt") == trajectory(planner)


def test_the_fixed_plan_leads_to_the_goal_by_the_houses_graph() -> None:
    assert prompt("wah_nl/plan.txt") == plan()


def test_without_memory_every_agent_node_gets_the_fixed_example_of_its_variant() -> None:
    task = parse_tasks(generate_house(seed=8, tasks=1))[0]
    model = ExpertModel()
    prompts: list[str] = []
    decide = model.decide
    model.decide = lambda request: (prompts.append(request.prompt), decide(request))[1]  # type: ignore[method-assign]
    context = RunContext(model=model, world=SymbolicWorld(task))
    Run(task.instruction, context, planner=variant("reactree:control_flow=seq").build).run()
    assert len(context.nodes) > 2
    assert all(f"Source domain:\n{prompt('wah_nl/reactree_seq.txt')}\nTarget_domain:\n" in text for text in prompts)


if __name__ == "__main__":
    Path("config", "prompts", "wah_nl", "plan.txt").write_text(plan() + "\n", encoding="utf-8")
    for name, file in EXAMPLES.items():
        Path("config", "prompts", "wah_nl", f"{file}.txt").write_text(trajectory(name) + "\n", encoding="utf-8")
