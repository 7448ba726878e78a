"""Asks a language model one request after the other, and says how far it is."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from reactree_ros.agent.text import shortened_line
from reactree_ros.agent.turns import About, Told, ToldStart, Turn
from reactree_ros.background.pending import give_up_after
from reactree_ros.llm.chat import Examples
from reactree_ros.llm.check.questions import Mark, Question
from reactree_ros.llm.port import DecisionRequest, FreeText, LanguageModel, MaySay, NoAnswerInTime, Reply
from reactree_ros.llm.waiting import shown_while

#: Longest wait for a reply that comes as fast as usual, in seconds.
PATIENCE = 300.0
_LONGEST = 60  # of a reply that is shown, in characters


@dataclass(frozen=True)
class Way:
    """A way to ask.

    Attributes:
        examples: How in-context examples stand in a chat; a model that does not chat has them as text.
        held: Whether the reply is held to what is allowed.
    """

    examples: Examples
    held: bool = False

    def __str__(self) -> str:
        """Say it in a few words."""
        return f"as {self.examples}, {'held' if self.held else 'free'}"


@dataclass(frozen=True)
class Score:
    """What the replies to some questions were worth."""

    marks: tuple[Mark, ...] = ()

    @property
    def asked(self) -> int:
        """How many there were."""
        return len(self.marks)

    @property
    def readable(self) -> int:
        """How many were decisions."""
        return sum(mark.readable for mark in self.marks)

    @property
    def allowed(self) -> int:
        """How many were allowed."""
        return sum(mark.allowed for mark in self.marks)

    @property
    def right(self) -> int:
        """How many were right."""
        return sum(mark.right for mark in self.marks)


class Asking:
    """Asks requests that begin alike, in a way that no prompt cache knows yet.

    Args:
        model: Is asked.
        show: Shows what is waited for.
        tell: Tells what came.
        clock: Seconds, never going back.
    """

    def __init__(
        self,
        model: LanguageModel,
        show: Callable[[str], object],
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model, self._show, self.tell, self._clock = model, show, tell, clock
        self._mark = f"Trial {uuid.uuid4()}."
        self._asked = 0

    def marked(self, start: Turn) -> Turn:
        """Return the start of a prompt with a mark before it, which makes its first request cold for every cache."""
        if isinstance(start, ToldStart):
            return replace(start, system=f"{self._mark}\n{start.system}")
        return replace(start, text=f"{self._mark}\n{start.text}")

    def greet(self) -> None:
        """Say hello, so that a server that is tried with its first prompt is tried with a short one."""
        self.ask((Told("Hello"),), FreeText(), max_tokens=1)

    def ask(self, turns: Sequence[Turn], may_say: MaySay, **more: object) -> tuple[Reply, float]:
        """Ask once; returns the reply and how long its first request took, in seconds.

        Raises:
            LanguageModelError: There is none.
        """
        self._asked += 1
        asked = DecisionRequest(tuple(turns), may_say, id=f"check {self._asked}", **more)  # type: ignore[arg-type]
        patience = PATIENCE * self.model.slowness(asked)
        begin = self._clock()
        pending = self.model.decide(replace(asked, patience=patience))
        give_up_after(pending, patience, lambda: NoAnswerInTime(f"no answer within {patience:.0f} s"))
        try:
            shown_while(pending, self.model, self._show)
            reply = pending.result()
        finally:
            pending.cancel()
        seconds = self._clock() - begin
        return reply, seconds - sum(one.seconds for one in reply.attempts[1:])

    def score(self, start: ToldStart, questions: Iterable[Question], way: Way, what: str) -> Score:
        """Ask questions in a way; errors as of :meth:`ask`."""
        begin: Turn = start if way.examples == "turns" else Told(start.text, About.SYSTEM)
        marks: list[Mark] = []
        for question in questions:
            turns, may_say = (begin, *question.turns), question.may_say(held=way.held)
            reply, seconds = self.ask(turns, may_say, begun=question.begun, max_tokens=question.max_tokens)
            mark = question.mark(reply.text, cut=reply.cut)
            marks.append(mark)
            said = shortened_line(mark.said, _LONGEST)
            self.tell(f"{what} ({way}), {len(marks)}: {question.worth(mark)}, {seconds:.1f} s: {said!r}")
        return Score(tuple(marks))
