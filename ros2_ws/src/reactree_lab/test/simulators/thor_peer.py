"""A peer that plays AI2-THOR: it speaks the simulator's WSGI protocol to the real client, and keeps four rooms.

A process of its own: ``python test/simulators/thor_peer.py --port 8200``. It posts metadata and a picture to
``/train``; the reply is the next action. Arguments are checked as strictly as the simulator's own dispatcher does.
"""

from __future__ import annotations

import argparse
import http.client
import inspect
import json
import math
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from thor_rooms import (
    CARRIERS,
    DIRTYABLE,
    FILLABLE,
    MOVEABLE,
    NO_RECEPTACLE,
    OPENABLE,
    ROOMS,
    SLICEABLE,
    TOGGLEABLE,
    Furniture,
    Room,
)

GRID = 0.25
AGENT_HEIGHT = 0.9
REACH = 1.5
HALF_VIEW = 60.0  # degrees
SIDE = 32  # of the picture, in pixels
CONNECT_LIMIT = 30.0
MODES = ("none", "wait", "slip", "hang", "garbage", "half", "no-objects")


class Thing:
    """One object: furniture has a footprint, everything else is a point."""

    def __init__(
        self, kind: str, number: int, x: float, y: float, z: float, furniture: Furniture | None = None
    ) -> None:
        self.kind, self.furniture = kind, furniture
        self.name = f"{kind}_{(number * 2654435761 + len(kind) * 97) % 2**32:08x}"
        self.id = f"{kind}|{x:+06.2f}|{y:+06.2f}|{z:+06.2f}"
        self.x, self.y, self.z = x, y, z
        self.parent: Thing | None = None
        self.open = self.on = self.sliced = self.dirty = self.filled = self.gone = False

    @property
    def pickupable(self) -> bool:
        return self.furniture is None and not self.sliced

    @property
    def receptacle(self) -> bool:
        fixed = self.furniture is not None and self.kind not in NO_RECEPTACLE
        return fixed or self.kind in CARRIERS

    def ancestors(self) -> Iterator[Thing]:
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    def move(self, x: float, y: float, z: float) -> None:
        self.x, self.y, self.z = x, y, z


class Failure(Exception):
    """An action that was not possible."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class House:
    """One room as the simulator would keep it."""

    def __init__(self) -> None:
        self.reach = REACH
        self.load("FloorPlan1")

    def load(self, scene: str) -> None:
        self.scene = scene
        self.room: Room = ROOMS[scene]
        self.things: list[Thing] = []
        self.held: Thing | None = None
        self.put_last: Thing | None = None
        self.copies = 0
        for furniture in self.room.furniture:
            self._furnish(furniture)
        self.standing_at = (*self.room.start, 0.0, 0.0)  # x, z, rotation, horizon

    def _furnish(self, furniture: Furniture) -> None:
        place = self._add(furniture.kind, furniture.x, furniture.y, furniture.z, furniture)
        words = [word.partition("*") for word in furniture.holds.split()]
        kinds = [kind for kind, _, count in words for _ in range(int(count or 1))]
        for index, kind in enumerate(kinds):
            share = (index + 0.5) / len(kinds) * 2 - 1
            thing = self._add(kind, furniture.x + share * furniture.half_x * 0.8, furniture.y + 0.1, furniture.z)
            thing.move(thing.x, thing.y, furniture.z + share * furniture.half_z * 0.8)
            thing.parent = place

    def _add(self, kind: str, x: float, y: float, z: float, furniture: Furniture | None = None) -> Thing:
        thing = Thing(kind, len(self.things) + 1, x, y, z, furniture)
        self.things.append(thing)
        return thing

    # ------------------------------------------------------------ what is where

    def present(self) -> list[Thing]:
        return [thing for thing in self.things if not thing.gone]

    def reachable(self) -> list[tuple[float, float]]:
        columns = round(self.room.width / GRID) + 1
        rows = round(self.room.depth / GRID) + 1
        grid = ((column * GRID, row * GRID) for column in range(columns) for row in range(rows))
        return [(x, z) for x, z in grid if self._is_free(x, z)]

    def _is_free(self, x: float, z: float) -> bool:
        if not (0.25 <= x <= self.room.width - 0.25 and 0.25 <= z <= self.room.depth - 0.25):
            return False
        for furniture in self.room.furniture:
            if abs(x - furniture.x) < furniture.half_x + 0.2 and abs(z - furniture.z) < furniture.half_z + 0.2:
                return False
        return True

    def distance(self, thing: Thing) -> float:
        """From the agent to the nearest point of the thing."""
        x, z, *_ = self.standing_at
        if thing.furniture is None:
            return math.hypot(thing.x - x, thing.z - z)
        beyond_x = max(abs(thing.x - x) - thing.furniture.half_x, 0)
        beyond_z = max(abs(thing.z - z) - thing.furniture.half_z, 0)
        return math.hypot(beyond_x, beyond_z)

    def visible(self, thing: Thing) -> bool:
        if thing is self.held or self.held in thing.ancestors():
            return True
        if thing.sliced or self.distance(thing) > self.reach:
            return False
        if any(above.kind in OPENABLE and not above.open for above in thing.ancestors()):
            return False
        return all(self._in_sight(one) for one in (thing, *thing.ancestors()))

    def _in_sight(self, thing: Thing) -> bool:
        x, z, rotation, _ = self.standing_at
        front = thing.furniture.front if thing.furniture is not None else None
        if front is not None and (x - thing.x) * front[0] + (z - thing.z) * front[1] < 0.7 * self._apart(thing):
            return False
        ends = [(thing.x, thing.z)]
        if thing.furniture is not None:
            half_x, half_z = thing.furniture.half_x, thing.furniture.half_z
            ends += [(thing.x + a * half_x, thing.z + b * half_z) for a in (-1, 1) for b in (-1, 1)]
        angles = (math.degrees(math.atan2(end_x - x, end_z - z)) - rotation for end_x, end_z in ends)
        return any(abs((angle + 180) % 360 - 180) <= HALF_VIEW for angle in angles)

    def _apart(self, thing: Thing) -> float:
        x, z, *_ = self.standing_at
        return math.hypot(thing.x - x, thing.z - z)

    def _inside(self, thing: Thing) -> list[Thing]:
        return [other for other in self.present() if thing in other.ancestors()]

    # ------------------------------------------------------------ actions

    def act(self, action: Mapping[str, Any]) -> Any:
        """Take an action and return what the simulator calls ``actionReturn``."""
        name = action["action"]
        method = getattr(self, f"_{name}", None) if name[:1].isupper() else None
        if method is None:
            raise Failure(f"Invalid action: {name}", "InvalidAction")
        arguments = {key: value for key, value in action.items() if key not in ("action", "sequenceId", "renderImage")}
        thing = []
        if "objectId" in arguments:
            id = arguments.pop("objectId")
            thing = [thing for thing in self.present() if thing.id == id]
            if not thing:
                raise Failure(f"{id} is not the objectId on any object in the scene!")
        try:
            inspect.signature(method).bind(*thing, **arguments)
        except TypeError as error:
            raise Failure(f"{name} invoked with invalid arguments: {error}", "InvalidArgument") from None
        return method(*thing, **arguments)

    def _GetScenesInBuild(self) -> list[str]:
        return [f"{scene}_physics" for scene in ROOMS]

    def _Reset(self, sceneName: str) -> None:
        self.load(sceneName.removesuffix("_physics"))

    def _Initialize(
        self,
        visibilityDistance: float = REACH,
        gridSize: float = GRID,
        fieldOfView: float = 90,
        snapToGrid: bool = True,
    ) -> dict[str, float]:
        self.reach = visibilityDistance
        return {"cameraNearPlane": 0.1, "cameraFarPlane": 20.0}

    def _Pass(self) -> None:
        pass

    def _GetReachablePositions(self) -> list[dict[str, float]]:
        return [{"x": x, "y": AGENT_HEIGHT, "z": z} for x, z in self.reachable()]

    def _GetInteractablePoses(self, thing: Thing) -> list[dict[str, Any]]:
        before, poses = self.standing_at, []
        for x, z in self.reachable():
            for rotation in (0.0, 90.0, 180.0, 270.0):
                self.standing_at = (x, z, rotation, 0.0)
                if (x, z) not in self.room.stubborn and self.visible(thing):
                    pose = {"x": x, "y": AGENT_HEIGHT, "z": z, "rotation": rotation, "horizon": 0.0}
                    poses += ({**pose, "standing": standing} for standing in (False, True))
        self.standing_at = before
        return poses

    def _TeleportFull(
        self, position: Any, rotation: Any, horizon: float, standing: bool, forceAction: bool = False
    ) -> None:
        if not -30 <= horizon <= 60:
            raise Failure(f"Each horizon must be in [-30:60]. You gave {horizon}.")
        self._stand(position["x"], position["z"], rotation["y"] % 360, horizon)

    def _stand(self, x: float, z: float, rotation: float, horizon: float) -> None:
        place = (round(x / GRID) * GRID, round(z / GRID) * GRID)
        if place not in self.reachable() or place in self.room.stubborn:
            raise Failure("the agent would collide with something there")
        self.standing_at = (*place, rotation, horizon)

    def _MoveAhead(self, moveMagnitude: float = GRID) -> None:
        x, z, rotation, horizon = self.standing_at
        angle = math.radians(rotation)
        self._stand(x + moveMagnitude * math.sin(angle), z + moveMagnitude * math.cos(angle), rotation, horizon)

    def _MoveBack(self, moveMagnitude: float = GRID) -> None:
        self._MoveAhead(-moveMagnitude)

    def _needs_sight(self, thing: Thing, forced: bool) -> None:
        if not forced and not self.visible(thing):
            raise Failure(f"{thing.id} is not visible.")

    def _PickupObject(self, thing: Thing, forceAction: bool = False) -> None:
        if self.held is not None:
            raise Failure("Agent hand has something in it already! Can't pick up anything else")
        if not thing.pickupable:
            raise Failure(f"{thing.id} must have the property CanPickup to be picked up.")
        self._needs_sight(thing, forceAction)
        thing.parent, self.held = None, thing

    def _PutObject(self, place: Thing, forceAction: bool = False) -> None:
        held = self.held
        if held is None:
            raise Failure("Can't place an object if Agent isn't holding anything")
        if not place.receptacle or place is held or held in place.ancestors():
            raise Failure(f"{place.id} is not a Receptacle!")
        if any(one.kind in OPENABLE and not one.open for one in (place, *place.ancestors())):
            raise Failure("Target openable Receptacle is CLOSED, can't place if target is not open!")
        self._needs_sight(place, forceAction)
        if place.kind == "ToiletPaperHanger" and held.kind != "ToiletPaper":
            raise Failure("No valid positions to place object found")
        held.parent, self.held, self.put_last = place, None, held
        for thing in (held, *self._inside(held)):
            thing.move(place.x, place.y + 0.1, place.z)

    def _DropHandObject(self, forceAction: bool = False) -> None:
        if self.held is None:
            raise Failure("nothing in hand to drop!")
        x, z, *_ = self.standing_at
        for thing in (self.held, *self._inside(self.held)):
            thing.move(x, 0.05, z + 0.3)
        self.held = None

    def slip(self) -> None:
        """Let what was picked up or put down last fall to the floor."""
        thing = self.held or self.put_last
        assert thing is not None
        self.held = thing
        thing.parent = None
        self._DropHandObject()

    def _OpenObject(self, thing: Thing, forceAction: bool = False) -> None:
        if thing.kind not in OPENABLE:
            raise Failure(f"{thing.id} is not an Openable object")
        if thing.open:
            raise Failure("object is already open")
        self._needs_sight(thing, forceAction)
        # A drawer opens into whoever stands right before it.
        if thing.kind == "Drawer" and self.distance(thing) < 0.5:
            raise Failure("Object failed to open/close successfully.")
        thing.open = True

    def _CloseObject(self, thing: Thing, forceAction: bool = False) -> None:
        if not thing.open:
            raise Failure("object is already closed")
        self._needs_sight(thing, forceAction)
        thing.open = False

    def _ToggleObjectOn(self, thing: Thing, forceAction: bool = False) -> None:
        self._toggle(thing, True, forceAction)
        if thing.kind == "Microwave" and thing.open:
            thing.on = False
            raise Failure("Target must be closed to Toggle On!")

    def _ToggleObjectOff(self, thing: Thing, forceAction: bool = False) -> None:
        self._toggle(thing, False, forceAction)

    def _toggle(self, thing: Thing, on: bool, forced: bool) -> None:
        if thing.kind not in TOGGLEABLE:
            raise Failure(f"{thing.id} is not a toggleable object")
        if thing.on == on:
            raise Failure(f"can't toggle object {'on' if on else 'off'} if it's already {'on' if on else 'off'}!")
        self._needs_sight(thing, forced)
        thing.on = on

    def _SliceObject(self, thing: Thing, forceAction: bool = False) -> None:
        if thing.kind not in SLICEABLE or thing.sliced:
            raise Failure(f"{thing.id} can't be sliced")
        self._needs_sight(thing, forceAction)
        if thing is self.held:
            raise Failure("target object cannot be sliced if it is in the agent's hand")
        for number in range(3):
            piece = self._add(f"{thing.kind}Sliced", thing.x, thing.y, thing.z)
            piece.id = f"{thing.id}|{thing.kind}Sliced_{number}"
            piece.name = f"{thing.name}_Slice_{number + 1}"
            piece.parent = thing.parent
        thing.sliced, thing.parent = True, None

    def _CleanObject(self, thing: Thing, forceAction: bool = False) -> None:
        if not thing.dirty:
            raise Failure(f"{thing.id} is already Clean!")
        thing.dirty = False

    def _DirtyObject(self, thing: Thing, forceAction: bool = False) -> None:
        if thing.kind not in DIRTYABLE or thing.dirty:
            raise Failure(f"{thing.id} cannot be dirtied")
        thing.dirty = True

    def _EmptyLiquidFromObject(self, thing: Thing, forceAction: bool = False) -> None:
        if not thing.filled:
            raise Failure("object already empty")
        thing.filled = False

    def _SetObjectPoses(self, objectPoses: list[Any]) -> None:
        """Set poses; what can be moved and is not named goes, what is named twice is copied."""
        loose = {thing.name: thing for thing in self.present() if thing.pickupable or thing.kind in MOVEABLE}
        placed: set[str] = set()
        for pose in objectPoses:
            thing = loose.get(pose["objectName"])
            if thing is None:
                raise Failure(f"No Pickupable or Moveable object of name {pose['objectName']} found in scene.")
            if thing.name in placed:
                self.copies += 1
                original, thing = thing, self._add(thing.kind, thing.x, thing.y, thing.z, thing.furniture)
                thing.name = f"{original.name}_copy_{self.copies}"
                thing.id = f"{thing.kind}|copy{self.copies}"
            placed.add(thing.name)
            position = pose["position"]
            if thing.furniture is None:
                thing.move(position["x"], position["y"], position["z"])
                thing.parent = self._under(thing)
        for name, thing in loose.items():
            thing.gone = thing.gone or name not in placed

    def _under(self, thing: Thing) -> Thing | None:
        def fits(place: Thing) -> bool:
            size = place.furniture
            assert size is not None
            within = abs(thing.x - place.x) <= size.half_x and abs(thing.z - place.z) <= size.half_z
            return within and -0.05 <= thing.y - place.y <= 0.4

        places = [place for place in self.present() if place.furniture is not None and place.receptacle and fits(place)]
        return min(places, key=lambda place: abs(thing.y - place.y), default=None)

    # ------------------------------------------------------------ metadata

    def metadata(self, action: str, result: Any = None, failure: Failure | None = None) -> dict[str, Any]:
        x, z, rotation, horizon = self.standing_at
        held = [self.held, *self._inside(self.held)] if self.held is not None else []
        if self.held is not None:
            for thing in held:
                thing.move(x, AGENT_HEIGHT + 0.3, z)
        return {
            "objects": [self._object(thing) for thing in self.present()],
            "agent": {
                "name": "agent",
                "position": {"x": x, "y": AGENT_HEIGHT, "z": z},
                "rotation": {"x": 0.0, "y": rotation, "z": 0.0},
                "cameraHorizon": horizon,
                "isStanding": True,
            },
            "inventoryObjects": [{"objectId": thing.id, "objectType": thing.kind} for thing in held[:1]],
            "heldObjectPose": None,
            "agentId": 0,
            "sceneName": f"{self.scene}_physics",
            "lastAction": action,
            "lastActionSuccess": failure is None,
            "errorMessage": "" if failure is None else str(failure),
            "errorCode": "" if failure is None else failure.code,
            "actionReturn": result,
            "screenWidth": SIDE,
            "screenHeight": SIDE,
            "colors": [],
            "thirdPartyCameras": [],
            "cameraPosition": {"x": x, "y": AGENT_HEIGHT + 0.675, "z": z},
        }

    def _object(self, thing: Thing) -> dict[str, Any]:
        receptacle = thing.receptacle
        return {
            "objectId": thing.id,
            "objectType": thing.kind,
            "name": thing.name,
            "position": {"x": thing.x, "y": thing.y, "z": thing.z},
            "rotation": {"x": 0.0, "y": 0.0, "z": 0.0},
            "distance": self.distance(thing),
            "visible": self.visible(thing),
            "receptacle": receptacle,
            "receptacleObjectIds": [inside.id for inside in self._inside(thing)] if receptacle else None,
            "parentReceptacles": [above.id for above in thing.ancestors()] or None,
            "pickupable": thing.pickupable,
            "moveable": thing.kind in MOVEABLE,
            "openable": thing.kind in OPENABLE,
            "isOpen": thing.open,
            "toggleable": thing.kind in TOGGLEABLE,
            "isToggled": thing.on,
            "sliceable": thing.kind in SLICEABLE,
            "isSliced": thing.sliced or thing.kind.endswith("Sliced"),
            "dirtyable": thing.kind in DIRTYABLE,
            "isDirty": thing.dirty,
            "canFillWithLiquid": thing.kind in FILLABLE,
            "isFilledWithLiquid": thing.filled,
        }


class Peer:
    """The connection: metadata goes out, the next action comes back.

    Args:
        host: Where the client listens.
        port: The port it listens on.
        mode: What goes wrong, one of :data:`MODES`; ``wait`` says so and waits for a line on standard input, ``slip``
            calls the action a success, and then the thing slips to the floor.
        action: The action at which it does; empty: at the first message.
    """

    BOUNDARY = "thor-peer-boundary"

    def __init__(self, host: str, port: int, mode: str = "none", action: str = "") -> None:
        self.host, self.port, self.mode, self.failing_action = host, port, mode, action
        self.house = House()

    def run(self) -> None:
        """Answer actions until the client ends, or goes wrong as asked for."""
        self._wait_for_client()
        name, sequence, failure, result = "", 0, None, None
        while True:
            metadata = self.house.metadata(name, result, failure)
            if self.mode == "wait" and name == self.failing_action:
                sys.stdout.write("waiting\n")
                sys.stdout.flush()
                sys.stdin.readline()
            elif self.mode not in ("none", "slip") and name == self.failing_action:
                return self._go_wrong(metadata, sequence)
            action = json.loads(self._post(self._message(metadata, sequence)))
            if "action" not in action:
                return None
            name, sequence, failure, result = action["action"], action.get("sequenceId", sequence), None, None
            try:
                result = self.house.act(action)
                if self.mode == "slip" and name == self.failing_action:
                    self.house.slip()
            except Failure as error:
                failure = error

    def _wait_for_client(self) -> None:
        end = time.monotonic() + CONNECT_LIMIT
        while time.monotonic() < end:
            try:
                socket.create_connection((self.host, self.port), timeout=1).close()
                return
            except OSError:
                threading.Event().wait(0.02)
        raise SystemExit(f"nobody listens on {self.host}:{self.port}")

    def _message(self, metadata: dict[str, Any], sequence: int) -> bytes:
        shade = 40 * (1 + list(ROOMS).index(self.house.scene))
        parts = [
            ("metadata", "text/plain; charset=utf-8", json.dumps(self._envelope(metadata, sequence)).encode()),
            ("token", "text/plain; charset=utf-8", b""),
            ("image", "image/raw", bytes((shade, 0, 255 - shade)) * SIDE * SIDE),
        ]
        message = b""
        for name, kind, body in parts:
            file = f'; filename="{name}"' if name == "image" else ""
            head = f'--{self.BOUNDARY}\r\nContent-Type: {kind}\r\nContent-disposition: form-data; name="{name}"{file}'
            message += head.encode() + b"\r\n\r\n" + body + b"\r\n"
        return message + f"--{self.BOUNDARY}--\r\n".encode()

    def _envelope(self, metadata: dict[str, Any], sequence: int) -> dict[str, Any]:
        return {"agents": [metadata], "activeAgentId": 0, "sequenceId": sequence, "thirdPartyCameras": []}

    def _post(self, message: bytes) -> bytes:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=600)
        try:
            headers = {"Content-Type": f"multipart/form-data; boundary={self.BOUNDARY}"}
            connection.request("POST", "/train", message, headers)
            return connection.getresponse().read() or b"{}"
        except (OSError, http.client.HTTPException):
            return b"{}"  # the client has gone
        finally:
            connection.close()

    def _go_wrong(self, metadata: dict[str, Any], sequence: int) -> None:
        message = self._message(metadata, sequence)
        if self.mode == "no-objects":
            message = self._message({**metadata, "objects": [{"name": "nothing else"}]}, sequence)
        if self.mode in ("garbage", "no-objects"):
            self._post(b"\x00\x01 this is not a message" if self.mode == "garbage" else message)
            return
        if self.mode == "hang":
            threading.Event().wait(CONNECT_LIMIT)
            return
        with socket.create_connection((self.host, self.port), timeout=CONNECT_LIMIT) as raw:
            head = (
                f"POST /train HTTP/1.1\r\nHost: {self.host}\r\nContent-Length: {len(message)}\r\n"
                f"Content-Type: multipart/form-data; boundary={self.BOUNDARY}\r\n\r\n"
            )
            raw.sendall(head.encode() + message[: len(message) // 2])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--mode", choices=MODES, default="none", help="what goes wrong")
    parser.add_argument("--at", default="", help="the action at which it goes wrong; empty: at the first message")
    options = parser.parse_args()
    Peer(options.host, options.port, options.mode, options.at).run()


if __name__ == "__main__":
    main()
