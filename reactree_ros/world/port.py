"""The World port: whatever executes skills and observes, a simulator or a robot."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from typing_extensions import Self

from reactree_ros.agent.household import Household
from reactree_ros.agent.observation import GONE, Observation, Outcome, Seen
from reactree_ros.agent.parameters import Named, ParameterError, Place, Thing, each_of
from reactree_ros.agent.picture import Picture
from reactree_ros.agent.skill import Offer, Offered, Skill, SkillCall
from reactree_ros.agent.text import more_than_one, plain_skill
from reactree_ros.background.pending import Pending

__all__ = [
    "GONE",
    "GO_TO",
    "Household",
    "Observation",
    "Offer",
    "Offered",
    "Outcome",
    "RightOfWay",
    "RobotGone",
    "Score",
    "Seen",
    "SharedWorld",
    "Skill",
    "SkillCall",
    "Use",
    "World",
    "WorldError",
    "team_of",
]
#: The verb of skills by which a robot leaves where it stands.
GO_TO = "go to"


class WorldError(Exception):
    """The world could not do what was asked for a reason that is not a refusal (it is gone, it broke)."""


class RobotGone(WorldError):
    """A robot can do nothing more: its battery is empty, it does not answer, it did not stop."""


@dataclass(frozen=True)
class Score:
    """How far the goal is reached (paper, section 5.1)."""

    gsr: float  # 1.0 if every goal condition holds, else 0.0
    #: share of the goal conditions that hold, 0 to 1; in PDDL the best that it was (AgentBoard's progress rate), in
    #: ScienceWorld its score, in text adventures the best share of the highest score, in WebShop the reward
    ssr: float
    #: the goal, if it was read from the instruction; empty: it is the task's
    goal: Mapping[str, int] = field(default_factory=dict)
    #: the conditions that do not hold, in words, e.g. ``apple on coffee table (1 of 2)``; empty: a world may not say
    unmet: Sequence[str] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        for name in ("gsr", "ssr"):  # a whole number would not be one in a message
            object.__setattr__(self, name, float(getattr(self, name)))


class World(abc.ABC):
    """A place in which skills are carried out.

    Every call returns at once, :meth:`at_rest` and cancelling, too; what takes time is in the pending result, which can
    be polled and cancelled. Skills are texts such as ``pick up juice 1``, or are declared. One skill is in flight at a
    time; those that are declared to use different resources may be together, and each is cancelled for itself. A new
    world stands where its task starts. ``with world:`` closes it at the end.
    :func:`reactree_ros.world.check.check_world` tries whether a world keeps to all of this.
    """

    #: What its skills, wording, naming and limits are.
    household: Household
    #: Words about which ``recall location of <word>`` may ask.
    recallable: Sequence[str] = ()
    #: Words of what its skills are done to, such as ``stove``; empty: it cannot say.
    words: Sequence[str] = ()
    #: What its own settings say of some of its skills, by name: ``allow`` or ``confirm``, as a skill policy.
    rules: Mapping[str, str] = MappingProxyType({})
    #: Its conditions, by name and by wording, each with whether it holds now; None: nobody knows.
    conditions: Mapping[str, bool | None] = MappingProxyType({})
    #: Whether a skill policy judges each skill before it is carried out; see :func:`~.wrappers.guarded`.
    is_guarded: bool = False
    #: Whether it tells a kept map by itself what it sees; a map of other worlds is fed by their observations.
    tells_map: bool = False

    def names(self, kind: Named) -> Sequence[str] | None:
        """Return the names and words that can ever stand in a place of a skill; None: it cannot say them before."""
        return (self.words or None) if isinstance(kind, Thing | Place) else None

    @property
    def free_verbs(self) -> Sequence[str]:
        """Verbs of which it cannot say before what a skill will do; by default all where skills are said freely."""
        return self.household.actions if self.household.free_skills else ()

    @abc.abstractmethod
    def reset(self, seed: int | None = None) -> Pending[Observation]:
        """Bring the world back to where its task starts; the result is the first observation, as of :meth:`observe`.

        Args:
            seed: Of whatever is random in the world; None leaves it as it comes. The same seed gives the same start.
        """

    @abc.abstractmethod
    def observe(self) -> Pending[Observation]:
        """Look around: the full observation an agent node starts with."""

    def survey(self) -> Pending[Observation]:
        """Tell all there is, seen or not, to planners that plan before they look; few worlds know."""
        return Pending.failed(WorldError("this world cannot say all there is in it; use a planner that looks around"))

    def attend(self, goal: str) -> None:  # noqa: B027
        """Say what whoever looks around next is about: a detector may be asked for what it names."""

    def traced(self, trace: str) -> None:  # noqa: B027
        """Say which trace the next skill belongs to, as W3C's ``traceparent``, for worlds in other processes."""

    @abc.abstractmethod
    def available_skills(self) -> Pending[Sequence[Offered]]:
        """List the skills that may be tried now, as texts, or declared ones with what may stand in their places.

        ``recall``, ``done`` and ``failure`` belong to the agent.
        """

    @abc.abstractmethod
    def execute(self, skill: str) -> Pending[Observation]:
        """Carry out a skill. A refusal is an observation with its outcome, not an error.

        A declared skill comes as a :class:`SkillCall`, with its values; ``household.call(skill)`` makes one of a text.
        """

    def canonical(self, skill: str) -> Pending[str | Observation]:
        """Say what :meth:`execute` would carry out for a text, in the one way to write it; nothing happens yet.

        A skill policy judges that, and nothing else is carried out then: ``click [Buy  Now]`` is ``click[buy now]``. An
        observation instead says why it would not be carried out. By default it is the text itself: a world knows its
        skills as it lists them, and refuses every other way to write one. A declared skill is a :class:`SkillCall`. If
        skills are said freely, it is the text in plain letters, and what may be more than one skill is refused.
        """
        if self.household.skills:
            return Pending.ready(self._declared(skill))
        if not self.household.free_skills:
            return Pending.ready(skill)
        plain = plain_skill(skill)
        problem = more_than_one(skill)
        if not problem:
            return Pending.ready(plain)
        refused = f"The skill was not carried out: '{plain}' may be more than one skill: {problem}."
        return Pending.ready(Observation(refused, Outcome.UNKNOWN_SKILL))

    def _declared(self, skill: str) -> str | Observation:
        try:
            return self.household.call(skill)
        except ParameterError as error:
            if not self.household.split_skill(skill)[0]:
                return skill
            return Observation(f"The skill was not carried out: {error}.", Outcome.UNKNOWN_SKILL)

    def corrections(self) -> Pending[Sequence[Offer]]:
        """Say what a person may correct of what it knows, as declared statements; nothing if it sees all by itself."""
        return Pending.ready(())

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        """Correct it by what a person has said and confirmed, in one of the statements of :meth:`corrections`.

        No skill is carried out, and no policy is lifted. The observation is as of :meth:`observe`; another outcome than
        ``DONE`` says why nothing was taken in.
        """
        return Pending.ready(Observation("This world sees by itself what is where.", Outcome.PRECONDITION))

    def pictures(self, camera: str = "") -> Pending[Sequence[Picture]]:
        """Take a picture with a camera, or with each; nothing if there is none. Nothing in the world changes by it."""
        return Pending.ready(())

    @abc.abstractmethod
    def score(self) -> Pending[Score | None]:
        """Say how far the goal is reached; None if the world knows no goal."""

    def beside(self, part: str) -> World:
        """Return the world for a part of the run that goes on beside others; a record tells apart what each asked."""
        return self

    def goal_of(self, instruction: str) -> Mapping[str, int]:
        """Return the goal of an instruction that is not a task's: what has to hold, how many times.

        Every word of the instruction must be accounted for. Empty, which is the default: the world cannot judge it.
        """
        return {}

    def judge(self, goal: Mapping[str, int]) -> Pending[Score | None]:
        """Say how far a goal of :meth:`goal_of` is reached; None if the world cannot judge it."""
        return Pending.ready(None)

    def halted(self) -> str:
        """Say why nothing may move now, e.g. because of an emergency stop; empty if something may.

        A skill that meets it ends with :attr:`Outcome.HALTED`. Whoever plans holds as long as it lasts.
        """
        return ""

    def emergency(self) -> str:
        """Say what a person has to see to at once, e.g. a robot that does not stop; empty if there is nothing."""
        return ""

    def lacks(self) -> str:
        """Say what it needs and is not there, e.g. a server of a robot; empty if it has everything."""
        return ""

    def status(self) -> Mapping[str, str]:
        """Say what the world is and how it fares, in words, for diagnostics."""
        return {}

    def at_rest(self) -> Pending[None]:
        """Settle when nothing moves any more of what was cancelled; at once if cancelling stops at once."""
        return Pending.ready(None)

    def close(self) -> None:  # noqa: B027
        """Release what the world holds; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# ---------------------------------------------------------------------- several robots in one world


@dataclass(frozen=True)
class Use:
    """What a skill needs for its robot alone, by names as in skills."""

    things: tuple[str, ...] = ()  # what it goes for; the robot that does so first has it until its subgoal has ended
    places: tuple[str, ...] = ()  # where the robot stands from now on, until it moves away
    #: what it passes, if one robot at a time can be there: the robot has that until it has left it
    ways: tuple[str, ...] = ()
    moves: bool = False  # whether the robot leaves where it stands


class RightOfWay(Protocol):
    """Where a robot asks during a skill, from any thread, because other robots share its world."""

    def ask(self, way: str) -> Pending[None]:
        """Ask for what it is about to pass, by a name as in skills; the result is there once it may.

        It fails if the robot would wait for one that waits for it. Cancelling it withdraws the question.
        """

    def leave(self, place: str) -> None:
        """Tell that it has left a place, or has passed a way, so that others may be there."""


class SharedWorld(World):
    """A world that several robots can share, as one of them sees it and acts in it."""

    #: Words of places at which one robot at a time can be at work.
    places: Sequence[str] = ()

    def team(self) -> Mapping[str, SharedWorld]:
        """Return its robots by name, each a world of its own: the same place as that robot sees it and acts in it.

        It is asked once. Empty: there is one robot, which is the world's own. Of the others :meth:`reset`,
        :meth:`score` and :meth:`close` are not asked.
        """
        return {}

    def use(self, skill: str) -> Use:
        """Say what a skill needs for its robot alone; things are what can be recalled."""
        verb, name = self.household.split_skill(skill)
        names: tuple[str, ...] = (name,)
        moves = verb == GO_TO
        with suppress(ParameterError):
            call = self.household.call(skill)
            names, moves = tuple(str(name) for one in call.values.values() for name in each_of(one)), call.skill.moves
        word_of = {one: one.rpartition(" ")[0] for one in names}
        things = tuple(one for one, word in word_of.items() if word in self.recallable)
        places = tuple(one for one, word in word_of.items() if word in self.places)
        return Use(things, places, moves=moves)

    def heed(self, right_of_way: RightOfWay) -> None:
        """Ask from now on before each way that is passed, and tell what is left; called only if there are several.

        A world that cannot stop on its way, or does not know where it is there, does nothing of the kind: its robot has
        what :meth:`use` says as long as the skill lasts.
        """


def team_of(world: World) -> Mapping[str, SharedWorld]:
    """Return the robots of a world by name; empty if there is one."""
    return world.team() if isinstance(world, SharedWorld) else {}
