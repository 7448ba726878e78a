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

#: Longest wait for a reply that comes as fast as usual, in seconds, unless the model's own limit is longer.
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
        patience: Longest wait for a reply, in seconds.

    Attributes:
        planned: About how many requests there will be.
        answered: How many were answered.
        waited: How long the last one was waited for, in seconds.
    """

    def __init__(
        self,
        model: LanguageModel,
        show: Callable[[str], object],
        tell: Callable[[str], object],
        clock: Callable[[], float] = time.monotonic,
        *,
        patience: float = PATIENCE,
    ) -> None:
        self.model, self._show, self._tell, self._clock, self._patience = model, show, tell, clock, patience
        self._mark = f"Trial {uuid.uuid4()}."
        self.planned = self.answered = self._asked = 0
        self.waited = 0.0

    def tell(self, words: str) -> None:
        """Tell what came, and how far the check is."""
        self._tell(f"{self._how_far()}: {words}")

    def _how_far(self) -> str:
        return f"{self._asked} of {max(self._asked, self.planned)}"

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
        patience = self._patience * self.model.slowness(asked)
        begin = self._clock()
        pending = self.model.decide(replace(asked, patience=patience))
        give_up_after(pending, patience, lambda: NoAnswerInTime(f"no answer within {patience:.0f} s"))
        try:
            shown_while(pending, self.model, lambda words: self._show(f"{self._how_far()}: {words or 'asking'}"))
            reply = pending.result()
        finally:
            pending.cancel()
            self.waited = self._clock() - begin
        self.answered += 1
        return reply, self.waited - sum(one.seconds for one in reply.attempts[1:])

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
