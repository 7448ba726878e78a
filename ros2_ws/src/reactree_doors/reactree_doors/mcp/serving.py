"""How clients reach the server: by this process's standard streams, or by HTTP with a token.

Standard output belongs to the protocol: :func:`wire` takes it before anything else can print there.
"""

from __future__ import annotations

import asyncio
import hmac
import io
import os
import secrets
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine
from contextlib import suppress
from typing import Any

import anyio
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from reactree_doors.mcp.server import Door, Leaving
from reactree_ros.errors import UserError
from reactree_ros.view.http import address_of, admit, bound, own_hosts, server_of

#: The environment variable with the token of HTTP, and its least length.
TOKEN, SHORTEST_TOKEN = "REACTREE_MCP_TOKEN", 16
PATH = "/mcp"
#: Largest request, in bytes; most sessions of older clients at once, and how long one may be silent, in seconds.
LARGEST_REQUEST, MOST_SESSIONS, SILENT = 1 << 20, 64, 1800.0
#: When a client that cannot be reached counts as gone, in seconds.
VANISHED = 15
#: Longest wait for the end of what the robot does when the server ends, in seconds.
LAST_WORDS = 15.0
#: Longest wait for a client to read what was said to it before it left, in seconds.
FLUSH = 1.0


def wire() -> tuple[io.TextIOWrapper, io.TextIOWrapper]:
    """Take the process's standard streams for the protocol; what is printed from now on goes to standard error.

    Processes that are started later get neither of them.
    """
    read, write = (os.fdopen(os.dup(number), mode) for number, mode in ((0, "rb"), (1, "wb")))
    sys.stdout.flush()
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # it is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return (
        io.TextIOWrapper(read, encoding="utf-8", errors="replace"),
        io.TextIOWrapper(write, encoding="utf-8", errors="replace"),
    )


def serve_streams(door: Door, streams: tuple[io.TextIOWrapper, io.TextIOWrapper]) -> None:
    """Serve the client at the standard streams until it closes one of them, or a signal comes."""
    server, left = door.server(), threading.Event()

    async def serve() -> None:
        read, write = map(anyio.wrap_file, streams)
        try:
            async with stdio_server(read, write) as (received, sent):
                try:
                    await server.run(received, sent, server.create_initialization_options())
                finally:
                    left.set()  # what is left to be written may never be read
        except Exception as error:
            if not _is_of_the_wire(error):
                raise

    _until_ended(door, serve(), left)


def _is_of_the_wire(error: BaseException) -> bool:
    some = getattr(error, "exceptions", ())  # of a group
    return all(map(_is_of_the_wire, some)) if some else isinstance(error, OSError)


def token() -> tuple[str, bool]:
    """Return the token of HTTP, and whether it is a new one that nobody knows yet."""
    given = os.environ.get(TOKEN, "")
    if not given:
        return secrets.token_urlsafe(24), True
    if len(given) < SHORTEST_TOKEN or not (given.isascii() and given.isprintable()) or " " in given:
        raise UserError(
            f"{TOKEN} has to have at least {SHORTEST_TOKEN} characters and no blanks; unset it for a new one"
        )
    return given, False


def serve_http(door: Door, host: str, port: int, token: str, *, say: Callable[[str], object]) -> None:
    """Serve clients by HTTP until a signal comes."""
    listening = bound(host, port)
    _notice_who_vanishes(listening)
    app = door.server().streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=LARGEST_REQUEST,
        max_sessions=MOST_SESSIONS,
        session_idle_timeout=SILENT,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),  # the gate looks
    )
    server = server_of(Gate(app, token=token, hosts=own_hosts(listening)))
    say(f"http://{address_of(listening)}{PATH}")
    _until_ended(door, server.serve(sockets=[listening]), threading.Event())


def _notice_who_vanishes(listening: socket.socket) -> None:
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    probes = {"TCP_KEEPIDLE": VANISHED // 3, "TCP_KEEPINTVL": VANISHED // 3, "TCP_KEEPCNT": 2}
    for name, value in {**probes, "TCP_USER_TIMEOUT": VANISHED * 1000}.items():  # connections inherit them
        if hasattr(socket, name):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _until_ended(door: Door, serve: Coroutine[Any, Any, None], left: threading.Event) -> None:
    failed: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(serve)
        except BaseException as error:
            failed.append(error)
        finally:
            left.set()

    thread = threading.Thread(target=work, name="mcp", daemon=True)
    thread.start()
    try:
        while not left.wait(1.0):
            pass
    finally:
        if (ended := door.close()) is not None:
            with suppress(Exception):
                ended.result(timeout=LAST_WORDS)
    thread.join(FLUSH)
    if failed and not isinstance(failed[0], SystemExit):
        raise failed[0]


class Gate:
    """Lets only requests with the token through, and tells a request when its client has gone."""

    def __init__(self, app: Any, *, token: str, hosts: Collection[str]) -> None:
        self._app, self._token, self._hosts = app, token.encode(), hosts

    async def __call__(self, scope: Any, receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Any]) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        status, reason = self._objection(Headers(scope=scope))
        if reason:
            headers = {"www-authenticate": "Bearer"} if status == 401 else {}
            await JSONResponse({"error": reason}, status, headers=headers)(scope, receive, send)
            return
        admit(scope)
        leaving, whole = Leaving(), False
        scope["reactree.leaving"] = leaving

        async def heard() -> Any:
            message = await receive()
            if message["type"] == "http.disconnect" and not whole:
                leaving.leave()
            return message

        async def sent(message: Any) -> None:
            nonlocal whole
            if message["type"] == "http.response.body" and not message.get("more_body"):
                whole = True
            await send(message)

        try:
            await self._app(scope, heard, sent)
        finally:
            if not whole:
                leaving.leave()

    def _objection(self, headers: Headers) -> tuple[int, str]:
        host, origin = headers.get("host", ""), headers.get("origin")
        if self._hosts and host not in self._hosts:
            return 403, f"this is not {host[:80]!r}"
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(errors="replace"), self._token):
            return 401, "the token is missing or wrong: send 'Authorization: Bearer TOKEN'"
        if origin is not None and origin != f"http://{host}":
            return 403, "a page from elsewhere may not run the robot"
        return 0, ""
