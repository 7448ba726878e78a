"""Clients without the token that open many connections, and ask for nothing whole."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

#: What each of them says, and no more.
HALVES = {
    "nothing": b"",
    "half a line": b"GET / HT",
    "half of the headers": b"GET / HTTP/1.1\r\nHost: x\r\n",
    "a refused request, and half of another": b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n",
    "half of a body": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
}


def half(address: tuple[str, int], said: bytes, source: str = "127.0.0.1") -> socket.socket:
    """Connect, and say a part of a request."""
    connected = socket.create_connection(address, timeout=60, source_address=(source, 0))
    with contextlib.suppress(ConnectionError):  # it is closed already
        connected.sendall(said)
    return connected


@contextlib.contextmanager
def flood(address: tuple[str, int], count: int, source: str = "127.0.0.1") -> Iterator[list[socket.socket]]:
    """Hold many connections of all kinds."""
    kinds = list(HALVES.values())
    held = [half(address, kinds[number % len(kinds)], source) for number in range(count)]
    try:
        yield held
    finally:
        for one in held:
            one.close()


def is_closed(connected: socket.socket) -> bool:
    """Whether the server closes a connection; waits for it."""
    with contextlib.suppress(ConnectionError):
        while connected.recv(1 << 16):
            pass
    return True
