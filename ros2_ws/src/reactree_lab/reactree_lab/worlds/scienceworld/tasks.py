"""The tasks of ScienceWorld: thirty types, each in many variations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from reactree_lab.worlds.scienceworld.engine import borrowed
from reactree_ros.errors import UserError
from reactree_ros.world.port import WorldError

#: Number of variations of each type of task, in the order of the paper's table 1.
VARIATIONS: Mapping[str, int] = {
    "boil": 30,
    "melt": 30,
    "freeze": 30,
    "change-the-state-of-matter-of": 30,
    "use-thermometer": 540,
    "measure-melting-point-known-substance": 436,
    "measure-melting-point-unknown-substance": 300,
    "power-component": 20,
    "power-component-renewable-vs-nonrenewable-energy": 20,
    "test-conductivity": 900,
    "test-conductivity-of-unknown-substances": 600,
    "find-living-thing": 300,
    "find-non-living-thing": 300,
    "find-plant": 300,
    "find-animal": 300,
    "grow-plant": 126,
    "grow-fruit": 126,
    "chemistry-mix": 32,
    "chemistry-mix-paint-secondary-color": 36,
    "chemistry-mix-paint-tertiary-color": 36,
    "lifespan-longest-lived": 125,
    "lifespan-shortest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125,
    "identify-life-stages-1": 14,
    "identify-life-stages-2": 10,
    "inclined-plane-determine-angle": 168,
    "inclined-plane-friction-named-surfaces": 1386,
    "inclined-plane-friction-unnamed-surfaces": 162,
    "mendelian-genetics-known-plant": 120,
    "mendelian-genetics-unknown-plant": 480,
}
#: The simulator's simplifications.
SIMPLIFICATIONS = (
    "easy",
    "teleportAction",
    "openDoors",
    "openContainers",
    "selfWateringFlowerPots",
    "noElectricalAction",
)
_HEADING, _TASK = "Task Description:", "Your task is to "


@dataclass(frozen=True)
class ScienceTask:
    #: The type, e.g. ``boil``.
    task_name: str
    variation: int  # its number
    simplifications: str  # the simplifications, separated by commas
    instruction: str  # the instruction, in the simulator's words


@lru_cache(maxsize=10_000)
def described(task_name: str, variation: int, simplifications: str) -> ScienceTask:
    try:
        with borrowed() as engine:
            engine.load(task_name, variation, simplifications)
            said = " ".join(engine.description().removeprefix(_HEADING).split())
    except WorldError as error:
        raise UserError(str(error)) from error
    return ScienceTask(task_name, variation, simplifications, said.removeprefix(_TASK))


def split(task_name: str, part: str) -> range:
    """Return the numbers of a type's variations in a part: ``train``, ``dev`` or ``test``."""
    total = VARIATIONS[task_name]
    quarter = total // 4
    return {
        "train": range(2 * quarter),
        "dev": range(2 * quarter, 3 * quarter),
        "test": range(3 * quarter, total),
    }[part]
