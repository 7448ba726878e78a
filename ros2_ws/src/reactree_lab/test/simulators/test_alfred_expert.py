"""The seven types of ALFRED task, from instruction to goal: the expert, the real client of AI2-THOR, and a peer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import thor_peer
from thor_trials import trial_of, world_of

from reactree_lab.worlds.ai2thor.alfred import Trial
from reactree_lab.worlds.ai2thor.wording import ALFRED
from reactree_lab.worlds.ai2thor.world import Ai2ThorWorld
from reactree_ros.agent.prompt import prompt
from reactree_ros.agent.turns import node_text
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.household.expert.model import ExpertModel
from reactree_ros.planners.spec import planner
from reactree_ros.tree.options import TreeOptions

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
    world = world_of(trial=trial)
    command = [sys.executable, str(Path(thor_peer.__file__)), "--port", str(world.port)]
    peer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield world
    finally:
        world.close()
        peer.kill()
        peer.communicate()


def carried_out(trial: Trial, name: str, **options: Any) -> tuple[EpisodeResult, list[str]]:
    """What the expert does in a trial, and the text of its agent nodes."""
    with opened(trial) as world:
        chosen = TreeOptions(**options)
        episode = Episode(trial.instruction, world=world, model=ExpertModel(), planner=planner(name), options=chosen)
        return episode.run(), [node_text(node.turns) for node in episode.context.nodes]


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.task_type.value)
@pytest.mark.parametrize("name", ["reactree_wm", "reactree", "react_wm"])
def test_every_type_of_task_is_carried_out_from_instruction_to_goal(trial: Trial, name: str) -> None:
    result, texts = carried_out(trial, name)
    assert (result.end, result.gsr, result.ssr) == ("done", 1.0, 1.0), texts


@pytest.mark.parametrize("trial", TRIALS, ids=lambda trial: trial.task_type.value)
def test_the_expert_does_the_same_where_only_what_is_possible_is_on_offer(trial: Trial) -> None:
    acts = []
    for offers in ("all", "possible"):
        _, (text,) = carried_out(trial, "react_wm", offers=offers)
        acts.append([line.lower() for line in text.splitlines() if line.startswith("Act: ")])
    assert acts[0] == acts[1]


def example(name: str) -> str:
    """What the expert says and sees in the trial that is the fixed example, agent node after agent node."""
    _, texts = carried_out(TRIALS[-2], name)
    return "\n\n".join(text.rstrip("\n") for text in texts)


@pytest.mark.parametrize("name", PLANNERS)
def test_the_fixed_example_of_alfred_is_what_the_expert_does(name: str) -> None:
    """Where the expert has changed, ``python test/simulators/test_alfred_expert.py`` writes the examples again."""
    assert prompt(ALFRED.prompts, f"{name}.txt") == example(name)


if __name__ == "__main__":
    for name in PLANNERS:
        path = Path("reactree_ros", "lab", "worlds", "ai2thor", "prompts", f"{name}.txt")
        path.write_text(example(name) + "\n", encoding="utf-8")
