"""The fixed examples are what the expert does, in a house of ours; ``python test/planners/test_examples.py`` writes
them again where the expert has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

import reactree_ros.household
from reactree_lab.household.generator import generate_house
from reactree_lab.planners.plan import tidied
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.text import approximate_tokens
from reactree_ros.episode import Episode
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import parse_tasks
from reactree_ros.planners.spec import fixed_example, planner
from reactree_ros.world.port import Outcome

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
#: The planner of each file, and which house its task is of: the short examples' house is small, and its thing is found
#: soon. One short example serves two planners.
LONG, SHORT = {"seed": 7}, {"seed": 75, "rooms": 3}
FILES = [(file, name, LONG) for name, file in EXAMPLES.items()] + [
    (f"{file.removesuffix('_seq_fb')}_short", name, SHORT)
    for name, file in EXAMPLES.items()
    if file.startswith("reactree")
]


def trajectory(name: str, house: Mapping[str, int]) -> str:
    """What the expert says and sees in one task of a house, agent node after agent node."""
    task = parse_tasks(generate_house(**house, tasks=1))[0]
    episode = Episode(task.instruction, model=ExpertModel(), world=SymbolicWorld(task), planner=planner(name))
    assert episode.run().achieved
    return "\n\n".join(node.text.rstrip("\n") for node in episode.context.nodes)


@pytest.mark.parametrize(("file", "name", "house"), FILES)
def test_a_fixed_example_is_what_the_expert_does(file: str, name: str, house: Mapping[str, int]) -> None:
    assert prompt(WAH_NL.prompts, f"{file}.txt") == trajectory(name, house)


@pytest.mark.parametrize("file", [file for file in EXAMPLES.values() if file.startswith("reactree")])
def test_the_example_of_a_tree_has_a_short_one_of_several_nodes_beside_it(file: str) -> None:
    (example,) = fixed_example(WAH_NL, file)
    assert example.short is not None
    assert len(example.short.nodes) > 2
    assert approximate_tokens(example.short.text) < 1300 < approximate_tokens(example.text) / 2
    assert control_flows(example.short.text) <= control_flows(example.text)


def control_flows(text: str) -> set[str]:
    return {line for line in text.splitlines() if line.startswith("- control flow:")}


def test_the_fixed_plan_leads_to_the_goal_by_the_houses_graph() -> None:
    (task,) = parse_tasks(generate_house(seed=7, tasks=1))
    world = SymbolicWorld(task)
    survey, asked, *steps, done = prompt(WAH_NL.prompts, "plan.txt").splitlines()
    assert (survey, done) == (world.survey().take().text, "done")
    assert asked == f"Your task is to: {task.instruction}"
    for step in steps:  # what is carried has no number
        skill = next(one for one in world.available_skills().take() if str(one) == step or tidied(str(one)) == step)
        assert world.execute(str(skill)).take().outcome is Outcome.DONE, step
    score = world.score().take()
    assert score is not None
    assert score.gsr == 1


def test_without_memory_every_agent_node_gets_the_fixed_example_of_its_variant() -> None:
    task = parse_tasks(generate_house(seed=8, tasks=1))[0]
    model = ExpertModel()
    prompts: list[str] = []
    decide = model.decide
    model.decide = lambda request: (prompts.append(request.prompt), decide(request))[1]  # type: ignore[method-assign]
    chosen = planner("reactree:control_flow=seq")
    episode = Episode(task.instruction, model=model, world=SymbolicWorld(task), planner=chosen)
    episode.run()
    assert len(episode.context.nodes) > 2
    example = prompt(WAH_NL.prompts, "reactree_seq.txt")
    assert all(f"Source domain:\n{example}\nTarget_domain:\n" in text for text in prompts)


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        ("", "You are an advanced robot"),
        (":fixed_example=false", "You are an advanced robot"),
        (":system_text=false", "Source domain:\nYour task is to: "),
        (":system_text=false:fixed_example=false", "Target_domain:\nYour "),
    ],
)
@pytest.mark.parametrize("name", ["reactree", "react_wm"])
def test_system_text_and_fixed_example_can_be_left_out(name: str, options: str, begins: str) -> None:
    task = parse_tasks(generate_house(seed=8, tasks=1))[0]
    model, prompts = ExpertModel(), list[str]()
    decide = model.decide
    model.decide = lambda request: (prompts.append(request.prompt), decide(request))[1]  # type: ignore[method-assign]
    Episode(task.instruction, model=model, world=SymbolicWorld(task), planner=planner(name + options)).run()
    assert all(text.startswith(begins) for text in prompts)
    assert all((text.count("Source domain:\nYour task is to: ") == 0) == ("fixed" in options) for text in prompts)


if __name__ == "__main__":
    folder = Path(reactree_ros.household.__file__).parent / "prompts"
    for file, name, house in FILES:
        (folder / f"{file}.txt").write_text(trajectory(name, house) + "\n", encoding="utf-8")
