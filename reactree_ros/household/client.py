"""The ``virtualhome`` package's Unity client with time limits; each failure is a WorldError that says where and why."""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from reactree_ros.agent.picture import Picture, picture_of
from reactree_ros.errors import UserError
from reactree_ros.household.tasks import Graph
from reactree_ros.plugins.installation import install_line, install_requirements
from reactree_ros.world.port import WorldError

_MODULE = "unity_simulator"
#: Index of the agent's camera for pictures, as in the recordings.
_CAMERA = 3


class VirtualHomeClient:
    """Talks to a VirtualHome simulator, and starts it if an executable is given.

    Args:
        executable: The executable that :meth:`connect` starts; None if the simulator is running already.
        display: X display of the executable, e.g. ``0``; None for no graphics.
        time_limit: Longest wait for one answer, in seconds.
        start_limit: Longest wait for a started executable to answer, in seconds.

    Raises:
        UserError: The client is not installed, or there is no such executable.
    """

    def __init__(
        self,
        *,
        host: str,
        port: int,
        executable: Path | None,
        display: str | None,
        time_limit: float,
        start_limit: float,
    ) -> None:
        if executable is not None and not os.access(executable, os.X_OK):
            raise UserError(f"executable {executable}: is no executable file; name VirtualHome's")
        self._module = _load_client()
        self.address = f"{host}:{port}"
        self._executable, self._display, self._port = executable, display, port
        self._time_limit, self._start_limit = time_limit, start_limit
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()  # for the process: a closed client starts nothing
        self._closed = threading.Event()
        self._comm = self._module.UnityCommunication(url=host, port=str(port), timeout_wait=time_limit)

    def connect(self) -> None:
        """Start the simulator if there is an executable, and wait until it answers."""
        if self._executable is None:
            self._ask("post_command", {"id": str(time.time()), "action": "idle"})
            return
        self._stop()
        graphics = ["-nographics"] if self._display is None else []
        environment = {**os.environ, **({} if self._display is None else {"DISPLAY": f":{self._display.lstrip(':')}"})}
        command = [str(self._executable), "-batchmode", *graphics, f"-http-port={self._port}", "-logFile", os.devnull]
        nothing = subprocess.DEVNULL
        with self._lock:
            if self._closed.is_set():
                raise WorldError(f"VirtualHome ({self._executable}) was closed")
            try:
                process = self._process = subprocess.Popen(
                    command, stdin=nothing, stdout=nothing, stderr=nothing, env=environment, start_new_session=True
                )
            except OSError as error:
                raise WorldError(f"VirtualHome ({self._executable}) cannot be started: {error.strerror}") from None
        deadline = time.monotonic() + self._start_limit
        while True:
            code = process.poll()
            if code is not None:
                raise WorldError(f"VirtualHome ({self._executable}) ended with exit code {code} during its start")
            try:
                self._ask("post_command", {"id": str(time.time()), "action": "idle"})
                return
            except WorldError as error:
                if time.monotonic() > deadline or self._closed.wait(0.2):
                    raise WorldError(
                        f"VirtualHome ({self._executable}) did not answer within {self._start_limit:g} s after its "
                        f"start: {error}"
                    ) from None

    def load(self, apartment: int, graph: dict[str, Any]) -> None:
        """Load an apartment and set it to a graph, without characters.

        Ids that the apartment does not know are renumbered in order, so that they do not clash with its own.
        """
        if not self._ask("reset", apartment):
            raise WorldError(f"VirtualHome at {self.address} has no apartment {apartment}")
        own = max(node["id"] for node in self._document()["nodes"])

        def moved(id: int) -> int:
            return id if id <= own else id - own + 1000

        nodes = [{**node, "id": moved(node["id"])} for node in graph["nodes"]]
        edges = [{**edge, "from_id": moved(edge["from_id"]), "to_id": moved(edge["to_id"])} for edge in graph["edges"]]
        done, message = self._answer("expand_scene", {"nodes": nodes, "edges": edges})
        if not done:
            raise WorldError(f"VirtualHome at {self.address} cannot bring the apartment to the task's start: {message}")

    def add_character(self, room: str, number: int) -> None:
        """Add the agent to a room.

        Rooms of a class are numbered from 1. The simulator chooses one itself if it does not tell positions.
        """
        self._cameras = self._answer("camera_count")[1]
        rooms = [node for node in self._document()["nodes"] if node.get("class_name") == room]
        rooms.sort(key=lambda node: node["id"])
        where: dict[str, Any] = {"initial_room": room}
        if len(rooms) >= number and len(rooms) > 1 and rooms[number - 1].get("bounding_box"):
            where = {"position": rooms[number - 1]["bounding_box"]["center"]}
        if not self._ask("add_character", "Chars/Female2", **where):
            raise WorldError(f"VirtualHome at {self.address} cannot put the agent into {room} {number}")

    def graph(self) -> Graph:
        """Return the apartment's current graph."""
        document = self._document()
        try:
            return Graph.model_validate(document)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise WorldError(f"VirtualHome at {self.address} sent an unusable graph: {place}: {first['msg']}") from None

    def carry_out(self, line: str) -> str:
        """Execute a line of a script; return why it failed, or an empty text."""
        done, message = self._answer(
            "render_script", [line], find_solution=False, recording=False, skip_animation=True, image_synthesis=[]
        )
        return "" if done else _said(message) or "no reason given"

    def picture(self) -> Picture | None:
        """Return the view of the agent's camera; None if the simulator has none."""
        # The client's own camera_image needs collections.Iterable, which Python 3.10 and newer lack.
        size = '{"mode": "normal", "image_width": 640, "image_height": 480}'
        camera = self._cameras + _CAMERA
        request = {"id": str(time.time()), "action": "camera_image", "intParams": [camera], "stringParams": [size]}
        answer = self._ask("post_command", request)
        try:
            return picture_of(base64.b64decode(answer["message_list"][0]))
        except (KeyError, IndexError, TypeError, ValueError):
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

    def _document(self) -> dict[str, Any]:
        done, document = self._answer("environment_graph")
        if not done or not isinstance(document, dict) or not document.get("nodes"):
            raise WorldError(f"VirtualHome at {self.address} sent no graph of the apartment")
        return document

    def _answer(self, name: str, *arguments: Any, **options: Any) -> tuple[bool, Any]:
        answer = self._ask(name, *arguments, **options)
        return bool(answer[0]), answer[1]

    def _ask(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client; every failure is a WorldError."""
        try:
            return getattr(self._comm, name)(*arguments, **options)
        except Exception as error:
            reason = error.__context__ if isinstance(error, self._module.UnityCommunicationException) else error
            raise WorldError(f"VirtualHome at {self.address} {self._why(reason or error)}") from None

    def _why(self, error: BaseException) -> str:
        import requests

        if isinstance(error, requests.Timeout):
            return f"did not answer within {self._time_limit:g} s"
        if isinstance(error, self._module.UnityEngineException):
            return f"refused the request: {_said(error.message)}"
        if isinstance(error, requests.ConnectionError | OSError) and not isinstance(error, requests.JSONDecodeError):
            return "cannot be reached: it is not running there, or it closed the connection"
        return f"sent an answer that VirtualHome never sends ({type(error).__name__}: {_said(error)})"


def _said(message: object) -> str:
    """Return a message of the simulator in one line."""
    if isinstance(message, dict):
        return "; ".join(
            _said(part.get("message", "") if isinstance(part, dict) else part) for part in message.values()
        )
    return " ".join(str(message).split())[:300]


def _load_client() -> ModuleType:
    """Load the Unity client alone: importing ``virtualhome`` itself fails if it guesses ``sys.path`` wrong."""
    if _MODULE in sys.modules:
        return sys.modules[f"{_MODULE}.comm_unity"]
    spec = importlib.util.find_spec("virtualhome")
    missing = [name for name in ("cv2", "PIL", "requests") if importlib.util.find_spec(name) is None]
    if spec is None or not spec.submodule_search_locations or missing:
        raise UserError(
            f"VirtualHome's Unity client is not installed: {install_line('reactree_ros[virtualhome]')} && "
            f"{install_requirements('--no-deps', 'virtualhome')} (its own requirements are outdated)"
        )
    folder = Path(spec.submodule_search_locations[0]) / "simulation" / _MODULE
    spec = importlib.util.spec_from_file_location(
        _MODULE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = package
    spec.loader.exec_module(package)
    client = sys.modules[f"{_MODULE}.comm_unity"]
    client.print = lambda *_: None  # type: ignore[attr-defined]  # what it prints would get into --json
    return client
