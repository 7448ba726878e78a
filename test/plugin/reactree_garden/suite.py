"""The task suite ``gardens``: every kind of plant in several gardens."""

from __future__ import annotations

from pydantic import Field

from reactree_garden.world import KINDS, Garden, GardenTask
from reactree_lab.bench.spec import SuiteSpec
from reactree_ros.plugins.settings import Settings


class GardensSettings(Settings):
    """Which gardens."""

    gardens: int = Field(default=2, ge=1, description="how many gardens, each with a task for every kind of plant")
    beds: int = Field(default=4, ge=2, le=9, description="how many beds each garden has")


def _tasks(settings: GardensSettings) -> dict[int, GardenTask]:
    tasks = [GardenTask(kind, settings.beds, seed) for seed in range(settings.gardens) for kind in KINDS]
    return dict(enumerate(tasks))


SPEC = SuiteSpec(
    name="gardens",
    summary="watering every kind of plant in gardens that are made up",
    settings=GardensSettings,
    tasks=_tasks,
    make_world=Garden,
    flags=("gardens",),
)
