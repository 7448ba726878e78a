"""The World port: whatever executes skills and observes, a simulator or a robot."""

from __future__ import annotations

import abc
import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from reactree_ros.agent.prompt import Domain
from reactree_ros.pending import Pending


class WorldError(Exception):
    """The world could not do what was asked for a reason that is not a refusal (it is gone, it broke)."""


class Outcome(enum.Enum):
    """How a skill ended.

    ``PRECONDITION`` means that the world refused and nothing moved; the observation's text says why.
    """

    DONE = "done"
    PRECONDITION = "precondition"
    UNKNOWN_SKILL = "unknown_skill"
    REFUSED_BY_POLICY = "refused_by_policy"
    EXECUTION = "execution"
    TIMEOUT = "timeout"
    CANCELED = "canceled"
    WORLD_UNAVAILABLE = "world_unavailable"


#: State of something that is not there any more, such as a potato that was sliced.
GONE = "GONE"


@dataclass(frozen=True)
class Seen:
    """One object in an observation.

    Attributes:
        word: Class in words, e.g. ``kitchen cabinet``.
        instance: Instance number within its class, from 1.
        room: Room it was seen in, e.g. ``kitchen 1``; None where the world is one room.
        place: What the agent stood at when it saw it, e.g. ``fridge 2``; None in the quick look around a room.
        held: True where the agent holds it.
        states: What is known of it, e.g. ``OPEN``, ``OFF``, :data:`GONE`.
    """

    word: str
    instance: int
    room: str | None
    place: str | None = None
    held: bool = False
    states: tuple[str, ...] = ()


@dataclass(frozen=True)
class Observation:
    """What came back from a skill, or what an agent node starts with.

    Attributes:
        text: The observation in words, as it goes into the prompt.
        outcome: How the skill ended; ``DONE`` for a plain look.
        seen: Objects seen, in the order in which working memory takes them in.
        looked_into: The open receptacle whose inside the observation shows, e.g. ``fridge 1``.
        rooms: The rooms of the house, e.g. ``kitchen 1``; only where the agent looked around.
        picture: What the agent's camera sees, a PNG; None where no pictures are taken.
    """

    text: str
    outcome: Outcome = Outcome.DONE
    seen: Sequence[Seen] = ()
    looked_into: str | None = None
    rooms: tuple[str, ...] = ()
    picture: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Score:
    """How far the goal is reached (paper, section 5.1).

    Attributes:
        gsr: 1.0 where every goal condition holds, else 0.0.
        ssr: Share of the goal conditions that hold, 0 to 1.
    """

    gsr: float
    ssr: float


class World(abc.ABC):
    """A place in which skills are carried out.

    Every call returns at once; what takes time is in the pending result, which can be polled and cancelled.
    Skills are texts such as ``pick up juice 1``. One skill is in flight at a time.
    """

    #: Words about which ``recall location of <word>`` may ask.
    recallable: Sequence[str] = ()
    #: The household whose skills and wording it has; prompts speak of it.
    domain: Domain = Domain.WAH_NL

    @abc.abstractmethod
    def reset(self) -> Pending[None]:
        """Bring the world back to where its task starts."""

    @abc.abstractmethod
    def observe(self) -> Pending[Observation]:
        """Look around: the full observation an agent node starts with."""

    def survey(self) -> Pending[Observation]:
        """Tell all there is, seen or not, to planners that plan before they look; few worlds know."""
        return Pending.failed(WorldError("this world cannot say all there is in it; use a planner that looks around"))

    @abc.abstractmethod
    def available_skills(self) -> Pending[Sequence[str]]:
        """List the skills that may be tried now; ``recall``, ``done`` and ``failure`` belong to the agent."""

    @abc.abstractmethod
    def execute(self, skill: str) -> Pending[Observation]:
        """Carry out a skill. A refusal is an observation with its outcome, not an error."""

    @abc.abstractmethod
    def score(self) -> Pending[Score | None]:
        """Say how far the goal is reached; None where the world knows no goal."""

    def at_rest(self) -> Pending[None]:
        """Settle when nothing moves any more of what was cancelled; at once where cancelling stops at once."""
        return Pending.of(None)

    def close(self) -> None:  # noqa: B027
        """Release what the world holds."""
