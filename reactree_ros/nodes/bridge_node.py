"""The household bridge: hosts a simulated household."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reactree_interfaces.srv import ResetWorld

from reactree_ros.errors import UserError
from reactree_ros.nodes.bridge import Bridge
from reactree_ros.nodes.parameters import declare
from reactree_ros.nodes.spinning import run_node
from reactree_ros.world.houses import HOUSES
from reactree_ros.world.port import World
from reactree_ros.world.symbolic import SymbolicWorld
from reactree_ros.world.tasks import Task, load_tasks

WORLDS = ("virtualhome",)


class BridgeNode(Bridge):
    """Hosts a household; its endpoints are those of :class:`reactree_ros.nodes.bridge.Bridge`.

    Parameters:
        ``world``, ``house``, ``tasks``, ``task_id``, and those of every bridge; read when the node is configured.
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
        declare(self, "house", "apartment", f"a shipped house ({', '.join(HOUSES)}) or a file of `reactree house`")
        declare(self, "tasks", "", "a task file in the WAH-NL schema; empty: the house")
        declare(self, "task_id", -1, "which task of the file; -1: the first", between=(-1, 2**31 - 1))
        self._given = world
        self._tasks: dict[int, Task] = {}
        self._task: Task | None = None

    def load(self) -> World:
        """Make the world of the task that the parameters name."""
        if self._given is not None:
            return self._given
        tasks, house, task_id = self.string("tasks"), self.string("house"), self.get_parameter("task_id").value
        path = Path(tasks) if tasks else HOUSES.get(house, Path(house))
        found = load_tasks(path)
        self._tasks = {task.task_id: task for task in found}
        world = self.change_task(found[0].task_id if task_id == -1 else task_id)
        if world is None:
            raise UserError(f"{path} has no task {task_id}")
        return world

    def change_task(self, task_id: int) -> World | None:
        """Return the world of another task of the file."""
        if self._given is not None:
            return self._given
        if task_id not in self._tasks:
            return None
        self._task = self._tasks[task_id]
        return SymbolicWorld(self._task)

    def describe_task(self, response: ResetWorld.Response) -> None:
        """Write the task's instruction, name and id into a response."""
        if self._task is not None:
            response.instruction, response.task_name = self._task.instruction, self._task.task_name
            response.task_id = self._task.task_id

    def asks_for(self, instruction: str) -> bool:
        """Whether the task's goal is what an instruction asks for."""
        return self._task is None or self._task.asks_for(instruction)


def main() -> None:
    """Run the node."""
    run_node(BridgeNode)


if __name__ == "__main__":
    main()
