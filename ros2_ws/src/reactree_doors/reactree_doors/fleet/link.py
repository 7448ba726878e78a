"""Brings what a robot learnt to its fleet, and what the fleet learnt to the robot, while the server can be reached."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from reactree_doors.fleet.own import OwnMemory
from reactree_doors.fleet.server import Refused, Server, Unreachable
from reactree_ros.memory.embedding import Embedder, checked_vectors
from reactree_ros.memory.port import EpisodicMemoryError

_log = logging.getLogger(__name__)
#: Most experiences of others that a robot keeps for when it is offline.
MOST_COPIES = 10_000
#: Seconds until the server is tried again: at first, and at most; and until one looks for what is new.
_SOON, _LATE, _LOOK = 1.0, 30.0, 30.0
#: Seconds that whoever adds a run waits for the fleet to have it; it is safe before.
_DELIVERY = 10.0
_CLOSING = 5.0
_COPIED, _EMBEDDED = "copied", "embedded"


class Link:
    """A thread that delivers, and two connections: one of its own, and one to read by."""

    def __init__(self, connect: Callable[[], Server], own: OwnMemory, embedder: Embedder) -> None:
        self.server: Server | None = None
        self._connect, self._own, self._embedder = connect, own, embedder
        self._sender: Server | None = None
        self._said = False
        self._refused: list[str] = []  # to be tried once more
        self._copies = 0
        self._changed = threading.Condition()
        self._closing = False
        self._asked = self._served = 0
        self._thread = threading.Thread(target=self._run, name="fleet-memory", daemon=True)

    def open(self) -> None:
        try:
            self._reconnect()
        except Unreachable as error:
            self._say(error)
        self._copies, self._refused = self._own.copies(), self._own.refused()
        self._thread.start()

    def deliver(self) -> None:
        """Wait until what waits is delivered, if the server can be reached; for some seconds."""
        with self._changed:
            self._asked += 1
            ticket = self._asked
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._served >= ticket or self.server is None or self._closing, _DELIVERY)

    def lost(self, server: Server, error: EpisodicMemoryError) -> None:
        with self._changed:
            if self.server is server:
                self.server = None
                self._changed.notify_all()
                self._say(error)
        server.close()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        for server in (self.server, self._sender):
            if server is not None:
                server.hurry()
        if self._thread.is_alive():
            self._thread.join(_CLOSING)
        self._drop()

    def _run(self) -> None:
        pause = _SOON
        while not self._closing:
            with self._changed:
                serving = self._asked
            try:
                if self._sender is None or self.server is None:
                    self._drop()
                    self._reconnect()
                self._send_all()
                self._serve(serving)
                pause, self._said = _SOON, False
                if not (self._copy(self._sender) or self._embed(self._sender)):
                    self._wait(_LOOK, serving)
            except Exception as error:  # of the server, of the own file, of what embeds: nobody else delivers
                if self._closing:
                    return
                self._say(error)
                if self._sender is None or self._sender.closed:
                    self._drop()
                self._serve(serving)
                self._wait(pause)
                pause = min(2 * pause, _LATE)

    def _reconnect(self) -> None:
        with contextlib.ExitStack() as made:
            reader = made.enter_context(contextlib.closing(self._connect()))
            sender = made.enter_context(contextlib.closing(self._connect()))
            self._own.join(reader.fleet)
            self._own.mark()
            if lacking := sender.missing(self._own.known()):
                self._own.lacks(lacking)
            made.pop_all()
        with self._changed:
            self.server, self._sender = reader, sender

    def _drop(self) -> None:
        with self._changed:
            servers, self.server, self._sender = (self.server, self._sender), None, None
            self._changed.notify_all()
        for server in servers:
            if server is not None:
                server.close()

    def _send_all(self) -> None:
        for name in self._own.waiting():
            if self._closing:
                return
            self._send(name, again=False)
        while self._refused and not self._closing:
            self._send(self._refused[0], again=True)
            del self._refused[0]

    def _send(self, name: str, *, again: bool) -> None:
        assert self._sender is not None
        try:
            self._sender.add(self._own.run(name))
        except Exception as error:
            if isinstance(error, EpisodicMemoryError) and not isinstance(error, Refused):
                raise  # it is not about this run
            if not again:
                self._own.refuses(name)
                _log.warning(
                    "the fleet does not get run %s: %s; this robot keeps it in %s, goes on with it, and offers it once "
                    "more whenever it starts; `reactree memory export` reads it from that file",
                    *(name, error, self._own.path),
                )
        else:
            self._own.delivered(name)

    def _copy(self, server: Server | None) -> bool:
        assert server is not None
        if self._copies >= MOST_COPIES:
            return False
        if (after := self._own.noted(_COPIED)) is None:
            after = str(max(0, server.last() - MOST_COPIES))
        if (found := server.run_after(int(after))) is None:
            return False
        name, last, run, vectors = found
        if run:
            lacking = [one for one in self._own.unknown_subgoals(each.subgoal for each in run) if one not in vectors]
            if lacking:
                vectors |= dict(zip(lacking, checked_vectors(self._embedder, lacking), strict=True))
            self._copies += len(run)
            self._own.copy(name, run, vectors)
        self._own.note(_COPIED, last)
        return True

    def _embed(self, server: Server | None) -> bool:
        assert server is not None
        if (found := server.without_vectors(int(self._own.noted(_EMBEDDED) or 0))) is None:
            return False
        last, subgoals = found
        if subgoals:
            vectors = checked_vectors(self._embedder, list(subgoals.values()))
            server.add_vectors(dict(zip(subgoals, vectors, strict=True)))
        self._own.note(_EMBEDDED, last)
        return True

    def _serve(self, ticket: int) -> None:
        with self._changed:
            self._served = ticket
            self._changed.notify_all()

    def _wait(self, seconds: float, ticket: int | None = None) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._closing or (ticket is not None and (self._asked != ticket or self.server is None)),
                seconds,
            )

    def _say(self, error: Exception) -> None:
        if not self._said:
            self._said = True
            _log.warning("%s; until then %s is used, and delivered later", error, self._own.path)
