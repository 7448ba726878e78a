"""The AI2-THOR simulator, driven by its client in a process of its own, with time limits."""

from __future__ import annotations

import base64
import contextlib
from typing import Any

from reactree_lab.worlds.line_process import LineProcess
from reactree_ros.world.port import WorldError

#: ALFRED's grid size, in metres.
GRID_SIZE = 0.25
VISIBILITY_DISTANCE = 1.5
#: Longest time until a simulator answers, in seconds, including its download.
START_LIMIT = 300.0
# Simulator actions of a reset: list the scenes, load one, set the quality, initialise.
_RESET_ACTIONS = 4
#: Seconds that a simulator has to end by itself.
_STOP_LIMIT = 1.0


class Simulator(LineProcess):
    """One AI2-THOR simulator, for one thread; any error except a refusal loses it."""

    module = "reactree_lab.worlds.ai2thor.player"
    fragile = True

    def __init__(
        self,
        address: tuple[str, int],
        arguments: dict[str, Any],
        *,
        time_limit: float,
        headless: bool = False,
        pictures: bool = False,
    ) -> None:
        host, port = address
        self.name = f"AI2-THOR at {host}:{port}"
        super().__init__()
        self.metadata: dict[str, Any] = {}  # what the simulator said last
        self.picture = b""  # its last picture, as PNG; empty for none
        self._time_limit, self._started = time_limit, False
        self._start = (
            {**arguments, "host": host, "port": port, "gridSize": GRID_SIZE, "visibilityDistance": VISIBILITY_DISTANCE},
            headless,
            pictures,
        )

    def load(self, scene: str) -> dict[str, Any]:
        """Load a scene and return the metadata; the first call starts the simulator."""
        limit = _RESET_ACTIONS * self._time_limit
        if self._started:
            return self._do(limit, "load", scene)
        arguments, *how = self._start
        self._started = True
        return self._do(START_LIMIT + limit, "start", {**arguments, "scene": scene}, *how)

    def step(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Take one simulator action and return the metadata; ``lastActionSuccess`` says whether it was possible."""
        return self._do(self._time_limit, "step", action, arguments)

    def end(self) -> None:
        if not self.lost and self._started:
            self.answer_limit = _STOP_LIMIT
            with contextlib.suppress(WorldError):
                self.ask("stop")
        self.kill()

    def _do(self, limit: float, *request: Any) -> dict[str, Any]:
        self.answer_limit = limit
        answer = self.ask(*request)
        if "refused" in answer:
            raise WorldError(f"{self.name} refuses '{request[1]}': {answer['refused']}")
        self.metadata, self.picture = answer["metadata"], base64.b64decode(answer["picture"])
        return self.metadata
