"""The process with AI2-THOR's client, for :class:`~reactree_lab.worlds.ai2thor.world.Simulator`."""

from __future__ import annotations

import base64
import io
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any

from reactree_lab.worlds.running import serve

# The metadata that is read, of every object and otherwise.
_OBJECT_KEYS = (
    *("objectId", "objectType", "name", "position", "rotation", "distance", "visible", "parentReceptacles"),
    *("receptacle", "receptacleObjectIds", "pickupable", "moveable", "openable", "isOpen", "toggleable", "isToggled"),
    *("sliceable", "isSliced", "dirtyable", "isDirty", "canFillWithLiquid", "isFilledWithLiquid"),
)
_KEYS = ("agent", "inventoryObjects", "lastActionSuccess", "errorMessage", "actionReturn")
#: Seconds that the client itself waits: longer than any limit of ours, which ends this process.
_FOREVER = 86_400.0


class Player:
    def __init__(self) -> None:
        self._controller: Any = None
        self._pictures = False

    def start(self, arguments: Mapping[str, Any], headless: bool, pictures: bool) -> dict[str, Any]:
        """Start a simulator, or wait for one, and load a scene; the arguments are those of the client."""
        from ai2thor.controller import Controller
        from ai2thor.platform import CloudRendering
        from ai2thor.wsgi_server import WsgiServer

        class Client(Controller):  # type: ignore[misc]
            def _build_server(self, *address: Any) -> None:
                if headless:  # the client assumes that a custom executable needs a display
                    self._build.platform = CloudRendering
                super()._build_server(*address)

            def _start_unity_thread(self, *arguments: Any) -> None:
                super()._start_unity_thread(*arguments)
                threading.Thread(target=_end_with, args=(self.server.unity_proc,), daemon=True).start()

        own = {"platform": CloudRendering} if headless else {}
        if not arguments["start_unity"]:
            own = {"server_class": WsgiServer}
        self._pictures = pictures
        try:
            self._controller = Client(server_timeout=_FOREVER, server_start_timeout=_FOREVER, **arguments, **own)
        except ValueError as error:
            raise RuntimeError(_first_line(error)) from error
        return self._told(self._controller.last_event)

    def load(self, scene: str) -> dict[str, Any]:
        return self._told(self._controller.reset(scene))

    def step(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._told(self._controller.step(action=action, **arguments))
        except ValueError as error:  # the client's error for an action or arguments that the simulator does not know
            return {"refused": _first_line(error)}

    def stop(self) -> dict[str, Any]:
        self._controller.stop()
        if (server := getattr(self._controller.server, "wsgi_server", None)) is not None:
            server.shutdown()  # once its last answer is out
        return {}

    def _told(self, event: Any) -> dict[str, Any]:
        metadata = event.metadata
        try:
            told = {key: metadata[key] for key in _KEYS}
            told["objects"] = [{key: thing[key] for key in _OBJECT_KEYS} for thing in metadata["objects"]]
        except (KeyError, TypeError) as error:
            raise RuntimeError(f"it sent metadata that cannot be used: {error}") from error
        return {"metadata": told, "picture": _png(event.frame) if self._pictures and event.frame is not None else ""}


def _png(frame: Any) -> str:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(frame).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()


def _end_with(simulator: Any) -> None:
    code = simulator.wait()
    sys.stderr.write(f"AI2-THOR ended with code {code}, see ~/.ai2thor/log/unity.log\n")
    sys.stderr.flush()
    os._exit(1)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no reason given"])[0]


if __name__ == "__main__":
    serve(Player)
