"""Worlds by name: made from settings, with the task that is to be done in them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reactree_ros.agent.prompt import Domain
from reactree_ros.errors import UserError
from reactree_ros.world.alfred import Trial, load_trials
from reactree_ros.world.houses import HOUSES
from reactree_ros.world.port import World
from reactree_ros.world.tasks import Task, load_tasks

WorldName = Literal["virtualhome", "virtualhome_unity", "ai2thor"]
#: The worlds: VirtualHome's households on their scene graphs, in its Unity simulator, and AI2-THOR.
WORLDS: tuple[str, ...] = get_args(WorldName)
_PORT = 8080


class WorldSettings(BaseModel):
    """Which world, and what is to be done in it. An empty text or 0 leaves a thing as it comes.

    Attributes:
        world: One of :data:`WORLDS`.
        house: A shipped house, or a file of `reactree house`; for the households.
        tasks: A task file in the WAH-NL schema; for AI2-THOR, a file or folder of ALFRED trials.
        task_id: Which task of the file; for ALFRED, its position, from 0. -1: the first.
        scene: A scene of AI2-THOR without a goal, e.g. ``FloorPlan10``.
        host: Where VirtualHome listens; where this process listens for AI2-THOR.
        port: Its port; 0: VirtualHome's 8080, a free one for AI2-THOR.
        executable: The simulator's executable. Empty: VirtualHome runs already; AI2-THOR's client downloads its own.
        display: X display of the simulator, e.g. ``:0``.
        headless: Without a display: AI2-THOR's CloudRendering.
        start_simulator: Whether AI2-THOR's simulator is started; otherwise one that runs connects to host and port.
        force: Whether AI2-THOR's actions on objects are forced.
        interactable_poses: Whether the agent goes to where AI2-THOR says that an object can be handled.
        time_limit: Longest wait for one action of a simulator, in seconds.
        pictures: Whether a simulator takes a picture after each skill.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    world: WorldName = "virtualhome"
    house: str = ""
    tasks: str = ""
    task_id: int = -1
    scene: str = ""
    host: str = "127.0.0.1"
    port: int = Field(default=0, ge=0, le=65535)
    executable: str = ""
    display: str = ""
    headless: bool = False
    start_simulator: bool = True
    force: bool = False
    interactable_poses: bool = False
    time_limit: float = Field(default=60.0, gt=0)
    pictures: bool = False

    @property
    def domain(self) -> Domain:
        """The household whose skills and wording the world has."""
        return Domain.ALFRED if self.world == "ai2thor" else Domain.WAH_NL


def world_settings(given: Mapping[str, Any]) -> WorldSettings:
    """Check settings.

    Raises:
        UserError: One is wrong, or they do not go together; the message names them.
    """
    try:
        settings = WorldSettings.model_validate(dict(given))
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"]))
        value = str(first["input"])[:60]
        if name == "world":
            raise UserError(f"world is '{value}'; it must be one of {', '.join(WORLDS)}") from None
        raise UserError(f"{name} is '{value}': {first['msg'][0].lower()}{first['msg'][1:]}") from None
    if settings.world == "ai2thor":
        if settings.house:
            raise UserError(f"house '{settings.house}' is none of AI2-THOR; give a scene or tasks (ALFRED trials)")
        if bool(settings.scene) == bool(settings.tasks):
            raise UserError("ai2thor needs either a scene, e.g. FloorPlan10, or tasks (ALFRED trials)")
    elif settings.scene:
        raise UserError(f"scene '{settings.scene}' is one of AI2-THOR; choose the world ai2thor")
    elif settings.house and settings.tasks:
        raise UserError("house and tasks exclude each other; give one of them")
    return settings


def load_world_tasks(settings: WorldSettings) -> dict[int, Task | Trial]:
    """Read what may be done in a world, by task id; nothing for a scene without a goal.

    Raises:
        UserError: A file cannot be used; the message says where and why.
    """
    if settings.world == "ai2thor":
        return dict(enumerate(load_trials(settings.tasks))) if settings.tasks else {}
    name = settings.house or next(iter(HOUSES))
    path = Path(settings.tasks) if settings.tasks else HOUSES.get(name, Path(name))
    if not settings.tasks and not path.exists():
        raise UserError(f"house {name}: is neither a file nor one of {', '.join(HOUSES)}")
    return {task.task_id: task for task in load_tasks(path)}


def make_world(settings: WorldSettings, task: Task | Trial | None, *, scored: bool = True) -> World:
    """Make a world.

    Args:
        settings: Which.
        task: What is to be done in it; None for a scene without a goal.
        scored: Whether the task's goal is what is asked for; otherwise there is no score.

    Raises:
        UserError: The simulator's client is not installed, or a setting is wrong.
    """
    if settings.world == "ai2thor":
        from reactree_ros.world.ai2thor import Ai2ThorWorld

        assert task is None or isinstance(task, Trial)  # as it was loaded
        return Ai2ThorWorld(
            scene=settings.scene or None,
            trial=task,
            host=settings.host,
            port=settings.port,
            start_unity=settings.start_simulator,
            headless=settings.headless,
            executable=settings.executable or None,
            x_display=settings.display or None,
            force=settings.force,
            interactable_poses=settings.interactable_poses,
            time_limit=settings.time_limit,
            scored=scored,
            pictures=settings.pictures,
        )
    assert isinstance(task, Task)
    if settings.world == "virtualhome":
        from reactree_ros.world.symbolic import SymbolicWorld

        return SymbolicWorld(task, scored=scored)
    from reactree_ros.world.virtualhome_unity import VirtualHomeUnityWorld

    return VirtualHomeUnityWorld(
        task,
        scored=scored,
        host=settings.host,
        port=settings.port or _PORT,
        executable=Path(settings.executable) if settings.executable else None,
        display=settings.display or None,
        time_limit=settings.time_limit,
        pictures=settings.pictures,
    )
