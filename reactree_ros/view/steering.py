"""Steering: a person pauses a run, takes single steps, makes decisions, or cancels it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from reactree_ros.agent.reading import Unreadable, read, read_choice
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode
from reactree_ros.errors import UserError
from reactree_ros.llm.port import A_PERSON, Around, Choice, DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.person.desk import Desk, Open

#: The origin of answers.
BY = "page"
PAUSED = "somebody has paused it"


@dataclass(frozen=True)
class Asked:
    """A question to the person, or a skill to allow or refuse."""

    number: int  # ``answer NUMBER`` is the command
    text: str  # the question
    skill: str  # to confirm, in words, e.g. ``turn on stove 1``: only ``yes`` is a yes; empty if the model asks
    reason: str  # why it is asked: the goal, or the policy's reason
    ends: float  # when the asker stops waiting, in seconds since the epoch
    asker: str = ""  # who asks, if there are several robots; empty for the run

    @classmethod
    def from_open(cls, one: Open | None) -> Asked | None:
        if one is None:
            return None
        question = one.question
        return cls(one.number, question.text, question.skill, question.goal, one.ends, question.asker)


@dataclass(frozen=True)
class Course:
    paused: bool = False  # whether the run waits for a person to continue it
    ended: bool = False  # whether the run has ended
    notice: str = ""  # why the last command was not carried out; empty if it was
    commands: tuple[str, ...] = ("pause", "go on", "step", "say", "tell", "cancel")  # possible commands
    asked: Asked | None = None  # the question to the person; None if there is none


class Helm(Protocol):
    """Steers runs for a page. Thread-safe; every method returns at once."""

    def course_of(self, record: Path) -> Course:
        """Return the state of steering of a record's run."""

    def commands(self, record: Path) -> Mapping[str, Callable[[str], object]]:
        """Return the commands for a record's run by name, each for a person's words; one may raise a UserError."""


class Steering(Around):
    """Stands between a run and its language model, so that a person can pause the run and decide for the model.

    The steering methods are thread-safe and return at once. A person's words are read like the model's. If they are not
    allowed, the run stays paused and :attr:`course` says why. Without a desk nothing is asked.
    """

    def __init__(self, model: LanguageModel, desk: Desk | None = None, *, paused: bool = False) -> None:
        super().__init__(model)
        self._desk = desk
        self._lock = threading.Lock()
        self._episode: Episode | None = None
        self._left: int | None = 0 if paused else None  # steps until the next pause; None for no limit
        self._words = ""
        self._said: Pending[str] = Pending.ready("")  # the result of the person's words
        self._notice = ""
        self._ended = False

    def follow(self, episode: Episode) -> None:
        with self._lock:
            self._episode = episode
            episode.tell_of_undecided(self._skill_ended)
            if self._left == 0:
                episode.pause(PAUSED)

    def ended(self) -> None:
        with self._lock:
            self._ended = True
            self._said.succeed("the run has ended")

    @property
    def course(self) -> Course:
        asked = None if self._desk is None else Asked.from_open(self._desk.next)
        with self._lock:
            return Course(self._left == 0 and not self._ended, self._ended, self._notice, asked=asked)

    def course_of(self, record: Path) -> Course:
        return self.course  # there is only one run

    def commands(self, record: Path) -> Mapping[str, Callable[[str], object]]:
        commands: dict[str, Callable[[str], object]] = {
            "pause": lambda _: self.pause(),
            "go on": lambda _: self.go_on(),
            "step": lambda _: self.step(),
            "say": self.say,
            "tell": self.tell,
            "cancel": lambda _: self.cancel(),
        }
        if self._desk is not None and (one := self._desk.next) is not None:
            commands[f"answer {one.number}"] = partial(self._desk.answer, one.number, by=BY)
        return commands

    def pause(self) -> None:
        with self._lock:
            self._running().pause(PAUSED)
            self._left, self._words = 0, ""
            self._said.succeed("the run was paused before they were taken")

    def go_on(self) -> None:
        self._release(None)

    def step(self) -> None:
        self._release(1)

    def say(self, words: str) -> Pending[str]:
        if not words.strip():
            raise UserError("the decision is empty; type one, e.g. 'Act: done'")
        with self._lock:
            if self._left != 0:
                raise UserError("the run is not paused; pause it first, so that your words replace the right decision")
        return self._release(1, words)

    def tell(self, words: str) -> None:
        with self._lock:
            episode = self._running()
        episode.hear(words)

    def cancel(self) -> None:
        with self._lock:
            self._running().cancel()

    def _release(self, left: int | None, words: str = "") -> Pending[str]:
        with self._lock:
            self._running().resume()
            self._said.succeed("another command came first")
            self._left, self._words, self._notice, self._said = left, words, "", Pending()
            return self._said

    def _running(self) -> Episode:
        if self._episode is None or self._ended:
            raise UserError("the run has ended; there is nothing to steer" if self._ended else "the run has not begun")
        return self._episode

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        with self._lock:
            words, self._words = self._words, ""
            if self._left == 0:
                return self._held()
            if self._left is not None:
                self._left -= 1
            if words:
                try:
                    reply = _reply(words, request)
                except Unreadable as error:
                    self._left, self._notice = 0, str(error)
                    self._said.succeed(str(error))
                    return self._held()
                self._said.succeed("")
                return Pending.ready(reply)
        return self.model.decide(request)

    def _skill_ended(self) -> None:
        # a skill that nobody decided, as a routine's, is the step; words for a decision are dropped
        with self._lock:
            if self._left is None:
                return
            if self._words:
                self._words, self._notice = "", "a routine's skill came first; tell the run something to end it"
                self._said.succeed(self._notice)
            self._left = 0
            self._running().pause(PAUSED)

    def _held(self) -> Pending[Reply]:
        # the pause, which begins with the next tick, will cancel this reply
        if self._episode is not None:
            self._episode.pause(PAUSED)
        return Pending()


def _reply(words: str, request: DecisionRequest) -> Reply:
    # read like the model's words; a free text is taken unchanged
    if isinstance(request.may_say, FreeText):
        return Reply(words, answered_by=A_PERSON)
    if isinstance(request.may_say, Choice):
        return Reply(read_choice(words, request.may_say.options), answered_by=A_PERSON)
    return Reply(words, said=read(words, request.may_say), answered_by=A_PERSON)
