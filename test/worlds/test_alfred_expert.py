"""The seven types of ALFRED task, from instruction to goal: the expert, the real client of AI2-THOR, and a peer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import thor_peer
from thor_trials import trial_of

from reactree_ros.agent.budget import MAX_DECISIONS, Budget
from reactree_ros.agent.prompt import Domain
from reactree_ros.agent.prompt_files import prompt
from reactree_ros.llm.expert_model import ExpertModel
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.planners.variants import variant
from reactree_ros.run import Run, RunResult
from reactree_ros.tree.context import RunContext
from reactree_ros.world.ai2thor import Ai2ThorWorld
from reactree_ros.world.alfred import Trial

pytestmark = pytest.mark.worlds
pytest.importorskip("ai2thor", reason="needs the package ai2thor")

PLANNERS = ("react", "react_wm", "reactree", "reactree_wm")
TRIALS = (
    trial_of("pick_and_place_simple", "FloorPlan201", "Book", to="Sofa", instruction="Put a book on the sofa."),
    trial_of(
        "pick_two_obj_and_place", "FloorPlan301", "CD", to="GarbageCan", instruction="Move two CDs to the trash can."
    ),
    trial_of(
        "look_at_obj_in_light", "FloorPlan301", "Book", lamp="DeskLamp", instruction="Examine a book by lamp light."
    ),
    trial_of(
        "pick_clean_then_place_in_recep",
        "FloorPlan401",
        "SoapBar",
        to="Shelf",
        instruction="Put a rinsed bar of soap on the shelf.",
    ),
    trial_of(
        "pick_heat_then_place_in_recep",
        "FloorPlan1",
        "Potato",
        to="Fridge",
        sliced=True,
        instruction="Put a cooked potato slice in the fridge.",
    ),
    trial_of(
        "pick_cool_then_place_in_recep",
        "FloorPlan1",
        "Mug",
        to="CoffeeMachine",
        instruction="Put a chilled mug on the coffee maker.",
    ),
    trial_of(
        "pick_and_place_with_movable_recep",
        "FloorPlan1",
        "Spoon",
        to="CounterTop",
        carrier="Bowl",
        instruction="Put a bowl with a spoon in it on the counter.",
    ),
)


@contextmanager
def opened(trial: Trial) -> Iterator[Ai2ThorWorld]:
    """The world of a trial, with its peer."""
    world = Ai2ThorWorld(start_unity=False, trial=trial, time_limit=10.0, start_limit=20.0)
    command = [sys.executable, str(Path(thor_peer.__file__)), "--port", str(world.port)]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield world
    finally:
        world.close()
        peer.kill()
        peer.communicate()


def carried_out(trial: Trial, planner: str) -> tuple[RunResult, RunContext]:
    """What the expert does in a trial."""
    chosen = variant(planner)
    with opened(trial) as world:
        context = RunContext(
            model=ExpertModel(),
            world=world,
            budget=Budget(max_decisions=MAX_DECISIONS[Domain.ALFRED]),
            working_memory=WorkingMemory() if chosen.working_memory else None,
        )
        return Run(trial.instruction, context, planner=chosen.build).run(), context


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.task_type.value)
@pytest.mark.parametrize("planner", ["reactree_wm", "reactree", "react_wm"])
def test_every_type_of_task_is_carried_out_from_instruction_to_goal(trial: Trial, planner: str) -> None:
    result, context = carried_out(trial, planner)
    assert (result.end, result.gsr, result.ssr) == ("done", 1.0, 1.0), [node.text for node in context.nodes]


def example(planner: str) -> str:
    """What the expert says and sees in the trial that is the fixed example, agent node after agent node."""
    _, context = carried_out(TRIALS[-2], planner)
    return "\n\n".join(node.text.rstrip("\n") for node in context.nodes)


@pytest.mark.parametrize("planner", PLANNERS)
def test_the_fixed_example_of_alfred_is_what_the_expert_does(planner: str) -> None:
    """Where the expert has changed, ``python test/worlds/test_alfred_expert.py`` writes the examples again."""
    assert prompt(f"alfred/{planner}.txt") == example(planner)


if __name__ == "__main__":
    for name in PLANNERS:
        Path("config", "prompts", "alfred", f"{name}.txt").write_text(example(name) + "\n", encoding="utf-8")
