"""The experiences that come with the household, as examples for runs that name no memory.

`reactree lab examples` makes them: runs of the expert in generated houses.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from pydantic import Field

from reactree_ros.household.household import WAH_NL
from reactree_ros.memory import embedding
from reactree_ros.memory.embedding import WordEmbedder
from reactree_ros.memory.spec import MemorySpec
from reactree_ros.memory.stores.fixed import FixedMemory
from reactree_ros.plugins.installation import Diagnosis, Level, lacking
from reactree_ros.plugins.settings import Settings

NAME = "household"
#: The files, each with the experiences of one planner.
FOLDER = Path(__file__).with_name("experiences")


class HouseholdMemorySettings(Settings):
    planner: Literal["reactree", "reactree_wm", "react", "react_wm"] = Field(
        default="reactree_wm", description="the planner whose experiences they are"
    )
    index: Literal["auto", "embeddings", "words"] = Field(
        default="auto",
        description="what finds them; auto: sentence embeddings where reactree_ros[memory] is installed, else words",
    )

    @property
    def chosen(self) -> str:
        """What finds them here: ``embeddings`` or ``words``."""
        if self.index != "auto":
            return self.index
        return "words" if lacking("reactree_ros[memory]") else "embeddings"


#: The planners that there are experiences of.
PLANNERS: tuple[str, ...] = get_args(HouseholdMemorySettings.model_fields["planner"].annotation)


def _open(settings: HouseholdMemorySettings) -> FixedMemory:
    embedder = WordEmbedder() if settings.chosen == "words" else embedding.default_embedder()
    return FixedMemory(FOLDER / f"{settings.planner}.jsonl", embedder, name=f"{NAME}:planner={settings.planner}")


def _prepare(settings: HouseholdMemorySettings) -> None:
    if settings.chosen == "embeddings":
        embedding.default_embedder().encode(["Is the model there?"])


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
    prepare=_prepare,
    diagnose=_diagnose,
    installed=True,
    ships=_ships,
)
