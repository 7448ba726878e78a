"""The household bridge: hosts a simulated household."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reactree_interfaces.srv import ResetWorld

from reactree_ros.episode.eyes import with_eyes
from reactree_ros.llm.spec import named_model
from reactree_ros.nodes.bridge.bridge import Bridge
from reactree_ros.nodes.parameters import declare, declare_chosen, settings_of
from reactree_ros.nodes.settings import HouseholdBridgeSettings
from reactree_ros.nodes.spinning import run_node
from reactree_ros.world.port import World
from reactree_ros.world.spec import WORLDS, Place, Task, WorldSettings, asks_for, in_house


class BridgeNode(Bridge):
    """Hosts a household; its endpoints are those of :class:`reactree_ros.nodes.bridge.bridge.Bridge`.

    Uses:
        the language model that ``vision`` names, which gets pictures.

    Parameters:
        those of :class:`HouseholdBridgeSettings`, of the world that ``world`` names, and of every bridge; read at
        configuration.
    """

    def __init__(self, name: str = "household_bridge", *, world: World | None = None, **kwargs: Any) -> None:
        super().__init__(name, **kwargs)
        declare(self, HouseholdBridgeSettings)
        declare_chosen(self, WORLDS, settings_of(self, HouseholdBridgeSettings).world)
        self._given = world
        self._place: Place | None = None
        self._task: tuple[int, Task] | None = None

    def load(self) -> World:
        if self._given is not None:
            return self._given
        spec = WORLDS.get(settings_of(self, HouseholdBridgeSettings).world)
        settings = settings_of(self, spec.settings)
        assert isinstance(settings, WorldSettings)
        self._place = place = Place.from_settings(spec, settings)
        if not place.tasks:
            return self._with_eyes(place, None)
        task_id = next(iter(place.tasks)) if settings.task_id == -1 else settings.task_id
        self._task = task_id, place.task(task_id)
        return self._with_eyes(place, self._task[1])

    def _with_eyes(self, place: Place, task: Task | None) -> World:
        vision = settings_of(self, HouseholdBridgeSettings).vision
        return with_eyes(lambda _: place.make(task), named_model(vision) if vision else None, place.spec.checks)

    def about(self) -> Mapping[str, Any]:
        if self._place is None:
            return {}
        settings = self._place.settings.model_dump(mode="json", exclude_defaults=True)
        house = in_house(self._task[1]) if self._task else {}
        return {"name": self._place.spec.name, "settings": settings, **house}

    def change_task(self, task_id: int) -> World | None:
        if self._given is not None or self._place is None:
            return self._given
        if task_id not in self._place.tasks:
            return None
        self._task = task_id, self._place.tasks[task_id]
        return self._with_eyes(self._place, self._task[1])

    def describe_task(self, response: ResetWorld.Response) -> None:
        if self._task is not None:
            response.task_id, task = self._task
            response.instruction, response.task_name = task.instruction, task.task_name

    def asks_for(self, instruction: str) -> bool:
        return self._task is None or asks_for(self._task[1], instruction)


def main() -> None:
    run_node(BridgeNode)


if __name__ == "__main__":
    main()
