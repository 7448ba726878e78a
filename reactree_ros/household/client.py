"""Talks to VirtualHome's Unity simulator over HTTP, within time limits; a failure is a WorldError that says why.

The requests are those of its own client (github.com/xavierpuigf/virtualhome: ``comm_unity.py``), whose package is
outdated.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from pydantic import BaseModel, Field, ValidationError

from reactree_ros.agent.picture import Picture, picture_of
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json
from reactree_ros.household.symbolic import VirtualHomeSettings
from reactree_ros.household.tasks import Graph, Node
from reactree_ros.world.port import WorldError

#: VirtualHome's default port.
PORT = 8080
#: Longest wait for a started executable to answer, in seconds.
START_LIMIT = 120.0
#: Index of the agent's camera for pictures, as in the recordings.
_CAMERA = 3
#: What the simulator is told about a new graph, and about a script, as its own client does.
_EXPANSION = {
    **dict.fromkeys(("randomize", "animate_character", "ignore_obstacles"), False),
    **{"random_seed": -1, "transfer_transform": True},
}
_SCRIPT = {
    **dict.fromkeys(("randomize_execution", "skip_execution", "find_solution", "recording"), False),
    **{"save_pose_data": False, "save_scene_states": False, "skip_animation": True, "image_synthesis": []},
    **{"random_seed": -1, "processing_time_limit": 10, "output_folder": "Output/", "file_name_prefix": "script"},
    **{"frame_rate": 5, "camera_mode": ["AUTO"], "image_width": 640, "image_height": 480, "time_scale": 1.0},
}
_open = build_opener(ProxyHandler({})).open


class UnitySettings(VirtualHomeSettings):
    host: str = Field(default="127.0.0.1", description="host of the simulator")
    port: int = Field(default=PORT, ge=0, le=65535, description=f"the simulator's HTTP port; 0: {PORT}")
    executable: str = Field(default="", description="the simulator's executable; empty: it is running already")
    display: str = Field(default="", description="X display of the executable, e.g. :0; empty: no graphics")
    time_limit: float = Field(
        default=60.0, gt=0, le=3600, description="longest wait for one action of the simulator, in seconds"
    )
    pictures: bool = Field(default=False, description="take a picture after each skill")


class _Answer(BaseModel):
    success: bool
    message: str | None = ""
    value: int | None = 0
    message_list: list[str] | None = None

    @property
    def in_words(self) -> str:
        """The message in one line: a text, or one for each character."""
        said: Any = self.message
        with contextlib.suppress(ValueError):
            said = parse_json(self.message or "")
        parts = said.values() if isinstance(said, dict) else [said]
        return "; ".join(_line(part.get("message", "") if isinstance(part, dict) else part) for part in parts)


class _Box(BaseModel):
    center: Annotated[list[float], Field(min_length=3, max_length=3)]


class _Placed(Node):
    bounding_box: _Box | None = None


class _Apartment(Graph):
    nodes: Annotated[list[_Placed], Field(min_length=1)]  # type: ignore[assignment]


class VirtualHomeClient:
    """Talks to a VirtualHome simulator, and starts it if an executable is given.

    Attributes:
        connected: Whether it answers, and has not failed since :meth:`connect`.

    Raises:
        UserError: There is no such executable.
    """

    def __init__(self, settings: UnitySettings) -> None:
        self._executable = Path(settings.executable) if settings.executable else None
        if self._executable is not None and not os.access(self._executable, os.X_OK):
            raise UserError(f"executable {self._executable}: is no executable file; name VirtualHome's")
        self._settings, self._port = settings, settings.port or PORT
        self.address = f"{settings.host}:{self._port}"
        self.connected = False
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # for the process: a closed client starts nothing
        self._closed = threading.Event()

    def connect(self) -> None:
        if self._executable is None:
            self._ask("idle")
            return
        self._stop()
        display = self._settings.display.lstrip(":")
        graphics, environment = ([], {"DISPLAY": f":{display}"}) if display else (["-nographics"], {})
        command = [str(self._executable), "-batchmode", *graphics, f"-http-port={self._port}", "-logFile", os.devnull]
        nothing = subprocess.DEVNULL
        with self._lock:
            if self._closed.is_set():
                raise WorldError(f"VirtualHome ({self._executable}) was closed")
            try:
                process = self._process = subprocess.Popen(
                    command,
                    stdin=nothing,
                    stdout=nothing,
                    stderr=nothing,
                    env={**os.environ, **environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise WorldError(f"VirtualHome ({self._executable}) cannot be started: {error.strerror}") from None
        deadline = time.monotonic() + START_LIMIT
        while True:
            code = process.poll()
            if code is not None:
                raise WorldError(f"VirtualHome ({self._executable}) ended with exit code {code} during its start")
            try:
                self._ask("idle")
                return
            except WorldError as error:
                if time.monotonic() > deadline or self._closed.wait(0.2):
                    raise WorldError(
                        f"VirtualHome ({self._executable}) did not answer within {START_LIMIT:g} s after its "
                        f"start: {error}"
                    ) from None

    def load(self, apartment: int, graph: dict[str, Any]) -> None:
        """Load an apartment and set it to a graph, without characters.

        Ids that the apartment does not know are renumbered in order, so that they do not clash with its own.
        """
        self._ask("clear", numbers=[apartment])
        if not self._ask("environment", numbers=[apartment]).success:
            raise WorldError(f"VirtualHome at {self.address} has no apartment {apartment}")
        own = max(node.id for node in self.graph().nodes)

        def moved(id: int) -> int:
            return id if id <= own else id - own + 1000

        nodes = [{**node, "id": moved(node["id"])} for node in graph["nodes"]]
        edges = [{**edge, "from_id": moved(edge["from_id"]), "to_id": moved(edge["to_id"])} for edge in graph["edges"]]
        expanded = self._ask("expand_scene", _EXPANSION, {"nodes": nodes, "edges": edges})
        if not expanded.success:
            why = f"cannot bring the apartment to the task's start: {expanded.in_words}"
            raise WorldError(f"VirtualHome at {self.address} {why}")

    def add_character(self, room: str, number: int) -> None:
        """Add the agent to a room.

        Rooms of a class are numbered from 1. The simulator chooses one itself if it does not tell positions.
        """
        self._cameras = self._ask("camera_count").value or 0
        rooms = sorted((node for node in self.graph().nodes if node.class_name == room), key=lambda node: node.id)
        box = rooms[number - 1].bounding_box if len(rooms) >= number and len(rooms) > 1 else None
        x, y, z = (0.0, 0.0, 0.0) if box is None else box.center
        where = {
            "character_resource": "Chars/Female2",
            "mode": "fix_room" if box is None else "fix_position",
            "character_position": {"x": x, "y": y, "z": z},
            "initial_room": room if box is None else "",
        }
        if not self._ask("add_character", where).success:
            raise WorldError(f"VirtualHome at {self.address} cannot put the agent into {room} {number}")

    def graph(self) -> _Apartment:
        answer = self._ask("environment_graph")
        try:
            return _Apartment.model_validate_json(answer.message if answer.success and answer.message else "{}")
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise self._failed(f"sent an unusable graph: {place}: {first['msg']}") from None

    def carry_out(self, line: str) -> str:
        """Execute a line of a script; return why it failed, or an empty text."""
        answer = self._ask("render_script", _SCRIPT, line)
        return "" if answer.success else answer.in_words or "no reason given"

    def picture(self) -> Picture | None:
        """Return the view of the agent's camera; None if the simulator has none."""
        size = {"mode": "normal", "image_width": 640, "image_height": 480}
        answer = self._ask("camera_image", size, numbers=[self._cameras + _CAMERA])
        try:
            return picture_of(base64.b64decode(answer.message_list[0])) if answer.message_list else None
        except ValueError:
            return None

    def close(self) -> None:
        """Stop the simulator if the client started it; from any thread."""
        self._closed.set()
        self._stop()

    def _stop(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def _ask(self, action: str, *texts: object, numbers: Sequence[int] = ()) -> _Answer:
        said = [text if isinstance(text, str) else json.dumps(text) for text in texts]
        asked = {"id": str(time.time()), "action": action, "intParams": list(numbers), "stringParams": said}
        request = Request(f"http://{self.address}", json.dumps(asked).encode(), {"Content-Type": "application/json"})
        try:
            with _open(request, timeout=self._settings.time_limit) as reply:
                text = reply.read()
        except HTTPError as error:
            raise self._failed(f"refused the request with status {error.code}: {_line(error.read(1000))}") from None
        except (OSError, HTTPException) as error:
            if isinstance(error, TimeoutError) or (isinstance(error, URLError) and "timed out" in str(error.reason)):
                raise self._failed(f"did not answer within {self._settings.time_limit:g} s") from None
            raise self._failed("cannot be reached: it is not running there, or it closed the connection") from None
        try:
            answer = _Answer.model_validate_json(text)
        except ValidationError:
            raise self._failed(f"sent an answer that VirtualHome never sends: {_line(text)}") from None
        self.connected = True
        return answer

    def _failed(self, why: str) -> WorldError:
        self.connected = False
        return WorldError(f"VirtualHome at {self.address} {why}")


def _line(text: object) -> str:
    said = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return " ".join(said.split())[:300]
