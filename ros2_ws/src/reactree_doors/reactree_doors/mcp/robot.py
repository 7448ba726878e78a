"""The port to a robot that clients run, be it in this process or behind ROS nodes, and what it does for a client."""

from __future__ import annotations

import abc
import base64
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pydantic import create_model

from reactree_ros.agent.picture import PICTURES, Picture
from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.person.desk import Desk
from reactree_ros.person.port import Answer, NobodyAnswers, Question
from reactree_ros.plugins.settings import Settings
from reactree_ros.record.moment import Moment
from reactree_ros.record.reader import RecordError
from reactree_ros.record.schema import Event
from reactree_ros.record.verdict import Verdict
from reactree_ros.tree.options import RunOptions
from reactree_ros.view.terminal import event_lines, tree_rows
from reactree_ros.world.port import Household, Observation

#: The options of a run that a client may lower.
LIMITED = ("max_decisions", "max_steps", "max_prompt_tokens", "max_output_tokens", "max_seconds", "max_cost")
#: Most lines of news that wait for a client that does not read; the oldest go first.
MOST_NEWS = 1000

_OPTIONS: dict[str, Any] = {name: (one.annotation, one) for name, one in RunOptions.model_fields.items()}
#: What a run may take, as a client says it; 0: the server's own limit.
Limits = create_model(
    "Limits",
    __base__=Settings,
    __doc__="What a run may take; a limit of the server that is lower holds instead.",
    **{name: _OPTIONS[name] for name in LIMITED},
)


def lowered(given: Mapping[str, Any], own: Mapping[str, Any], household: Household) -> dict[str, Any]:
    """Return the limits that a client has given, where the server's or the household's are not lower."""
    least = {name: own[name] or getattr(household, name, 0) or given[name] for name in LIMITED}
    return {name: min(given[name], least[name]) for name in LIMITED if given[name]}


class Questions(Desk):
    """The desk with the questions of the robot to the client that it works for."""

    def __init__(self) -> None:
        super().__init__()
        # says why nobody can confirm a skill now; empty: somebody can
        self.objection: Callable[[], str] = lambda: "no client is there"
        self.changed: Callable[[], object] = lambda: None  # a question is asked or no longer open; from any thread

    def ask(self, question: Question) -> Pending[Answer]:
        """Keep a question; whether a skill may be carried out is asked only if a person will see it."""
        if question.skill and (objection := self.objection()):
            return Pending.failed(NobodyAnswers(objection))
        answer = super().ask(question)
        answer.add_done_callback(lambda _: self.changed())
        self.changed()
        return answer


class Run(Protocol):
    """A run under way; every method returns at once, and raises a UserError if it cannot be done."""

    ended: Pending[Verdict]

    def cancel(self) -> None: ...
    def pause(self) -> None: ...
    def go_on(self) -> None: ...


class Robot(abc.ABC):
    """Does one thing at a time; every call returns at once."""

    questions: Questions  # its questions to whoever it works for

    @property
    @abc.abstractmethod
    def household(self) -> Household:
        """Its skills, without those that the skill policy denies."""

    @abc.abstractmethod
    def begin(self, instruction: str, limits: Settings, take: Callable[[Event], None]) -> Run: ...

    @abc.abstractmethod
    def execute(self, skill: str) -> Pending[Observation]:
        """Carry out a skill, as far as the skill policy lets it; cancelling stops it."""

    @abc.abstractmethod
    def observe(self) -> Pending[Observation]: ...

    @abc.abstractmethod
    def pictures(self) -> Pending[Sequence[Picture]]: ...

    @abc.abstractmethod
    def at_rest(self) -> Pending[None]: ...

    @abc.abstractmethod
    def halted(self) -> str: ...

    @property
    @abc.abstractmethod
    def record(self) -> Path | None: ...

    def map(self) -> Any:
        """Return the map of the house that is kept from run to run, for JSON; None if none is."""
        return None

    def stop_others(self) -> bool:
        """Stop what the robot does for others than this server's clients; returns whether there was something."""
        return False


# ---------------------------------------------------------------------- what it does


@dataclass(frozen=True)
class Report:
    said: str  # what this server says of it, in a line
    seen: str = ""  # what the world or the language model said: data
    well: bool = True  # whether it did what was asked for
    data: dict[str, Any] = field(default_factory=dict)  # the same as `said` for programs
    observed: dict[str, Any] = field(default_factory=dict)  # more that others said, for programs: data
    pictures: Sequence[tuple[Picture, bytes]] = ()  # what was seen, with the bytes


@dataclass(frozen=True)
class Shot:
    """A picture that was taken."""

    taken: float  # by the monotonic clock
    id: str
    media: str
    data: Callable[[], bytes | None]  # None: its bytes are not kept any more


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
        self._coming: deque[Event] = deque()  # what has happened and is not noted yet
        self._noting = threading.Lock()  # whoever notes what happens, or draws it
        self._news: deque[tuple[int, str]] = deque(maxlen=MOST_NEWS)
        self._told = 0
        self._moment = Moment()
        self.last_seen = ""  # what it saw last, as text
        self.shot: Shot | None = None  # the last picture that its events tell of
        self.watched: Callable[[], object] = lambda: None  # whoever watches is told by this, at each news
        self._wakes: list[tuple[Callable[[], object], bool]] = []
        self.ended.add_done_callback(lambda _: self.wake())

    # ------------------------------------------------------------------ who follows it

    @contextmanager
    def followed(self, wake: Callable[[], object], *, asks: bool) -> Iterator[None]:
        """Follow it: ``wake`` is called at each news, from any thread."""
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
        return any(asks for _, asks in self._wakes)

    def wake(self) -> None:
        with self._lock:
            wakes = [wake for wake, _ in self._wakes]
        for wake in (self.watched, *wakes):
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
        with self._lock:
            self.why = self.why or why
            stop = self._stop
        if stop is not None and not self.ended.done():
            with suppress(UserError):  # it has ended meanwhile
                stop()

    # ------------------------------------------------------------------ what happens

    def take(self, event: Event) -> None:
        """Take an event; it waits for nobody, also not for who draws the tree: they note it after that."""
        self._coming.append(event)
        self._note_new()
        self.wake()

    def _note_new(self) -> None:
        while self._coming and self._noting.acquire(blocking=False):
            try:
                self._note_all()
            finally:
                self._noting.release()

    def _note_all(self) -> None:
        while self._coming:
            event = self._coming.popleft()
            with suppress(RecordError):  # of another version, over ROS
                self._moment.apply(event)
                self._note(event)

    @contextmanager
    def _noted(self) -> Iterator[Moment]:
        with self._noting:
            self._note_all()
            yield self._moment
        self._note_new()

    def _note(self, event: Event) -> None:
        if event["e"] == "held":
            self.paused = bool(event["reason"])
        for line in event_lines(self._moment, event):
            self._told += 1
            self._news.append((self._told, f"[{self._moment.decisions}] {line.text}"))
        if event["e"] == "observation":
            self.last_seen = event["text"]
            if pictures := event.get("pictures"):
                id, media = pictures[-1]["id"], pictures[-1]["media"]
                self.shot = Shot(time.monotonic(), id, media, lambda: self._bytes_of(id, media))

    def news_after(self, number: int) -> list[tuple[int, str]]:
        with self._noted():
            return [one for one in self._news if one[0] > number]

    @property
    def counts(self) -> dict[str, int]:
        with self._noted() as moment:
            return {"decisions": moment.decisions, "steps": moment.steps}

    def tree(self) -> str:
        with self._noted() as moment:
            return "\n".join(row.plain for row in tree_rows(moment, folded=False))

    def known(self) -> dict[str, Any]:
        with self._noted() as moment:
            seen = [*moment.known.values()]
            things = [
                {"thing": f"{one.word} {one.instance}".removesuffix(" 0"), "room": one.room, "place": one.place}
                | ({"states": list(one.states)} if one.states else {})
                | ({"held": True} if one.held else {})
                for one in seen
            ]
            return {"rooms": list(moment.rooms), "things": things}

    @property
    def events(self) -> int:
        return self._moment.count + len(self._coming)

    def _bytes_of(self, id: str, media: str) -> bytes | None:
        with self._noted() as moment:
            data = moment.pictures.get(id)
        return base64.b64decode(data) if data is not None else PICTURES.data(Picture(id, media, 1, 1, 1))
