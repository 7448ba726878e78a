"""The household bridge: hosts a simulated household."""

from __future__ import annotations

from typing import Any

from reactree_interfaces.srv import ResetWorld

from reactree_ros.errors import UserError
from reactree_ros.nodes.bridge import Bridge
from reactree_ros.nodes.parameters import declare
from reactree_ros.nodes.spinning import run_node
from reactree_ros.world.alfred import Trial
from reactree_ros.world.houses import HOUSES
from reactree_ros.world.port import World
from reactree_ros.world.tasks import Task
from reactree_ros.world.worlds import WORLDS, WorldSettings, load_world_tasks, make_world, world_settings

#: Name, default and meaning of parameters that may be any text or yes and no.
PARAMETERS: tuple[tuple[str, Any, str], ...] = (
    ("house", "", f"a shipped house ({', '.join(HOUSES)}; empty: the first) or a file of `reactree house`"),
    (
        "tasks",
        "",
        "a task file in the WAH-NL schema, instead of a house; for ai2thor a file or folder of ALFRED trials",
    ),
    ("scene", "", "for ai2thor, instead of tasks: a scene, e.g. FloorPlan10"),
    ("host", "127.0.0.1", "where VirtualHome's simulator listens; where the bridge listens for AI2-THOR's"),
    ("executable", "", "the simulator's executable; empty: VirtualHome runs already, ai2thor downloads its own"),
    ("display", "", "X display of the simulator, e.g. :0"),
    ("headless", False, "AI2-THOR without a display (CloudRendering)"),
    ("start_simulator", True, "start AI2-THOR; false: one that runs connects to host and port"),
    ("force", False, "force every action on AI2-THOR's objects"),
    ("interactable_poses", False, "go to where AI2-THOR says that an object can be handled"),
    ("pictures", False, "publish a picture after each skill, of a world that takes them"),
)


class BridgeNode(Bridge):
    """Hosts a household; its endpoints are those of :class:`reactree_ros.nodes.bridge.Bridge`.

    Parameters:
        ``world``, ``house``, ``tasks``, ``task_id``, ``scene``, ``host``, ``port``, ``executable``, ``display``,
        ``headless``, ``start_simulator``, ``force``, ``interactable_poses``, ``time_limit``, ``pictures``, and those
        of every bridge; read when the node is configured.
    """

    def __init__(self, name: str = "household_bridge", *, world: World | None = None, **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            world: A world to host instead of the one that the parameters name.
            kwargs: Passed on to :class:`rclpy.lifecycle.LifecycleNode`.
        """
        super().__init__(name, **kwargs)
        declare(self, "world", "virtualhome", "which world to host", one_of=WORLDS)
        declare(
            self,
            "task_id",
            -1,
            "which task of the file; of ALFRED trials, its position from 0; -1: the first",
            between=(-1, 2**31 - 1),
        )
        declare(self, "port", 0, "its port; 0: VirtualHome's 8080, a free one for AI2-THOR", between=(0, 65535))
        declare(self, "time_limit", 60.0, "longest wait for a simulator's action, in seconds", between=(0.1, 3600.0))
        for parameter in PARAMETERS:
            declare(self, *parameter)
        self._given = world
        self._settings = WorldSettings()
        self._tasks: dict[int, Task | Trial] = {}
        self._task_id = -1

    def load(self) -> World:
        """Make the world of the task that the parameters name."""
        if self._given is not None:
            return self._given
        names = ("world", "task_id", "port", "time_limit", *(name for name, _, _ in PARAMETERS))
        self._settings = world_settings({name: self.get_parameter(name).value for name in names})
        self._tasks = load_world_tasks(self._settings)
        task_id = self._settings.task_id
        if not self._tasks:
            return make_world(self._settings, None)
        world = self.change_task(next(iter(self._tasks)) if task_id == -1 else task_id)
        if world is None:
            raise UserError(f"{self._settings.tasks or self._settings.house or 'the house'} has no task {task_id}")
        return world

    def change_task(self, task_id: int) -> World | None:
        """Return the world of another task of the file."""
        if self._given is not None:
            return self._given
        if task_id not in self._tasks:
            return None
        self._task_id = task_id
        return make_world(self._settings, self._tasks[task_id])

    def describe_task(self, response: ResetWorld.Response) -> None:
        """Write the task's instruction, name and id into a response."""
        if task := self._tasks.get(self._task_id):
            response.instruction, response.task_name = task.instruction, task.task_name
            response.task_id = self._task_id

    def asks_for(self, instruction: str) -> bool:
        """Whether the task's goal is what an instruction asks for."""
        task = self._tasks.get(self._task_id)
        return task is None or task.asks_for(instruction)


def main() -> None:
    """Run the node."""
    run_node(BridgeNode)


if __name__ == "__main__":
    main()
