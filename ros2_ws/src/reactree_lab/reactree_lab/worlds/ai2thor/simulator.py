"""The AI2-THOR simulator with time limits: no call waits longer than its limit, whatever the other side does."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reactree_ros.background.worker import Worker
from reactree_ros.errors import UserError
from reactree_ros.plugins.installation import install_line
from reactree_ros.world.port import WorldError

#: ALFRED's grid size, in metres.
GRID_SIZE = 0.25
VISIBILITY_DISTANCE = 1.5

# The metadata that is read, of every object and otherwise.
_OBJECT_KEYS = frozenset(
    (
        *("objectId", "objectType", "name", "position", "distance", "visible", "parentReceptacles", "receptacle"),
        *("receptacleObjectIds", "pickupable", "moveable", "openable", "isOpen", "toggleable", "isToggled"),
        *("sliceable", "isSliced", "dirtyable", "isDirty", "canFillWithLiquid", "isFilledWithLiquid"),
    )
)
_KEYS = frozenset(("agent", "inventoryObjects", "lastActionSuccess", "errorMessage", "actionReturn"))
_START = "the start"
# Simulator actions of a reset: list the scenes, load one, set the quality, initialise.
_RESET_ACTIONS = 4
# The watchdog waits longer than the client's own limit, which has steps of half a second.
_WATCHDOG_DELAY = 1.0
# Time between two checks whether the simulator's process still runs, in seconds.
_WATCH_PERIOD = 0.25
# The client's sign for the end of a message; alone it is an empty message, which the client refuses.
_END_OF_MESSAGE = 255
# Seconds that a simulator has to end by itself.
_STOP_LIMIT = 2.0


@dataclass(frozen=True)
class SimulatorOptions:
    """How to reach a simulator.

    Attributes:
        host: Address at which this process listens for a simulator.
        port: The port it listens on.
        start_unity: Whether to start the simulator here; otherwise one connects to host and port.
        headless: Whether the simulator renders without a display (CloudRendering).
        executable: A build of the simulator on this machine; None takes the client's own, downloaded on first use.
        x_display: The X display to render on, e.g. ``:0``.
        time_limit: Limit of one simulator action, in seconds.
        start_limit: Limit of the start, in seconds.
        width: Width of the picture in pixels.
        height: Height of the picture in pixels.
    """

    host: str
    port: int
    start_unity: bool
    headless: bool
    executable: str | None
    x_display: str | None
    time_limit: float
    start_limit: float
    width: int
    height: int


class Simulator:
    """One AI2-THOR simulator, for one thread.

    Args:
        options: How to reach it.
        worker: The worker whose thread uses it. The worker drops cancelled work before the next action. It gives up
            after a hang, a crash or unusable data: then this simulator is useless.
        before: The earlier, lost simulator, whose port must become free.
    """

    def __init__(self, options: SimulatorOptions, worker: Worker, before: Simulator | None = None) -> None:
        self.frame: Any = None  # RGB array, height by width by 3
        self.metadata: dict[str, Any] = {}
        self.headless = options.headless and options.start_unity
        self._options = options
        self._worker = worker
        self._before = before
        self._lost = ""
        self._ended = threading.Event()
        self._controller: Any = None
        self._name = f"AI2-THOR at {options.host}:{options.port}"

    def load(self, scene: str) -> dict[str, Any]:
        """Load a scene and return the metadata; the first call starts the simulator.

        Raises:
            UserError: The client is not installed, or nothing can listen on host and port.
            WorldError: The simulator does not start, or has no such scene.
            Stopped: Nobody waits for it any more.
        """
        limit = _RESET_ACTIONS * self._options.time_limit
        if self._controller is None:
            controller_class = _controller_class(self)
            if self._before is not None:
                self._before._ended.wait(2 * _STOP_LIMIT)
                self._before = None
            self._check_port()
            return self._bounded(
                _START,
                self._options.start_limit + limit,
                lambda: controller_class(scene=scene, **self._arguments()).last_event,
            )
        return self._bounded("Reset", limit, lambda: self._controller.reset(scene))

    def step(self, action: str, **arguments: Any) -> dict[str, Any]:
        """Take one simulator action and return the metadata; ``lastActionSuccess`` says whether it was possible.

        Raises:
            WorldError: The simulator is gone, or does not know the action.
            Stopped: The skill was cancelled.
        """
        return self._bounded(
            action, self._options.time_limit, lambda: self._controller.step(action=action, **arguments)
        )

    def force(self, action: str, id: str) -> dict[str, Any]:
        """Take one simulator action on an object, wherever the agent stands."""
        return self.step(action, objectId=id, forceAction=True)

    def stop(self) -> None:
        """End the simulator; kill it if it does not end in time."""
        controller, self._lost = self._controller, self._lost or f"{self._name} was closed"
        server = getattr(controller, "server", None)
        if server is not None:
            ending = threading.Thread(target=_end, args=(controller, server), daemon=True)
            ending.start()
            ending.join(_STOP_LIMIT)
            if server.unity_proc is not None:
                with contextlib.suppress(OSError):
                    server.unity_proc.kill()
        self._ended.set()

    def created(self, controller: Any) -> None:
        """Keep the client as soon as it exists: it may hang before it is complete."""
        self._controller = controller

    def _arguments(self) -> dict[str, Any]:
        options = self._options
        arguments: dict[str, Any] = {
            "host": options.host,
            "port": options.port,
            "start_unity": options.start_unity,
            "width": options.width,
            "height": options.height,
            "server_timeout": options.time_limit,
            "server_start_timeout": options.start_limit,
            "gridSize": GRID_SIZE,
            "visibilityDistance": VISIBILITY_DISTANCE,
        }
        if not options.start_unity:
            from ai2thor.wsgi_server import WsgiServer

            return {**arguments, "server_class": WsgiServer}
        if options.headless:
            from ai2thor.platform import CloudRendering

            arguments["platform"] = CloudRendering
        return {**arguments, "local_executable_path": options.executable, "x_display": options.x_display}

    def _check_port(self) -> None:
        host, port = self._options.host, self._options.port
        try:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot listen on {host}:{port} for AI2-THOR: {error}; give another port") from None

    def _bounded(self, what: str, limit: float, call: Callable[[], Any]) -> dict[str, Any]:
        """Make one call of the client within its limit; any error except a refusal loses the simulator."""
        self._worker.check_wanted()
        if self._lost:
            raise WorldError(self._lost)
        seconds = self._options.start_limit if what == _START else self._options.time_limit
        done = threading.Event()
        watchdog = threading.Thread(target=self._watch, args=(done, what, limit), daemon=True)
        watchdog.start()
        try:
            event = call()
        except ValueError as error:  # the client's error for an unknown action, scene or build
            message = (str(error).strip().splitlines() or ["no reason given"])[0]
            reason = f"{self._name} refuses '{what}': {message}"
            raise WorldError(self._lose(reason) if what == _START else reason) from None
        except TimeoutError:
            raise WorldError(self._lose(self._late(what, seconds))) from None
        except (Exception, SystemExit) as error:
            problem = getattr(getattr(self._controller, "server", None), "problem", "")
            if problem == "late":
                raise WorldError(self._lose(self._late(what, seconds))) from None
            reason = f"sent what is no AI2-THOR message: {problem}" if problem else f"broke: {described(error)}"
            raise WorldError(self._lose(f"{self._name} {reason}, at '{what}'")) from None
        finally:
            done.set()
        if self._lost:
            raise WorldError(self._lost)
        try:
            self.metadata, self.frame = _checked(event.metadata), event.frame
        except (AttributeError, KeyError, TypeError) as error:
            reason = f"{self._name} sent metadata that cannot be used, at '{what}': {described(error)}"
            raise WorldError(self._lose(reason)) from None
        return self.metadata

    def _watch(self, done: threading.Event, what: str, limit: float) -> None:
        """Give up the simulator if a call takes longer than all of its own limits, or its process has ended."""
        end = time.monotonic() + limit + _WATCHDOG_DELAY
        while not done.wait(min(_WATCH_PERIOD, max(end - time.monotonic(), 0))):
            process = getattr(getattr(self._controller, "server", None), "unity_proc", None)
            if process is not None and process.poll() is not None:
                self._lose(f"AI2-THOR ended with code {process.returncode}, at '{what}' (see ~/.ai2thor/log/unity.log)")
            elif time.monotonic() >= end:
                self._lose(self._late(what, limit + _WATCHDOG_DELAY))
            else:
                continue
            return

    def _late(self, what: str, seconds: float) -> str:
        return f"{self._name} did not answer '{what}' with a whole message within {seconds:g} s"

    def _lose(self, reason: str) -> str:
        if not self._lost:
            self._lost = f"{reason}; a reset starts anew"
            _hang_up(getattr(self._controller, "server", None))
            self._worker.give_up(self._lost)
            self.stop()
        return self._lost


def _checked(metadata: Any) -> dict[str, Any]:
    """Check that all needed data exist; KeyError and TypeError say what is missing."""
    for key in _KEYS:
        metadata[key]
    for index, thing in enumerate(metadata["objects"]):
        for key in sorted(_OBJECT_KEYS - thing.keys()):
            raise KeyError(f"objects[{index}].{key}")
    return dict(metadata)


def described(error: BaseException) -> str:
    """Describe an error in one line."""
    if isinstance(error, KeyError):
        return f"{error} is missing"
    text = " ".join(str(error).split())[:200]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _controller_class(simulator: Simulator) -> Any:
    """Return the client's Controller with a server that reports at once what is wrong with a message."""
    try:
        from ai2thor.controller import Controller
        from ai2thor.platform import CloudRendering
        from ai2thor.wsgi_server import ThorRequestHandler, WsgiServer
    except ImportError as error:
        raise UserError(
            f"the AI2-THOR world needs the package ai2thor ({error}): {install_line('reactree_lab[ai2thor]')}"
        ) from None

    class Handler(ThorRequestHandler):  # type: ignore[misc]
        def setup(self) -> None:
            super().setup()
            self.server.thor.connections.add(self.connection)

        def run_wsgi(self) -> None:
            self.server.thor.path = self.path
            super().run_wsgi()

        def finish(self) -> None:
            self.server.thor.connections.discard(self.connection)
            with contextlib.suppress(OSError):
                super().finish()

        def send_error(self, *args: Any, **kwargs: Any) -> None:
            self.server.thor.report("no HTTP")
            super().send_error(*args, **kwargs)

        def log(self, *args: Any, **kwargs: Any) -> None:
            pass  # the error contains all that matters

    class Server(WsgiServer):  # type: ignore[misc]
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self.problem = self.path = ""
            self.connections: set[socket.socket] = set()
            self.wsgi_server.RequestHandlerClass = Handler
            self.wsgi_server.thor = self
            self.app.register_error_handler(Exception, self._refuse)

        def _refuse(self, error: Exception) -> Any:
            if self.path == "/train":
                broken_off = type(error).__name__ == "ClientDisconnected"
                self.report("it breaks off" if broken_off else described(error))
            return "this is no AI2-THOR message", 400

        def report(self, problem: str) -> None:
            if not self.problem:
                self.problem = problem
            with contextlib.suppress(queue.Full):
                self.request_queue.put_nowait(None)

        def receive(self, timeout: float | None = None) -> Any:
            try:
                event = super().receive(timeout)
            except TimeoutError:
                self.problem = self.problem or "late"
                raise
            if event is None:
                raise WorldError(self.problem)
            return event

        def stop(self) -> None:
            self.stopped = True
            with contextlib.suppress(queue.Full):
                self.response_queue.put_nowait({})

    class BoundedController(Controller):  # type: ignore[misc]
        def start(self, **arguments: Any) -> Any:
            if self.last_event is not None:  # otherwise the client would restart a crashed simulator and hide the crash
                raise RuntimeError("its process has ended")
            return super().start(**arguments)

        def _build_server(self, host: str, port: int, width: int, height: int) -> None:
            simulator.created(self)
            if simulator.headless:  # the client assumes that a custom executable needs a display
                self._build.platform = CloudRendering
            if self.server_class is WsgiServer and getattr(self, "server", None) is None:
                self.server = Server(host=host, port=port, width=width, height=height, timeout=self.server_timeout)
            else:
                super()._build_server(host, port, width, height)

    return BoundedController


def _hang_up(server: Any) -> None:
    """Accept no more connections: they are for the next simulator."""
    if hasattr(server, "connections"):
        with contextlib.suppress(OSError):
            server.wsgi_server.socket.shutdown(socket.SHUT_RDWR)


def _end(controller: Any, server: Any) -> None:
    """End a client; may block if the simulator hangs."""
    if not hasattr(server, "connections"):
        _release_pipes(server)
        with contextlib.suppress(Exception):
            controller.stop()
        return
    server.stop()
    _hang_up(server)
    thread = getattr(server, "server_thread", None)
    if thread is not None:
        threading.Thread(target=server.wsgi_server.shutdown, daemon=True).start()
        thread.join(_STOP_LIMIT / 4)  # lets a pending answer go out
        for connection in list(server.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join(_STOP_LIMIT / 2)
    server.wsgi_server.server_close()


def _release_pipes(server: Any) -> None:
    """Release threads that wait for the simulator at a pipe.

    Closing the pipe is not enough: the client would read on without a pause until its time is over.
    """
    with contextlib.suppress(OSError, AttributeError):
        pipe = os.open(server.server_pipe_path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(pipe, server._create_header(_END_OF_MESSAGE, b""))
        finally:
            os.close(pipe)
    with contextlib.suppress(OSError, AttributeError):
        os.close(os.open(server.client_pipe_path, os.O_RDONLY | os.O_NONBLOCK))
