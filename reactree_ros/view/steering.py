"""Steering: a person pauses a run, takes single steps, says decisions, or cancels it."""

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
from reactree_ros.llm.port import Choice, DecisionRequest, FreeText, LanguageModel, Reply
from reactree_ros.person.desk import Desk, Open

#: Who answered, where a person said a decision.
A_PERSON = "a person"
#: By what way answers come.
BY = "page"
PAUSED = "somebody has paused it"


@dataclass(frozen=True)
class Asked:
    """A question to the person, or a skill that the person is to allow or to refuse.

    Attributes:
        number: Tells it from others: ``answer NUMBER`` is the command; of a skill ``yes`` is a yes, all else is none.
        text: The question.
        skill: The skill that is to be confirmed, in words, e.g. ``turn on stove 1``; empty: the model asks.
        reason: Why it is asked: the goal that it is asked for, or what the skill policy says.
        ends: When whoever asks waits no longer, in seconds since the epoch.
        asker: Who asks, where there are several who could; empty: the run.
    """

    number: int
    text: str
    skill: str
    reason: str
    ends: float
    asker: str = ""

    @classmethod
    def of(cls, one: Open | None) -> Asked | None:
        """Return what a page shows of a question; None where there is none."""
        if one is None:
            return None
        question = one.question
        return cls(one.number, question.text, question.skill, question.goal, one.ends, question.asker)


@dataclass(frozen=True)
class Course:
    """How a run is steered now.

    Attributes:
        paused: Whether nothing is decided until a person lets it go on.
        ended: Whether the run has ended, so that there is nothing to steer.
        notice: Why what a person wanted last was not done; empty where it was.
        commands: What a person can want of it.
        asked: What the person is asked now; None: nothing.
    """

    paused: bool = False
    ended: bool = False
    notice: str = ""
    commands: tuple[str, ...] = ("pause", "go on", "step", "say", "tell", "cancel")
    asked: Asked | None = None


class Helm(Protocol):
    """What steers runs for a page; all of it may be called from any thread and returns at once."""

    def course_of(self, record: Path) -> Course:
        """Return how the run of a record is steered now."""

    def commands(self, record: Path) -> Mapping[str, Callable[[str], object]]:
        """Return what a person can want of a record's run by name; each takes the person's words.

        They raise a :class:`UserError` where it cannot be done now.
        """


class Steering(LanguageModel):
    """Stands between a run and its language model, and lets a person decide when it goes on and what it says.

    The steering methods may be called from any thread and return at once. What a person says is read as the words of
    the model are; where it cannot be taken, the run stays paused and :attr:`course` says why.

    Args:
        model: Decides where no person does.
        desk: Has the questions that the person is to answer; None: nothing is asked.
        paused: Whether the run waits before its first decision.
    """

    def __init__(self, model: LanguageModel, desk: Desk | None = None, *, paused: bool = False) -> None:
        self._model, self._desk = model, desk
        self._lock = threading.Lock()
        self._episode: Episode | None = None
        self._left: int | None = 0 if paused else None  # decisions that are asked for until it pauses; None: no end
        self._words = ""
        self._said: Pending[str] = Pending.of("")  # what comes of the words
        self._notice = ""
        self._ended = False

    def follow(self, episode: Episode) -> None:
        """Steer an episode, whose language model this is."""
        with self._lock:
            self._episode = episode
            if self._left == 0:
                episode.pause(PAUSED)

    def ended(self) -> None:
        """Take in that the episode has ended."""
        with self._lock:
            self._ended = True
            self._said.succeed("the run has ended")

    @property
    def course(self) -> Course:
        """How the run is steered now."""
        asked = None if self._desk is None else Asked.of(self._desk.next)
        with self._lock:
            return Course(self._left == 0 and not self._ended, self._ended, self._notice, asked=asked)

    def course_of(self, record: Path) -> Course:
        """Return the course: there is one run."""
        return self.course

    def commands(self, record: Path) -> Mapping[str, Callable[[str], object]]:
        """See :meth:`Helm.commands`."""
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

    # ------------------------------------------------------------------ for the person

    def pause(self) -> None:
        """Let the run hold; what is in flight is cancelled."""
        with self._lock:
            self._running().pause(PAUSED)
            self._left, self._words = 0, ""
            self._said.succeed("the run was paused before they were taken")

    def go_on(self) -> None:
        """Let a paused run go on."""
        self._release(None)

    def step(self) -> None:
        """Let a paused run take one more decision."""
        self._release(1)

    def say(self, words: str) -> Pending[str]:
        """Let a paused run take a person's words for its next decision, then pause again.

        Returns:
            Why they are not taken, empty where they are, as soon as that is known.

        Raises:
            UserError: There are no words, or the run is not paused.
        """
        if not words.strip():
            raise UserError("there is nothing in it; say a decision, e.g. 'Act: open fridge 1'")
        with self._lock:
            if self._left != 0:
                raise UserError("the run is not paused; pause it first, so that the decision is the one that is meant")
        return self._release(1, words)

    def tell(self, words: str) -> None:
        """Tell the run something in the middle of it; see :meth:`Episode.hear`."""
        with self._lock:
            episode = self._running()
        episode.hear(words)

    def cancel(self) -> None:
        """Stop the run for good."""
        with self._lock:
            self._running().cancel()

    def _release(self, left: int | None, words: str = "") -> Pending[str]:
        with self._lock:
            self._running().resume()
            self._said.succeed("something else was wanted meanwhile")
            self._left, self._words, self._notice, self._said = left, words, "", Pending()
            return self._said

    def _running(self) -> Episode:
        if self._episode is None or self._ended:
            raise UserError("the run has ended; there is nothing to steer" if self._ended else "the run has not begun")
        return self._episode

    # ------------------------------------------------------------------ for the run

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Ask the person's words first, then the model; while no decision is due, nothing answers: the run is held."""
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
                return Pending.of(reply)
        return self._model.decide(request)

    def _held(self) -> Pending[Reply]:
        """Return what the hold, which begins with the next tick, breaks off."""
        if self._episode is not None:
            self._episode.pause(PAUSED)
        return Pending()

    def ready(self) -> Pending[None]:
        """Get the model ready."""
        return self._model.ready()

    def count_tokens(self, text: str) -> int | None:
        """Count tokens as the model does."""
        return self._model.count_tokens(text)

    def status(self) -> Mapping[str, str]:
        """Say how the model fares."""
        return self._model.status()

    def close(self) -> None:
        """Release what the model holds."""
        self._model.close()


def _reply(words: str, request: DecisionRequest) -> Reply:
    """Read a person's words as the model's are read; a free text is taken as it is.

    Raises:
        Unreadable: They are not what may be said now.
    """
    if isinstance(request.may_say, FreeText):
        return Reply(words, answered_by=A_PERSON)
    if isinstance(request.may_say, Choice):
        return Reply(read_choice(words, request.may_say.options), answered_by=A_PERSON)
    return Reply(words, said=read(words, request.may_say), answered_by=A_PERSON)
