"""The AI2-THOR world: the port to the simulator, which starts on first use and again after a loss."""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import Field, model_validator

from reactree_lab.worlds.ai2thor.alfred import Trial, load_trials
from reactree_lab.worlds.ai2thor.household import ALFRED
from reactree_lab.worlds.ai2thor.simulator import Simulator, SimulatorOptions, described
from reactree_lab.worlds.ai2thor.skills import Agent
from reactree_lab.worlds.ai2thor.wording import RECALLABLE, WORDS, room_of
from reactree_ros.agent.skill import Offered
from reactree_ros.background.pending import Pending
from reactree_ros.background.worker import Stopped, Worker
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line
from reactree_ros.plugins.settings import Harmless, plain
from reactree_ros.world.port import Observation, Score, World, WorldError
from reactree_ros.world.spec import WorldSettings, WorldSpec

_CLOSE_LIMIT = 5.0

T = TypeVar("T")


class Ai2ThorWorld(World):
    """A room of AI2-THOR: an ALFRED trial, or a scene without a goal.

    The simulator starts on first use, or is awaited then; all its work is in one thread. If it hangs, crashes or is
    gone, the current call fails with :class:`~reactree_ros.world.port.WorldError` within the limits. So does every
    later call until a :meth:`reset`, which starts it again.

    A put down goes to the receptacle that the agent went to or opened last; at another object, to the object's own
    receptacle. A thing that cannot be put down there is dropped, as recorded.

    Args:
        scene: A scene of iTHOR, e.g. ``FloorPlan1``.
        trial: An ALFRED trial, which names its own scene.
        host: Address at which this process listens for the simulator.
        port: The port; 0 takes a free one, see :attr:`port`.
        start_unity: Start the simulator; otherwise a running one connects to host and port.
        headless: Render without a display (CloudRendering).
        executable: A build of the simulator on this machine; by default the client downloads its own.
        x_display: The X display to render on, e.g. ``:0``.
        force: Force every action on an object; otherwise only opening and putting down, as in ALFRED.
        interactable_poses: Go to the poses from which the simulator says that an object can be handled; otherwise to
            the nearest reachable positions.
        time_limit: Limit of one simulator action, in seconds.
        start_limit: Limit of the start, in seconds, including a download of the simulator.
        scored: Whether to score the trial's goal; otherwise there is no score.
        pictures: Whether observations contain the camera's picture.
        width: Width of a picture in pixels.
        height: Height of a picture in pixels.

    Raises:
        UserError: Not exactly one of scene and trial, an unknown scene, an invalid limit, an executable that cannot be
            run, nothing to render on, or no package for pictures.
    """

    household = ALFRED
    recallable = RECALLABLE
    words = WORDS

    def __init__(
        self,
        *,
        scene: str | None = None,
        trial: Trial | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        start_unity: bool = True,
        headless: bool = False,
        executable: str | None = None,
        x_display: str | None = None,
        force: bool = False,
        interactable_poses: bool = False,
        time_limit: float = 30.0,
        start_limit: float = 300.0,
        scored: bool = True,
        pictures: bool = False,
        width: int = 300,
        height: int = 300,
    ) -> None:
        if (scene is None) == (trial is None):
            raise UserError("give the AI2-THOR world a scene or a trial, and not both")
        for name, limit in (("time_limit", time_limit), ("start_limit", start_limit)):
            if not (math.isfinite(limit) and limit > 0):
                raise UserError(f"{name} must be a positive number of seconds, not {limit}")
        if pictures and importlib.util.find_spec("PIL") is None:
            raise UserError(f"pictures need the package pillow: {install_line('reactree_lab[ai2thor]')}")
        self.scene = trial.scene.floor_plan if trial is not None else str(scene)
        self.trial = trial
        room_of(self.scene)  # refuses an unknown scene
        if start_unity:
            _check_start(executable, x_display or os.environ.get("DISPLAY"), headless)
        self._options = SimulatorOptions(
            host=host,
            port=port or _free_port(host),
            start_unity=start_unity,
            headless=headless,
            executable=executable,
            x_display=x_display,
            time_limit=time_limit,
            start_limit=start_limit,
            width=width,
            height=height,
        )
        self._scored = scored
        self._make_agent = functools.partial(
            Agent,
            scene=self.scene,
            trial=trial,
            force=force,
            interactable_poses=interactable_poses,
            pictures=pictures,
        )
        self._lock = threading.Lock()
        self._closed = False
        self._worker: Worker | None = None
        self._simulator: Simulator | None = None

    @property
    def port(self) -> int:
        """The port on which this process listens for the simulator."""
        return self._options.port

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        """Reset the scene to the trial's start; restart a lost simulator.

        Nothing in it is random.
        """
        return self._submit(lambda agent: agent.start(), anew=True)

    def observe(self) -> Pending[Observation]:
        """Look around: the room's fixed receptacles, and held things."""
        return self._submit(lambda agent: agent.observe())

    def available_skills(self) -> Pending[Sequence[Offered]]:
        """List the skills for the room's fixed receptacles and for visible things."""
        return self._submit(lambda agent: agent.available_skills())

    def execute(self, skill: str) -> Pending[Observation]:
        """Carry out a skill, e.g. ``pick up Book (1)``; observations and refusals are worded as recorded."""
        return self._submit(lambda agent: agent.execute(skill))

    def score(self) -> Pending[Score | None]:
        """Score the trial's goal as ALFRED does; None if there is none."""
        trial = self.trial
        if trial is None or not self._scored:
            return Pending.of(None)
        return self._submit(lambda agent: trial.goal.score(agent.house_state()))

    def frame(self) -> Any:
        """Return the latest picture, an RGB array of height by width by 3 bytes; None if there is none yet."""
        return None if self._simulator is None else self._simulator.frame

    def at_rest(self) -> Pending[None]:
        """Settle when the simulator action of a cancelled skill has ended."""
        with self._lock:
            worker = self._worker
        return Pending.of(None) if worker is None else worker.at_rest()

    def close(self) -> None:
        """End the simulator; kill it if it hangs."""
        with self._lock:
            worker, simulator, self._worker, self._closed = self._worker, self._simulator, None, True
        if worker is None or simulator is None:
            return
        try:
            worker.close(simulator.stop).result(timeout=_CLOSE_LIMIT)
        except Exception:
            simulator.stop()
        worker.give_up("the AI2-THOR world was closed")

    def _submit(self, work: Callable[[Agent], T], *, anew: bool = False) -> Pending[T]:
        with self._lock:
            if self._closed:
                return Pending.failed(WorldError("the AI2-THOR world was closed"))
            if self._worker is None or (self._worker.lost and anew):
                self._worker = Worker(f"ai2thor {self.scene}", WorldError)
                self._simulator = Simulator(self._options, self._worker, before=self._simulator)
                self._agent = self._make_agent(self._simulator)
            agent = self._agent
            return self._worker.do(lambda: _told(work, agent))


def _told(work: Callable[[Agent], T], agent: Agent) -> T:
    """Work with the agent; every error is a WorldError."""
    try:
        return work(agent)
    except (Stopped, UserError, WorldError):
        raise
    except Exception as error:
        raise WorldError(f"the AI2-THOR world broke: {described(error)}") from error


def _check_start(executable: str | None, display: str | None, headless: bool) -> None:
    """Refuse settings with which the simulator's client would fail."""
    if executable is not None and not os.access(executable, os.X_OK):
        raise UserError(f"executable {executable!r} of AI2-THOR is no file that can be run")
    if not (headless or display) and sys.platform == "linux":
        raise UserError("AI2-THOR has no display: give x_display, e.g. ':0', or headless for CloudRendering")


def _free_port(host: str) -> int:
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UserError(f"cannot listen on {host!r} for AI2-THOR: {error}; give an address of this machine") from None


class Ai2ThorSettings(WorldSettings):
    """The scene or ALFRED trial, and how to reach AI2-THOR's simulator."""

    tasks: str = Field(
        default="", description="a file or folder of ALFRED trials, which are numbered by their position, from 0"
    )
    scene: Annotated[str, Harmless(plain)] = Field(
        default="", description="a scene without a goal, e.g. FloorPlan10, instead of tasks"
    )
    host: str = Field(default="127.0.0.1", description="address at which this process listens for the simulator")
    port: int = Field(default=0, ge=0, le=65535, description="its port; 0: a free one")
    executable: str = Field(
        default="", description="a build of the simulator on this machine; empty: the client downloads its own"
    )
    display: str = Field(default="", description="X display of the simulator, e.g. :0")
    headless: bool = Field(default=False, description="render without a display (CloudRendering)")
    start_simulator: bool = Field(
        default=True, description="start the simulator; false: a running one connects to host and port"
    )
    force: bool = Field(default=False, description="force every action on an object")
    interactable_poses: bool = Field(
        default=False, description="go to poses from which the simulator says that an object can be handled"
    )
    time_limit: float = Field(
        default=60.0, gt=0, le=3600, description="longest wait for one action of the simulator, in seconds"
    )
    pictures: bool = Field(default=False, description="take a picture after each skill")

    @property
    def of_many(self) -> bool:
        """Whether trials are named."""
        return bool(self.tasks)

    @model_validator(mode="after")
    def _one_of_them(self) -> Ai2ThorSettings:
        if bool(self.scene) == bool(self.tasks):
            raise ValueError("ai2thor needs either a scene, e.g. FloorPlan10, or tasks (ALFRED trials)")
        return self


def _tasks_of(settings: Ai2ThorSettings) -> dict[int, Trial]:
    return dict(enumerate(load_trials(settings.tasks))) if settings.tasks else {}


def _make(settings: Ai2ThorSettings, task: Trial | None, *, scored: bool = True) -> Ai2ThorWorld:
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


SPEC = WorldSpec(
    name="ai2thor",
    summary="AI2-THOR: ALFRED trials, or a scene without a goal",
    settings=Ai2ThorSettings,
    extra="reactree_lab[ai2thor]",
    needs=("ai2thor",),
    household=ALFRED,
    load_tasks=_tasks_of,
    make=_make,
    flags=("tasks", "task_id", "scene"),
)
