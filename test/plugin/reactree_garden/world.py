"""The world ``garden``: beds with plants that want water, a shed with a can, a well."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from reactree_ros.background.pending import Pending
from reactree_ros.world.port import Household, Observation, Outcome, Score, Seen, World
from reactree_ros.world.spec import WorldSettings, WorldSpec

KINDS = ("tomato", "bean", "pumpkin")
CAN, SHED, WELL = "can-1", "shed-1", "well-1"
#: Plants that a full can is enough for.
FULL = 2
GARDEN = Household(
    name="garden",
    actions=("walk to", "take", "fill", "water"),
    naming="{word}-{instance}",
    start_line="You stand in the garden",
    max_decisions=60,
    max_steps=40,
    prompts="reactree_garden:prompts",
)


@dataclass(frozen=True)
class GardenTask:
    """Water every plant of a kind.

    Attributes:
        kind: The kind.
        beds: How many beds there are; a plant of each kind stands in one of them, and a second one in another.
        seed: Which plant is where.
    """

    kind: str
    beds: int = 3
    seed: int = 0

    @property
    def instruction(self) -> str:
        return f"Water every {self.kind}"

    @property
    def task_name(self) -> str:
        return f"water_{self.kind}"


class Garden(World):
    """A garden: whoever is in it sees all of it, walks between its places, and carries one can.

    Args:
        task: What is to be done in it.
        scored: Whether the task's goal is what is asked for.
    """

    household = GARDEN
    recallable = (*KINDS, "can")

    def __init__(self, task: GardenTask, *, scored: bool = True) -> None:
        self._task, self._scored = task, scored
        self._plant(task.seed)

    def _plant(self, seed: int) -> None:
        beds, dice = [f"bed-{number}" for number in range(1, self._task.beds + 1)], random.Random(seed)
        self._places = [SHED, WELL, *beds]
        self._bed = {f"{kind}-{number}": bed for kind in KINDS for number, bed in enumerate(dice.sample(beds, 2), 1)}
        self._dry = set(self._bed)
        self._place, self._carried, self._water = SHED, False, 0

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        self._plant(self._task.seed if seed is None else seed)
        return self.observe()

    def observe(self) -> Pending[Observation]:
        return Pending.ready(self._look(f"{GARDEN.start_line}, at {self._place}."))

    def available_skills(self) -> Pending[Sequence[str]]:
        skills = [f"walk to {place}" for place in self._places if place != self._place]
        skills += [f"{verb} {CAN}" for verb in ("take", "fill") if not self._objection(verb, CAN)]
        skills += [f"water {plant}" for plant in self._bed if not self._objection("water", plant)]
        return Pending.ready(skills)

    def execute(self, skill: str) -> Pending[Observation]:
        verb, name = GARDEN.split_skill(skill)
        known = {"walk to": self._places, "take": [CAN], "fill": [CAN], "water": list(self._bed)}
        if name not in known.get(verb, []):
            return Pending.ready(Observation(f"There is no way to {skill} in this garden.", Outcome.UNKNOWN_SKILL))
        if objection := self._objection(verb, name):
            return Pending.ready(Observation(objection, Outcome.PRECONDITION))
        if verb == "walk to":
            self._place = name
        elif verb == "take":
            self._carried = True
        elif verb == "fill":
            self._water = FULL
        else:
            self._water -= 1
            self._dry.discard(name)
        return Pending.ready(self._look(f"You {skill}."))

    def score(self) -> Pending[Score | None]:
        wanted = [plant for plant in self._bed if plant.startswith(f"{self._task.kind}-")]
        share = sum(plant not in self._dry for plant in wanted) / len(wanted)
        return Pending.ready(Score(float(share == 1), share) if self._scored else None)

    def _objection(self, verb: str, name: str) -> str:
        if verb == "take" and (self._carried or self._place != SHED):
            return "You carry the can already." if self._carried else f"The can is in {SHED}."
        if verb in ("fill", "water") and not self._carried:
            return "You need the can."
        if verb == "fill" and self._place != WELL:
            return f"There is no water here. Walk to {WELL}."
        if verb == "water" and self._place != self._bed[name]:
            return f"You are not close to {name}."
        if verb == "water" and (name not in self._dry or not self._water):
            return f"{name} has water already." if name not in self._dry else f"{CAN} is empty."
        return ""

    def _look(self, what: str) -> Observation:
        dry = [f"{plant} in {bed}" for plant, bed in self._bed.items() if plant in self._dry]
        carried = f" You carry {CAN}, which {'has water' if self._water else 'is empty'}." if self._carried else ""
        words = [(CAN, SHED), *self._bed.items()]
        seen = [
            Seen(word, int(number), None, place, held=name == CAN and self._carried)
            for name, place in words
            for word, _, number in [name.partition("-")]
        ]
        return Observation(f"{what}{carried} Dry: {', '.join(dry) or 'nothing'}.", seen=tuple(seen))


class GardenSettings(WorldSettings):
    """Which garden."""

    beds: int = Field(default=3, ge=2, le=9, description="how many beds the garden has")
    planting: int = Field(default=0, ge=0, description="seed of which plant is where")


def _tasks(settings: GardenSettings) -> dict[int, GardenTask]:
    return {number: GardenTask(kind, settings.beds, settings.planting) for number, kind in enumerate(KINDS)}


def _make(settings: GardenSettings, task: GardenTask, *, scored: bool = True) -> Garden:
    return Garden(task, scored=scored)


SPEC = WorldSpec(
    name="garden",
    summary="a garden whose plants want water",
    settings=GardenSettings,
    household=GARDEN,
    load_tasks=_tasks,
    make=_make,
    flags=("beds", "task_id"),
)
