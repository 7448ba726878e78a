"""VirtualHome's Unity simulator as a world: its graph, observed and acted on by the household rules.

The simulator is asked over HTTP, within time limits; a failure is a WorldError that says why. The requests are those of
its own client (github.com/xavierpuigf/virtualhome: ``comm_unity.py``), whose package is outdated.
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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from pydantic import BaseModel, Field, ValidationError

from reactree_lab.worlds.running import WorkerWorld
from reactree_ros.agent.picture import Picture, picture_of
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.files.read_back import parse_json
from reactree_ros.household import rules
from reactree_ros.household.expert.instruction import goal_of
from reactree_ros.household.household import WAH_NL
from reactree_ros.household.rules import Skill
from reactree_ros.household.scene import Scene, Thing
from reactree_ros.household.symbolic import VirtualHomeSettings, tasks_of
from reactree_ros.household.tasks import AGENT_CLASS, Graph, Node, Task, conditions_of
from reactree_ros.household.vocabulary import CLASSES, RECALLABLE, WORDS
from reactree_ros.world.port import Observation, Outcome, Score, WorldError
from reactree_ros.world.spec import WorldSpec

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
            raise UserError(f"executable {self._executable}: is not an executable file; name VirtualHome's")
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
        size = {"mode": "normal", "image_width": 640, "image_height": 480}
        answer = self._ask("camera_image", size, numbers=[self._cameras + _CAMERA])
        try:
            return picture_of(base64.b64decode(answer.message_list[0])) if answer.message_list else None
        except ValueError:
            return None

    def close(self) -> None:
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


_ACTIONS = {"go to": "walk", "pick up": "grab", "open": "open", "close": "close", "turn on": "switchon"}


class VirtualHomeUnityWorld(WorkerWorld):
    """A household task in VirtualHome's Unity simulator.

    The apartment ``env_id`` of the task is loaded and set to the task's graph. After every skill the graph is read
    again; the agent sees the things that it says are close. Classes outside of the vocabulary are not seen.

    If a simulator refuses, hangs or dies, the current call fails with a WorldError within the time limit. The next call
    starts the simulator again (if the world had started it), resets the task and repeats the skills so far, so that the
    task can continue.

    Raises:
        UserError: There is no such executable.
    """

    household = WAH_NL
    recallable = RECALLABLE
    words = WORDS

    def __init__(self, settings: UnitySettings, task: Task, *, scored: bool = True) -> None:
        self._task, self._pictures = task, settings.pictures
        self._client = VirtualHomeClient(settings)
        super().__init__("virtualhome", scored=scored)
        self._forget()

    def _forget(self) -> None:
        self._scene: Scene | None = None  # None: the simulator is not in the task's state
        self._done: list[str] = []  # executed lines of the script
        self._lost = ""  # why the task cannot be resumed
        self._receptacle: int | None = None

    def survey(self) -> Pending[Observation]:
        return self._worker.do(lambda: rules.survey(self._now()))

    def goal_of(self, instruction: str) -> Mapping[str, int]:
        return goal_of(instruction, self._task.names)

    def judge(self, goal: Mapping[str, int]) -> Pending[Score | None]:
        return self._worker.do(lambda: replace(rules.score(conditions_of(goal), self._now()), goal=goal))

    # ------------------------------------------------------------------ in the worker's thread

    def _begin(self, seed: int | None) -> None:
        self._forget()

    def _look(self) -> Observation:
        return self._with_picture(rules.look_around(self._now()))

    def _skills(self) -> Sequence[str]:
        return rules.available_skills(self._restored())

    def _rate(self) -> Score:
        return rules.score(self._task.goal, self._now())

    def _let_go(self) -> None:
        self._client.close()

    def _stop(self) -> None:
        self._client.close()

    def _now(self) -> Scene:
        self._restored()
        return self._read()

    def _restored(self) -> Scene:
        """Return the scene; restore the task's state first if the simulator lost it."""
        if self._scene is not None and self._client.connected:
            return self._scene
        self._scene = None
        if self._lost:
            raise WorldError(self._lost)
        if not self._client.connected:
            self._client.connect()
        graph = self._task.init_graph.model_dump()
        agents = {node["id"] for node in graph["nodes"] if node["class_name"] == AGENT_CLASS}
        nodes = [node for node in graph["nodes"] if node["id"] not in agents]
        edges = [edge for edge in graph["edges"] if not {edge["from_id"], edge["to_id"]} & agents]
        self._client.load(self._task.env_id, {"nodes": nodes, "edges": edges})
        start = Scene(self._task.init_graph, init_room=self._task.init_room).agent_room
        self._client.add_character(start.class_name, start.number)
        for line in self._done:
            if reason := self._client.carry_out(line):
                self._lost = f"the task cannot be resumed, '{line}' is refused now: {reason}; reset the world"
                raise WorldError(self._lost)
        return self._read()

    def _read(self) -> Scene:
        self._scene = None
        graph = self._client.graph()
        known = {node.id for node in graph.nodes if node.class_name in CLASSES}
        rooms = {node.id for node in graph.nodes if node.category == "Rooms"}
        agent = next((node.id for node in graph.nodes if node.class_name == AGENT_CLASS), None)
        where = [edge.to_id for edge in graph.edges if edge.from_id == agent and edge.relation_type == "INSIDE"]
        if not rooms & known & set(where):
            raise WorldError("VirtualHome's graph does not say in which room the agent is")
        nodes: list[Node] = [node for node in graph.nodes if node.id in known]
        edges = [edge for edge in graph.edges if {edge.from_id, edge.to_id} <= known]
        room = next(node for node in nodes if node.id in where and node.id in rooms)
        self._scene = Scene(Graph(nodes=nodes, edges=edges), init_room=room.class_name)
        self._scene.stand_at(None if self._receptacle is None else self._scene.things.get(self._receptacle))
        return self._scene

    def _take(self, text: str) -> Observation:
        scene = self._restored()
        skill = rules.parse_skill(text, scene)
        if isinstance(skill, str):
            return Observation(skill, Outcome.UNKNOWN_SKILL)
        outcome, sentence = rules.check(skill, scene)
        if outcome is Outcome.DONE:
            line = _script_line(skill, scene.here)
            if reason := self._client.carry_out(line):
                outcome, sentence = Outcome.EXECUTION, f"You could not {text}: {reason}."
            else:
                self._done.append(line)
                if skill.verb == "go to" and rules.can_take_things(skill.thing):
                    self._receptacle = skill.thing.id
            scene = self._read()
            if skill.thing.id not in scene.things:
                raise WorldError(f"VirtualHome's graph has no {skill.thing.name} any more")
            skill = replace(skill, thing=scene.things[skill.thing.id])
            if outcome is Outcome.DONE and (reason := rules.unmet(skill, scene)):
                outcome, sentence = Outcome.POSTCONDITION, f"You tried to {text}, but {reason}."
        return self._with_picture(
            rules.after_skill(skill, outcome, sentence, scene=scene, next_to_agent=_next_to_agent(scene))
        )

    def _with_picture(self, observation: Observation) -> Observation:
        picture = self._client.picture() if self._pictures else None
        return observation if picture is None else replace(observation, pictures=(picture,))


def _script_line(skill: Skill, receptacle: Thing | None) -> str:
    thing = skill.thing
    if skill.verb != "put down":
        return f"<char0> [{_ACTIONS[skill.verb]}] <{thing.class_name}> ({thing.id})"
    assert receptacle is not None  # the check refuses otherwise
    action = "putin" if "CONTAINERS" in receptacle.properties else "putback"
    where = f"<{receptacle.class_name}> ({receptacle.id})"
    return f"<char0> [{action}] <{thing.class_name}> ({thing.id}) {where}"


def _next_to_agent(scene: Scene) -> list[Thing]:
    near = (scene.things[id] for id in scene.close if id not in scene.held)
    return [thing for thing in near if thing.observed and not scene.hidden(thing)]


SPEC = WorldSpec(
    name="virtualhome_unity",
    summary="VirtualHome's households in its Unity simulator",
    settings=UnitySettings,
    household=WAH_NL,
    load_tasks=tasks_of,
    make=VirtualHomeUnityWorld,
    flags=("house", "tasks", "task_id"),
)
