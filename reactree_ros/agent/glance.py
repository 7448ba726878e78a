"""Glances: what a second language model, the eyes of a run, was asked about a picture, and what it said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reactree_ros.agent.foreign import cleaned
from reactree_ros.agent.picture import LONGEST_WORDS
from reactree_ros.agent.text import LONGEST_ERROR, bounded, in_one_line

#: What may be answered to a question with an answer. The last: the picture does not show it.
YES, NO, CANNOT_SEE = ANSWERS = "yes", "no", "cannot see"
#: The most looks at one thing.
MOST_LOOKS = 9


@dataclass(frozen=True)
class Glance:
    """A question about a picture, and what came of it.

    Attributes:
        box: Where something is: left, top, right and bottom, as shares of the picture's width and height.
    """

    question: str
    answer: str = ""  # one of :data:`ANSWERS`, or what was said; empty: nobody could look
    picture: str = ""  # the picture's id
    box: tuple[float, ...] = ()
    error: str = ""  # why nobody could look; empty: somebody did
    answered_by: str = ""  # who looked
    prompt_tokens: int | None = None  # tokens of the question with its picture; None if the model does not count
    cached_tokens: int | None = None  # how many of them a prefix cache served; None if unknown
    output_tokens: int | None = None  # generated tokens; None if the model does not count
    picture_tokens: int = 0  # about how many tokens of the question are the picture's
    seconds: float = 0.0  # time from question to answer

    def __post_init__(self) -> None:
        for name, most in (("question", LONGEST_WORDS), ("answer", LONGEST_WORDS), ("error", LONGEST_ERROR)):
            object.__setattr__(self, name, bounded(in_one_line(cleaned(getattr(self, name))), most))
        object.__setattr__(self, "box", tuple(round(float(side), 4) for side in self.box))


@dataclass(frozen=True)
class PictureCheck:
    """How eyes see whether a skill has done what it reports.

    Attributes:
        question: What they are asked, with the skill's values in braces, e.g. ``Is {thing} in the hand?``.
        necessary: Whether a skill fails that nobody has seen to be done; otherwise the observation says so, and it
            counts as done.
    """

    question: str
    answer: str = YES  # what they answer if it was done: ``yes`` or ``no``
    necessary: bool = False
    looks: int = 1  # how many pictures they are asked about, at most; what more than half of these answers say counts
    camera: str = ""  # which camera's pictures; empty: any

    def asked(self, values: Mapping[str, object]) -> str:
        return self.question.format_map({name: str(value) for name, value in values.items()})

    def found(self, glances: Sequence[Glance]) -> str | None:
        """Return what was seen, one of :data:`ANSWERS`; None: it takes another look."""
        for answer in (YES, NO):
            if 2 * sum(one.answer == answer for one in glances) > self.looks:
                return answer
        over = len(glances) >= self.looks or any(one.error for one in glances)
        return CANNOT_SEE if over else None

    def holds(self, answer: str) -> bool | None:
        """Return whether an answer says that the skill was done; None: it does not say."""
        return None if answer == CANNOT_SEE else answer == self.answer
