"""The experiences that come with the household, as examples for runs that name no memory.

`reactree lab examples` makes them: runs of the expert in generated houses.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from reactree_ros.household.household import WAH_NL
from reactree_ros.memory.embedding import IndexSettings
from reactree_ros.memory.spec import MemorySpec
from reactree_ros.memory.stores.fixed import FixedMemory
from reactree_ros.plugins.installation import Diagnosis, Level

NAME = "household"
#: The files, each with the experiences of one planner.
FOLDER = Path(__file__).with_name("experiences")


class HouseholdMemorySettings(IndexSettings):
    planner: Literal["reactree", "reactree_wm", "react", "react_wm"] = Field(
        default="reactree_wm", description="the planner whose experiences they are"
    )


#: The planners that there are experiences of.
PLANNERS: tuple[str, ...] = get_args(HouseholdMemorySettings.model_fields["planner"].annotation)


def _open(settings: HouseholdMemorySettings) -> FixedMemory:
    file = FOLDER / f"{settings.planner}.jsonl"
    return FixedMemory(file, settings.embedder(), name=f"{NAME}:planner={settings.planner}")


def _diagnose(settings: HouseholdMemorySettings) -> Iterator[Diagnosis]:
    with _open(settings) as opened:
        said = f"{len(opened)} experiences of {settings.planner}, found by {settings.chosen}"
    yield Diagnosis("memory", Level.RIGHT, said)


def _ships(household: str, planner: str) -> HouseholdMemorySettings | None:
    if household != WAH_NL.name or planner not in PLANNERS:
        return None
    settings = HouseholdMemorySettings.model_validate({"planner": planner})
    return settings.model_copy(update={"index": settings.chosen})


SPEC = MemorySpec(
    name=NAME,
    summary="the expert's experiences in generated houses, which come with the package",
    settings=HouseholdMemorySettings,
    make=_open,
    exists=lambda settings: True,
    prepare=HouseholdMemorySettings.prepare,
    diagnose=_diagnose,
    installed=True,
    ships=_ships,
)
