"""Asks a planner's own first prompt, cold and cached, and measures it against the context and the time limit."""

from __future__ import annotations

from dataclasses import dataclass, replace

from reactree_ros.agent.turns import ToldStart, Turn
from reactree_ros.llm.check.asking import Asking
from reactree_ros.llm.check.questions import Lesson
from reactree_ros.llm.port import NoAnswerInTime, PromptTooLong, Reply

#: How often a cold prompt is asked that comes too late; a server goes on from where it was, and each time is longer.
_TRIES = 3
#: Tokens that a node's own turns soon take.
ROOM = 1500


@dataclass(frozen=True)
class FirstPrompt:
    """What was measured of a first prompt.

    Attributes:
        start: What it begins with, as far as it fits.
        cold: The reply to it, and its seconds, as no cache knew it.
        cached: The reply to the same again, and its seconds.
        left_out: How many of its in-context examples did not fit.
        excess: How many tokens too long the whole prompt is; 0: it fits.
        context: Length of the context, as the refusal says; 0: nothing was refused.
        late: Why the first reply came too late, and was asked for again; empty: it did not.
    """

    start: Turn
    cold: tuple[Reply, float]
    cached: tuple[Reply, float]
    left_out: int = 0
    excess: int = 0
    context: int = 0
    late: str = ""

    @property
    def tokens(self) -> int | None:
        """Tokens of the prompt that was asked; None if nobody counts them."""
        reply = self.cold[0]
        return reply.prompt_tokens if reply.longest_prompt is None else reply.longest_prompt


def ask_first(asking: Asking, lesson: Lesson) -> FirstPrompt:
    """Ask the first prompt twice, without those examples that do not fit.

    Raises:
        LanguageModelError: There is no reply.
    """
    start, *rest = lesson.first
    start, excess, context, late, left_out = asking.marked(start), 0, 0, "", 0
    tries = 1
    while True:
        turns = (start, *rest)
        try:
            cold = asking.ask(turns, lesson.may_say, max_tokens=lesson.max_tokens)
            break
        except PromptTooLong as error:
            excess, context = excess or error.excess, error.context
            if not (isinstance(start, ToldStart) and start.examples):
                raise
            start, left_out = replace(start, examples=start.examples[:-1]), left_out + 1
            asking.tell(f"the planner's first prompt: {error.excess} tokens too long; again with one example less")
        except NoAnswerInTime as error:
            late = late or str(error)
            if tries == _TRIES:
                raise
            tries += 1
            asking.tell(f"the planner's first prompt: {error}; again, with more time")
    asking.tell(f"the planner's first prompt, cold: {cold[1]:.1f} s")
    cached = asking.ask(turns, lesson.may_say, max_tokens=lesson.max_tokens)
    asking.tell(f"the planner's first prompt, cached: {cached[1]:.1f} s")
    return FirstPrompt(start, cold, cached, left_out, excess, context, late)
