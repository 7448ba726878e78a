"""A pooler in transaction mode, as PgBouncer: after each transaction a client gets another session of the server."""

from __future__ import annotations

import contextlib
import queue
import socket
import threading
from typing import Any

#: What a session is to have between two transactions: nothing of whoever had it before.
LEFT_BEHIND = """SELECT concat_ws(', ',
    (SELECT string_agg(name, ', ') FROM pg_settings WHERE source = 'session' AND name <> 'application_name'),
    (SELECT string_agg(statement, ', ') FROM pg_prepared_statements),
    (SELECT string_agg(locktype, ', ') FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'),
    (SELECT string_agg(relname, ', ') FROM pg_class WHERE relpersistence = 't'),
    (SELECT string_agg(channel, ', ') FROM pg_listening_channels() AS channel))"""


class TransactionPool:
    """Stands on a free port before a server on this machine.

    Every client logs in to a session of the server; from then on the session is anybody's, a transaction at a time.

    Attributes:
        left: What was found in a session between two transactions.
    """

    def __init__(self, port: int) -> None:
        self._upstream, self._sessions, self._made = ("127.0.0.1", port), queue.Queue[socket.socket](), list[Any]()
        self.left: list[str] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        for one in (self._listening, *self._made):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._made.append(client)
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError):
            session = socket.create_connection(self._upstream)
            self._made.append(session)
            while True:  # startup, which has no type; requests for encryption are refused
                length = _exactly(client, 4)
                body = _exactly(client, int.from_bytes(length, "big") - 4)
                if body[:2] != b"\x04\xd2":
                    break
                client.sendall(b"N")
            session.sendall(length + body)
            while not self._back(session, client):  # to log in is a dialogue
                session.sendall(_message(client))
            self._sessions.put(session)
            while (said := _message(client))[:1] != b"X":
                session = self._sessions.get()
                session.sendall(said)
                while not self._back(session, client, until=said):
                    session.sendall(said := _message(client))
                self._look(session)
                self._sessions.put(session)

    def _back(self, session: socket.socket, client: socket.socket, until: bytes = b"p") -> bool:
        """Pass on what the server says to what was said; return whether no transaction is open."""
        if until[:1] not in b"pQS":
            return False  # it answers only to what ends a request
        while True:
            said = _message(session)
            client.sendall(said)
            if said[:1] == b"Z":
                return said[5:6] == b"I"
            if said[:1] == b"R" and int.from_bytes(said[5:9], "big") in (3, 5, 10, 11):
                return False

    def _look(self, session: socket.socket) -> None:
        query = LEFT_BEHIND.encode() + b"\0"
        session.sendall(b"Q" + (len(query) + 4).to_bytes(4, "big") + query)
        while (said := _message(session))[:1] != b"Z":
            if said[:1] == b"E" or (said[:1] == b"D" and said[11:]):
                self.left.append(said[11:].decode(errors="replace"))


def _message(peer: socket.socket) -> bytes:
    head = _exactly(peer, 5)
    return head + _exactly(peer, int.from_bytes(head[1:], "big") - 4)


def _exactly(peer: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        if not (more := peer.recv(count - len(got))):
            raise EOFError
        got += more
    return got
