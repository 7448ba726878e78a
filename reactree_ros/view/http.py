"""Serves HTTP behind a token: what the page and the MCP server have in common.

Whoever has not shown the token yet may hold few connections, and none for long: files that are open at once have a
bound, and a `stop` has to come through.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import Counter
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from reactree_ros.errors import UserError
from reactree_ros.files.secrecy import is_loopback

_log = logging.getLogger(__name__)
_LAST_PORT = 65535
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
#: Most connections that have not shown the token, and for how long each may, in seconds.
MOST_UNKNOWN, PATIENCE = 128, 10.0
#: Seconds between two lines in the log about a flood of them.
_RARELY = 60.0
_ADMIT = "reactree.admit"


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a UserError if the interface or the port is not available."""
    if not 0 <= port <= _LAST_PORT:
        raise UserError(f"--port is {port}; it must be from 0 (a free one) to {_LAST_PORT}")
    try:
        (family, kind, proto, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        found = socket.socket(family, kind, proto)
        if os.name == "posix":
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen()
    except OSError as error:
        raise UserError(f"{host}:{port} is not available ({error.strerror or error}); choose another --port") from error
    return found


def address_of(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def own_hosts(listening: socket.socket) -> list[str]:
    """Return what a request may call a server that only this machine reaches; empty: anything, as others reach it."""
    host, port = listening.getsockname()[:2]
    return [f"{name}:{port}" for name in _LOOPBACK] if is_loopback(host) else []


def server_of(app: Any, **options: Any) -> uvicorn.Server:
    """Return a server of an application, which calls :func:`admit` for each request with the token."""
    config = uvicorn.Config(
        app,
        http=_Connection,
        backlog=MOST_UNKNOWN,  # so many are accepted at once
        log_level="error",
        access_log=False,
        timeout_graceful_shutdown=1,
        ws="none",
        **options,
    )
    return uvicorn.Server(config)


def admit(scope: Any) -> None:
    """Let the connection of a request stay: it has shown the token."""
    scope["state"][_ADMIT]()


class _Connection(H11Protocol):
    """A connection that is closed unless it shows the token in time, or sooner if there are too many such ones.

    A new connection always gets in: the oldest goes, of the peer that has the most.
    """

    _said = float("-inf")

    def __init__(self, *, app_state: dict[str, Any], **given: Any) -> None:
        super().__init__(app_state={**app_state, _ADMIT: self._admit}, **given)
        self._until: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._until = self.loop.call_later(PATIENCE, transport.abort)
        unknown = [one for one in self.connections if isinstance(one, _Connection) and one._is_unknown]
        if len(unknown) > MOST_UNKNOWN:
            held = Counter(one._peer for one in unknown)
            last = max(unknown, key=lambda one: (held[one._peer], -one._since))
            last.transport.abort()
            if self.loop.time() - _Connection._said > _RARELY:
                _Connection._said = self.loop.time()
                _log.warning(
                    "more than %d connections to %s without the token, most of them from %s: the oldest are closed",
                    MOST_UNKNOWN,
                    "%s:%s" % (self.server or ("the server", "")),
                    last._peer,
                )

    def connection_lost(self, exc: Exception | None) -> None:
        self._admit()
        super().connection_lost(exc)

    @property
    def _is_unknown(self) -> bool:
        return self._until is not None and not self.transport.is_closing()

    @property
    def _peer(self) -> str:
        return self.client[0] if self.client else ""

    def _admit(self) -> None:
        if self._until is not None:
            self._until.cancel()
            self._until = None
