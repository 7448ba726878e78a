"""Ways through tasks of ScienceWorld: the simulator's own, and the one that the prompts tell as an example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reactree_ros.world.scienceworld.engine import borrowed
from reactree_ros.world.scienceworld.tasks import ScienceTask

#: The task that the examples are of; a variation for training.
EXAMPLE = ("find-plant", 0, "")
#: How it is done.
PARTS: Mapping[str, Sequence[str]] = {
    "find a plant and focus on it": [
        "Think: Plants grow in the greenhouse.",
        "Act: open door to greenhouse",
        "Act: go to greenhouse",
        "Act: look around",
        "Think: The apple tree is a plant. It stands in flower pot 6, in which it can be carried.",
        "Act: focus on adult apple tree",
    ],
    "move the plant to the red box in the kitchen": [
        "Act: pick up flower pot 6",
        "Act: go to hallway",
        "Act: open door to kitchen",
        "Act: go to kitchen",
        "Act: move flower pot 6 in inventory to red box",
    ],
}


def gold_path(task: ScienceTask) -> list[str]:
    """The actions of the simulator's own way."""
    with borrowed() as engine:
        engine.load(task.task_name, task.variation, task.simplifications, gold=True)
        return engine.gold()


def parts_of(task: ScienceTask, path: Sequence[str]) -> dict[str, list[str]]:
    """A way in parts, as decisions: another begins wherever the score has risen."""
    parts: list[list[str]] = [[]]
    with borrowed() as engine:
        engine.load(task.task_name, task.variation, task.simplifications)
        before = 0.0
        for action in path:
            score, _ = engine.progress()
            if score > before:
                parts.append([])
                before = score
            parts[-1].append(f"Act: {action}")
            engine.step(action)
    return {f"do part {number}": part for number, part in enumerate(parts, 1)}
