"""Observations: what comes back from a skill, or what an agent node starts with."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reactree_ros.agent.labels import as_seen
from reactree_ros.agent.parameters import Value
from reactree_ros.agent.picture import Glance, Picture
from reactree_ros.agent.text import LONGEST_TOLD, bounded


class Outcome(enum.Enum):
    """How a skill ended."""

    DONE = "done"
    """It went well."""
    PRECONDITION = "precondition"
    """What it needs does not hold, or holds no more: the observation's text says why.

    The world refused it and nothing moved, or it had :attr:`Observation.begun` and was stopped.
    """
    UNKNOWN_SKILL = "unknown_skill"
    """It is not a skill of this world, or names a thing that is not there."""
    REFUSED_BY_POLICY = "refused_by_policy"
    """The skill policy forbids it, or the person who was asked did; the world was not asked."""
    EXECUTION = "execution"
    """It failed on the way."""
    POSTCONDITION = "postcondition"
    """It was carried out, but what it was for did not hold: a robot that let go of the cup."""
    TIMEOUT = "timeout"
    """It took too long and was stopped."""
    CANCELED = "canceled"
    """It was canceled, by its caller or by somebody else, and has stopped."""
    HALTED = "halted"
    """Nothing may move now, as by an emergency stop: it did not begin, or was stopped."""
    WORLD_UNAVAILABLE = "world_unavailable"
    """What executes skills does not answer: the task ends, and is not a result."""


#: How a skill ends that never began, or was stopped before it could do what it is for.
REFUSALS = frozenset({Outcome.PRECONDITION, Outcome.UNKNOWN_SKILL, Outcome.REFUSED_BY_POLICY})
#: State of something that is not there any more, such as a potato that was sliced.
GONE = "GONE"
#: State of something that is not seen now: a map that is kept says where it was. When, is the next state; or it is
#: :data:`PERHAPS`, where such things are found at times.
REMEMBERED = "REMEMBERED"
PERHAPS = "PERHAPS"


@dataclass(frozen=True)
class Seen:
    """One object in an observation.

    Attributes:
        place: What the agent stood at when it saw it, e.g. ``fridge 2``; None in the quick look around a room.
    """

    word: str  # class in words, e.g. ``kitchen cabinet``
    instance: int  # instance number within its class, from 1; 0: its word is its own name, e.g. ``office 2B``
    room: str | None = None  # room it was seen in, e.g. ``kitchen 1``; None if the world is one room
    place: str | None = None
    held: bool = False  # true if the agent holds it
    states: tuple[str, ...] = ()  # what is known of it, e.g. ``OPEN``, ``OFF``, :data:`GONE`


@dataclass(frozen=True)
class Spot:
    """Where something is, seen from above, in the world's own frame; for people who watch, not for the agent."""

    name: str  # what is there, as the observation names it, e.g. ``fridge 1``; empty: the agent itself
    x: float  # in metres, to the millimetre, as are all lengths
    y: float  # see ``x``
    yaw: float | None = None  # the angle from x towards y, in radians; None if it has none
    outline: tuple[tuple[float, float], ...] = ()  # its corners on the floor, in order; empty if no size is known

    def __post_init__(self) -> None:
        for name in ("x", "y", "yaw"):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, round(value, 3))
        object.__setattr__(self, "outline", tuple((round(x, 3), round(y, 3)) for x, y in self.outline))


@dataclass(frozen=True)
class Observation:
    """What came back from a skill, or what an agent node starts with.

    Attributes:
        text: The observation in words, as it goes into the prompt: a line that would read as a decision, as a person's
            words or as a line of the prompt's own is quoted; of a very long text there are the beginning and the end.
        spots: Of worlds with poses, where the agent is and what it sees; where it looked around, also rooms and what
            stands in them.
        data: What the skill returned, by name, as JSON may hold it; the text says it, too.
        conditions: The conditions of which the world knows whether they hold, by their wordings.
        begun: Of a skill that ended with :attr:`Outcome.PRECONDITION`, whether it had begun, so that something may have
            moved.
        remembered: What is not seen now, but was before this run, the likeliest place first; each is
            :data:`REMEMBERED`. For working memory: the text does not say it.
    """

    text: str
    outcome: Outcome = Outcome.DONE  # how the skill ended; ``DONE`` for a plain look
    seen: tuple[Seen, ...] = ()  # objects seen, in the order in which working memory takes them in
    looked_into: str | None = None  # the open receptacle whose inside the observation shows, e.g. ``fridge 1``
    rooms: tuple[str, ...] = ()  # the rooms of the house, e.g. ``kitchen 1``; only where the agent looked around
    pictures: tuple[Picture, ...] = ()  # what the agent's cameras saw; none if no pictures are taken
    spots: tuple[Spot, ...] = ()
    data: Mapping[str, Value] = field(default_factory=dict, hash=False)
    glances: tuple[Glance, ...] = ()  # what the run's eyes were asked about pictures for it, and what they said
    remembered: tuple[Seen, ...] = ()
    conditions: Mapping[str, bool] = field(default_factory=dict, hash=False)
    begun: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", as_seen(bounded(self.text, LONGEST_TOLD)))
        object.__setattr__(self, "seen", tuple(self.seen))

    @property
    def full_text(self) -> str:
        return "\n".join([self.text, *(caption for picture in self.pictures if (caption := picture.caption))])

    @property
    def is_refused(self) -> bool:
        """Whether the skill never began, so that nothing has moved."""
        return self.outcome in REFUSALS and not self.begun

    def looked_at(self, name_of: Callable[[str, int], str]) -> frozenset[str]:
        """Return the places of which all is seen that is there: each is seen from where it is, and not closed."""
        seen = ((name_of(one.word, one.instance), one) for one in self.seen if not one.held)
        return frozenset(name for name, one in seen if one.place == name and "CLOSED" not in one.states)
