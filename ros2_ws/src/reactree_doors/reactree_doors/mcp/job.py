"""What the robot does for a client: one run, one skill or one look, with what came of it so far."""

from __future__ import annotations

import base64
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from reactree_doors.mcp.robot import Run
from reactree_ros.agent.picture import PICTURES, Picture
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import RecordError
from reactree_ros.record.schema import Event
from reactree_ros.view.terminal import event_lines, tree_rows

#: Most lines of news that wait for a client that does not read; the oldest go first.
MOST_NEWS = 1000


@dataclass(frozen=True)
class Report:
    said: str  # what this server says of it, in a line
    seen: str = ""  # what the world or the language model said: data
    well: bool = True  # whether it did what was asked for
    data: dict[str, Any] = field(default_factory=dict)  # the same as `said` for programs
    observed: dict[str, Any] = field(default_factory=dict)  # more that others said, for programs: data
    pictures: Sequence[tuple[Picture, bytes]] = ()  # what was seen, with the bytes


class Job:
    """One thing that the robot does for a client. Thread-safe."""

    def __init__(self, what: str, client: str, *, alone: bool = False) -> None:
        self.what, self.client = what, client
        self.alone = alone  # whether it goes on if no client follows it
        self.began = time.monotonic()
        self.ended: Pending[Report] = Pending()  # settled with its end; nothing of it moves any more then
        self.run: Run | None = None  # the run, if it is one
        self.why, self.paused = "", False  # why it was stopped
        self._stop: Callable[[], object] | None = None
        self._lock = threading.Lock()
        self._news: deque[tuple[int, str]] = deque(maxlen=MOST_NEWS)
        self._told = 0
        self._moment = Moment()
        self.last_seen = ""  # what it saw last, as text
        self._picture: tuple[str, str] | None = None  # its id and what it is
        self._wakes: list[tuple[Callable[[], object], bool]] = []
        self.ended.add_done_callback(lambda _: self.wake())

    # ------------------------------------------------------------------ who follows it

    @contextmanager
    def followed(self, wake: Callable[[], object], *, asks: bool) -> Iterator[None]:
        """Follow it: ``wake`` is called at each news, from any thread.

        Args:
            asks: Whether its follower can ask a person.
        """
        follower = (wake, asks)
        with self._lock:
            self._wakes.append(follower)
        try:
            yield
        finally:
            with self._lock:
                self._wakes.remove(follower)

    @property
    def is_followed(self) -> bool:
        return bool(self._wakes)

    @property
    def asks(self) -> bool:
        """Whether somebody who follows it can ask a person."""
        return any(asks for _, asks in self._wakes)

    def wake(self) -> None:
        with self._lock:
            wakes = [wake for wake, _ in self._wakes]
        for wake in wakes:
            wake()

    # ------------------------------------------------------------------ how it is stopped

    def stops_by(self, stop: Callable[[], object]) -> None:
        """Say how it is stopped; it is at once, if that was asked for before."""
        with self._lock:
            self._stop = stop
            late = bool(self.why)
        if late:
            stop()

    def stop(self, why: str) -> None:
        """Stop it; the first reason counts."""
        with self._lock:
            self.why = self.why or why
            stop = self._stop
        if stop is not None and not self.ended.done():
            with suppress(UserError):  # it has ended meanwhile
                stop()

    # ------------------------------------------------------------------ what happens

    def take(self, event: Event) -> None:
        """Take in an event of the run's record."""
        with self._lock, suppress(RecordError):  # of another version, over ROS
            self._moment.apply(event)
            self._note(event)
        self.wake()

    def _note(self, event: Event) -> None:
        if event["e"] == "held":
            self.paused = bool(event["reason"])
        for line in event_lines(self._moment, event):
            self._told += 1
            self._news.append((self._told, f"[{self._moment.decisions}] {line.text}"))
        if event["e"] == "observation":
            self.last_seen = event["text"]
            if pictures := event.get("pictures"):
                self._picture = pictures[-1]["id"], pictures[-1]["media"]

    def news_after(self, number: int) -> list[tuple[int, str]]:
        """Return the news after one of a number, from 1."""
        with self._lock:
            return [one for one in self._news if one[0] > number]

    @property
    def counts(self) -> dict[str, int]:
        return {"decisions": self._moment.decisions, "steps": self._moment.steps}

    def tree(self) -> str:
        """Return its tree in lines; empty if it has none."""
        with self._lock:
            return "\n".join(row.plain for row in tree_rows(self._moment, folded=False))

    def known(self) -> dict[str, Any]:
        with self._lock:
            seen = [one.seen for one in self._moment.known.values()]
            things = [
                {"thing": f"{one.word} {one.instance}".removesuffix(" 0"), "room": one.room, "place": one.place}
                | ({"states": list(one.states)} if one.states else {})
                | ({"held": True} if one.held else {})
                for one in seen
            ]
            return {"rooms": list(self._moment.rooms), "things": things}

    def picture(self) -> tuple[str, bytes] | None:
        """Return what its last picture is, and its bytes; None if there is none."""
        with self._lock:
            if self._picture is None:
                return None
            id, media = self._picture
            data = self._moment.pictures.get(id)
        if data is not None:
            return media, base64.b64decode(data)
        kept = PICTURES.data(Picture(id, media, 1, 1, 1))
        return None if kept is None else (media, kept)
