"""What VirtualHome's Unity simulator answers over HTTP, with the symbolic world behind it; and how it can misbehave.

As a process: ``python virtualhome_peer.py -batchmode -nographics -http-port=8080 -logFile -``, as the executable is
started; the task file is named by ``PEER_TASKS``, and ``PEER_DIES_AFTER`` skills it ends (once, if the file that
``PEER_DIED`` names is not there yet).
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[5] / "test"))  # where it is a process of its own

from drawn import png

from reactree_ros.household.symbolic import SymbolicWorld
from reactree_ros.household.tasks import Task, load_tasks
from reactree_ros.world.port import Outcome

SKILLS = {"walk": "go to", "grab": "pick up", "putin": "put down", "putback": "put down", "open": "open"}
SKILLS |= {"close": "close", "switchon": "turn on"}
LINE = re.compile(r"<char0> \[(\w+)\] <\w+> \((\d+)\)(?: <\w+> \((\d+)\))?")
AGENT = 1
CAMERAS = 5


class VirtualHomePeer:
    """A simulator with the apartments of some tasks, at a port of its own.

    ``misbehave[action]`` says what comes instead of an answer: ``hang``, ``garbage``, ``half``, ``close``, ``error``,
    ``refuse``, ``other`` (JSON that is not an answer) or ``die`` (nothing listens any more). With ``honour_quirks`` it
    calls a success what, as the task says, has no effect.
    """

    def __init__(self, tasks: Sequence[Task], port: int = 0, *, honour_quirks: bool = False) -> None:
        self.honour_quirks = honour_quirks
        self.tasks = {task.env_id: task for task in reversed(tasks)}
        self.misbehave: dict[str, str] = {}
        self.asked: list[str] = []
        self.lines: list[str] = []
        self.world: SymbolicWorld | None = None
        self._graph: dict[str, Any] = {}
        self._released = threading.Event()
        peer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                peer.respond(self, request)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

        self.server = Server(("127.0.0.1", port), Handler)
        self.port = self.server.server_address[1]
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> VirtualHomePeer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._released.set()
        self.server.shutdown()
        self.server.server_close()

    # ------------------------------------------------------------------ HTTP

    def respond(self, handler: BaseHTTPRequestHandler, request: dict[str, Any]) -> None:
        action = request["action"]
        self.asked.append(action)
        how = self.misbehave.get(action)
        if how == "hang":
            self._released.wait(60)
            return
        if how in ("close", "die"):
            handler.close_connection = True
            if how == "die":
                self.server.server_close()
                threading.Thread(target=self.server.shutdown, daemon=True).start()
            return
        status, body = 200, b""
        if how == "garbage":
            body = b"<html>The printer is on fire</html>"
        elif how == "other":
            body = b'{"ready": true}'
        elif how == "error":
            status, body = 500, json.dumps({"message": "NullReferenceException"}).encode()
        elif how == "refuse":
            body = json.dumps({"success": False, "message": "no way", "value": 0}).encode()
        else:
            body = json.dumps({"id": request["id"], "success": True, "message": "", **self.answer(request)}).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) * (2 if how == "half" else 1)))
        handler.end_headers()
        handler.wfile.write(body)
        if how == "half":
            handler.close_connection = True

    # ------------------------------------------------------------------ what Unity does

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        numbers, texts = request.get("intParams", []), request.get("stringParams", [])
        action = request["action"]
        if action in ("idle", "clear"):
            return {}
        if action == "environment":
            self.world = None
            task = self.tasks.get(numbers[0])
            if task is None:
                return {"success": False, "message": "no such scene"}
            self._task, self._graph = task, apartment(task)
            return {}
        if action == "environment_graph":
            return {"message": json.dumps(self.graph())}
        if action == "expand_scene":
            self._graph = json.loads(texts[1])
            return {"message": json.dumps({})}
        if action == "camera_count":
            return {"value": 70}
        if action == "add_character":
            return self.add_character(json.loads(texts[0]))
        if action == "camera_image":
            return {"message_list": [base64.b64encode(png((numbers[0] % 256,) * 3)).decode()]}
        if action == "render_script":
            return self.carry_out(texts[1])
        return {"success": False, "message": f"unknown action {action}"}

    def add_character(self, character: dict[str, Any]) -> dict[str, Any]:
        rooms = [node for node in self._graph["nodes"] if node["category"] == "Rooms"]
        if character["mode"] == "fix_position":
            there = [room for room in rooms if center(room["id"])[0] == character["character_position"]["x"]]
        else:
            there = [room for room in rooms if room["class_name"] == character["initial_room"]]
        if not there:
            return {"success": False}
        agent = {"id": AGENT, "class_name": "character", "category": "Characters", "properties": [], "states": []}
        edge = {"from_id": AGENT, "relation_type": "INSIDE", "to_id": there[0]["id"]}
        graph = {"nodes": [agent, *self._graph["nodes"]], "edges": [*self._graph["edges"], edge]}
        document = {**self._task.model_dump(), "init_graph": graph, "init_room": there[0]["class_name"]}
        self.world = SymbolicWorld(Task.model_validate(document), honour_quirks=self.honour_quirks)
        return {}

    def carry_out(self, line: str) -> dict[str, Any]:
        match = LINE.fullmatch(line)
        if match is None or self.world is None:
            return {"success": False, "message": json.dumps({"0": {"message": f"cannot parse {line}"}})}
        action, thing, _ = match.groups()
        name = self.world.scene.things[int(thing)].name
        observation = self.world.execute(f"{SKILLS[action]} {name}").take()
        if observation.outcome is not Outcome.DONE:
            return {"success": False, "message": json.dumps({"0": {"message": observation.text}})}
        self.lines.append(line)
        return {"message": json.dumps({"0": {"message": "Success"}})}

    def graph(self) -> dict[str, Any]:
        nodes = [dict(node) for node in self._graph["nodes"]]
        for node in nodes:
            node["prefab_name"] = node["class_name"]
            if node["category"] == "Rooms":
                node["bounding_box"] = {"center": center(node["id"]), "size": [4.0, 3.0, 4.0]}
        nodes.append({"id": 9999, "class_name": "unheardof", "category": "Props", "properties": [], "states": []})
        if self.world is None:
            return {"nodes": nodes, "edges": self._graph["edges"]}
        scene = self.world.scene
        edges = [edge for edge in self._graph["edges"] if edge["relation_type"] not in ("INSIDE", "ON")]
        for node in nodes:
            thing = scene.things.get(node["id"])
            if thing is None:
                continue
            node["states"] = sorted(thing.states)
            container, room, surface = scene.container_of(thing), scene.room_of(thing), scene.surface_of(thing)
            inside = container or (None if thing.is_room or thing.id in scene.held else room)
            for relation, other in (("INSIDE", inside), ("ON", surface)):
                if other is not None:
                    edges.append({"from_id": thing.id, "relation_type": relation, "to_id": other.id})
        agent = [("INSIDE", scene.agent_room.id), *(("CLOSE", id) for id in scene.close)]
        agent += zip(("HOLDS_RH", "HOLDS_LH"), scene.held, strict=False)
        edges += [{"from_id": AGENT, "relation_type": relation, "to_id": id} for relation, id in agent]
        character = {"id": AGENT, "class_name": "character", "category": "Characters", "properties": [], "states": []}
        return {"nodes": [*nodes, character], "edges": edges}


def apartment(task: Task) -> dict[str, Any]:
    """The rooms and furniture of a task: what an apartment holds before it is expanded."""
    graph = task.init_graph.model_dump()
    nodes = [node for node in graph["nodes"] if node["category"] in ("Rooms", "Furniture")]
    ids = {node["id"] for node in nodes}
    return {"nodes": nodes, "edges": [edge for edge in graph["edges"] if {edge["from_id"], edge["to_id"]} <= ids]}


def center(room: int) -> list[float]:
    """Where a room is."""
    return [10.0 * room, 1.5, 0.0]


def main() -> None:
    """Serve as the executable would."""
    port = next(int(argument.partition("=")[2]) for argument in sys.argv if argument.startswith("-http-port="))
    peer = VirtualHomePeer(load_tasks(os.environ["PEER_TASKS"]), port)
    limit, died = int(os.environ.get("PEER_DIES_AFTER", "0")), Path(os.environ.get("PEER_DIED", os.devnull))
    carry_out = peer.carry_out

    def mortal(line: str) -> dict[str, Any]:
        if limit and len(peer.lines) >= limit and not died.exists():
            died.touch()
            os._exit(3)
        return carry_out(line)

    peer.carry_out = mortal  # type: ignore[method-assign]
    threading.Event().wait()


if __name__ == "__main__":
    main()
