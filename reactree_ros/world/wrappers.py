"""Worlds around a world: a limit for how long a skill may take, a policy for what may be done at all."""

from __future__ import annotations

import abc
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import Offered, Skill, SkillCall
from reactree_ros.background.pending import (
    Pending,
    asked,
    give_up_after,
    in_time,
    mapped,
    settle_as,
    stepwise,
)
from reactree_ros.world.port import (
    Household,
    Observation,
    Outcome,
    RightOfWay,
    SharedWorld,
    Use,
    World,
    WorldError,
    team_of,
)
from reactree_ros.world.skill_policy import PolicyError, Rule, SkillPolicy, Verdict

T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Inner:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: WorldWrapper, owner: type) -> Any:
        return getattr(wrapper.inner, self._name)


class WorldWrapper(SharedWorld):
    """Passes everything on to another world; what is to be otherwise is overridden."""

    reset: Any = _Inner("reset")
    observe: Any = _Inner("observe")
    available_skills: Any = _Inner("available_skills")
    execute: Any = _Inner("execute")
    score: Any = _Inner("score")

    def __init__(self, inner: World) -> None:
        self.inner, self.is_guarded = inner, inner.is_guarded

    @property
    def places(self) -> Sequence[str]:  # type: ignore[override]
        return self.inner.places if isinstance(self.inner, SharedWorld) else ()

    def team(self) -> Mapping[str, SharedWorld]:
        """See :meth:`SharedWorld.team`; each of its robots is wrapped, too."""
        return {name: self.around(world) for name, world in team_of(self.inner).items()}

    def around(self, world: World) -> SharedWorld:
        """Wrap one of the robots likewise; to be overridden where more is needed for it than the robot."""
        return type(self)(world)

    def use(self, skill: str) -> Use:
        return self.inner.use(skill) if isinstance(self.inner, SharedWorld) else super().use(skill)

    def heed(self, right_of_way: RightOfWay) -> None:
        if isinstance(self.inner, SharedWorld):
            self.inner.heed(right_of_way)


#: A wrapper is guarded by itself, tells no map, and is beside itself.
for _name in {"household", *vars(World)} - {"is_guarded", "tells_map", "beside"} - {*vars(WorldWrapper)}:
    if not _name.startswith("_"):
        setattr(WorldWrapper, _name, _Inner(_name))


class AddedSkills(WorldWrapper):
    """Adds declared skills to those of a world."""

    def __init__(self, inner: World, added: Mapping[Skill, Any]) -> None:
        super().__init__(inner)
        self._added = added

    @property
    def household(self) -> Household:  # type: ignore[override]
        return self.inner.household.with_skills(self._added)

    def canonical(self, skill: str) -> Pending[str | Observation]:
        call = self._call(skill)
        return self.inner.canonical(skill) if call is None else Pending.ready(call)

    def execute(self, skill: str) -> Pending[Observation]:
        """See :meth:`World.execute`; what is not a skill at all is told of the added ones, too."""
        call = self._call(skill)
        if call is not None:
            return self._carry_out(call)
        known = self.inner.household
        if skill in known.actions or known.split_skill(skill)[0]:
            return self.inner.execute(skill)
        return mapped(asked(self.inner.execute, skill), self._with_added)

    @abc.abstractmethod
    def _carry_out(self, call: SkillCall) -> Pending[Observation]: ...

    def _call(self, skill: str) -> SkillCall | None:
        try:
            call = self.household.call(skill)
        except ParameterError:
            return None
        return call if call.skill in self._added else None

    def _with_added(self, seen: Observation) -> Observation:
        if seen.outcome is not Outcome.UNKNOWN_SKILL or not self._added:
            return seen
        also = ", ".join(f"'{skill.listed}'" for skill in self._added)
        return replace(seen, text=f"{seen.text} Skills are also {also}.")


def _limited(name: str) -> Any:

    def ask(self: SkillTimeLimit, *given: Any) -> Pending[Any]:
        return self._rested(lambda: self._answered(name, partial(getattr(self.inner, name), *given)))

    return ask


class SkillTimeLimit(WorldWrapper):
    """Stops a skill that takes too long, and lets nothing else begin before what was stopped or cancelled has ended.

    A skill that came to rest in time ends with :attr:`Outcome.TIMEOUT`; one that did not fails with a
    :class:`WorldError`, and so does what is asked next. Of skills that are together each has its own time.

    Args:
        seconds: Longest time for one skill, in seconds.
        stop_seconds: Longest wait for the world to come to rest, in seconds.
        answer_seconds: Longest wait for anything else that is asked of the world, in seconds; None: no limit.
    """

    def __init__(
        self, inner: World, seconds: float, stop_seconds: float = 10.0, *, answer_seconds: float | None = None
    ) -> None:
        super().__init__(inner)
        self._seconds, self._stop_seconds, self._answer_seconds = seconds, stop_seconds, answer_seconds
        self._ending: list[str] = []  # skills that were cancelled and may not have ended yet

    def around(self, world: World) -> SharedWorld:
        return SkillTimeLimit(world, self._seconds, self._stop_seconds, answer_seconds=self._answer_seconds)

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        """See :meth:`World.reset`; waits for what was cancelled, and goes on if nobody knows that it has ended."""
        return self._rested(lambda: self._answered("reset", lambda: self.inner.reset(seed)), in_any_case=True)

    observe: Any = _limited("observe")
    survey: Any = _limited("survey")
    available_skills: Any = _limited("available_skills")
    corrections: Any = _limited("corrections")
    correct: Any = _limited("correct")
    canonical: Any = _limited("canonical")
    pictures: Any = _limited("pictures")
    score: Any = _limited("score")

    def execute(self, skill: str) -> Pending[Observation]:
        return self._rested(lambda: self._timed(skill))

    def _timed(self, skill: str) -> Pending[Observation]:
        inner = asked(self.inner.execute, skill)
        return inner if inner.done() else stepwise(self._in_limit(skill, inner))

    def _in_limit(self, skill: str, inner: Pending[Observation]) -> Generator[Pending[Any], Any, Observation]:
        outer: Pending[Observation] = Pending(on_cancel=lambda: self._cancel(skill, inner))
        inner.add_done_callback(lambda done: settle_as(done, outer))
        give_up_after(outer, self._seconds, _TooLate)
        try:
            seen: Observation = yield outer
            return seen
        except _TooLate:
            if not self._cancel(skill, inner):  # it has ended meanwhile
                return inner.result()
        yield from self._rest()
        return refusal(f"took longer than {self._seconds:g} s and was stopped", Outcome.TIMEOUT)

    def _cancel(self, skill: str, running: Pending[Observation]) -> bool:
        self._ending.append(skill)
        cancelled = running.cancel()
        if not cancelled:
            self._ending.remove(skill)
        return cancelled

    def _rest(self) -> Generator[Pending[None], None, None]:
        ending, rest = tuple(self._ending), Pending[None]()
        named = " and ".join(f"'{skill}'" for skill in ending)
        restless = WorldError(f"{named} did not stop within {self._stop_seconds:g} s")
        asked(self.inner.at_rest).add_done_callback(lambda done: settle_as(done, rest))
        give_up_after(rest, self._stop_seconds, lambda: restless)
        try:
            yield rest
        except CancelledError:
            raise restless from None
        for skill in ending:
            with suppress(ValueError):  # whoever else waited was told before
                self._ending.remove(skill)

    def _rested(self, ask: Callable[[], Pending[T]], *, in_any_case: bool = False) -> Pending[T]:
        return stepwise(self._asked_at_rest(ask, in_any_case=in_any_case)) if self._ending else ask()

    def _asked_at_rest(self, ask: Callable[[], Pending[T]], *, in_any_case: bool) -> Generator[Pending[Any], Any, T]:
        with suppress(Exception) if in_any_case else nullcontext():
            yield from self._rest()
        answer: T = yield asked(ask)
        return answer

    def _answered(self, what: str, ask: Callable[[], Pending[T]]) -> Pending[T]:
        seconds, inner = self._answer_seconds, asked(ask)
        if seconds is None or inner.done():
            return inner
        return in_time(inner, seconds, WorldError(f"the world did not answer '{what}' within {seconds:g} s"))


class _TooLate(Exception):
    pass


class PolicyGuard(WorldWrapper):
    """Lets nothing reach a world that a skill policy denies, or that a person was to confirm and did not.

    A refused skill ends with :attr:`Outcome.REFUSED_BY_POLICY`; so does everything in a world that the policy does not
    fit. What the policy denies is not offered, either. Cancelling a skill that waits for a person cancels the question.

    Args:
        confirm: Asks a person about a skill, given the policy's reason for asking; the answer is empty if it is
            approved, and says otherwise why not.
    """

    def __init__(self, inner: World, policy: SkillPolicy, confirm: Callable[[str, str], Pending[str]]) -> None:
        super().__init__(inner)
        self._policy, self._confirm, self.is_guarded = policy, confirm, True

    def around(self, world: World) -> SharedWorld:
        return PolicyGuard(world, self._policy, self._confirm)

    @property
    def household(self) -> Household:  # type: ignore[override]
        """The inner world's, without the verbs of which the policy denies everything."""
        return self.inner.household.only(self._policy.permits)

    def available_skills(self) -> Pending[Sequence[Offered]]:
        """See :meth:`World.available_skills`; those that the policy does not deny."""
        verbs, conditions = self.inner.household.actions, self.inner.conditions
        offered = partial(self._policy.offers, verbs=verbs, conditions=conditions)
        return mapped(asked(self.inner.available_skills), lambda skills: list(filter(offered, skills)))

    def execute(self, skill: str) -> Pending[Observation]:
        """See :meth:`World.execute`; what is carried out is the very text that was judged."""
        return stepwise(self._judged(skill))

    def _judged(self, skill: str) -> Generator[Pending[Any], Any, Observation]:
        world = self.inner
        try:  # also where it was done before: a robot may get its map, and with it its words, later
            self._policy.check(world)
        except PolicyError as error:
            return _refused(str(error))
        meant = yield asked(world.canonical, skill)
        if isinstance(meant, Observation):
            return meant
        if world.household.skills and not isinstance(meant, SkillCall) and not world.household.says_text(meant):
            return _refused(f"the skill policy knows no skill like '{meant}'")
        verdict, reason = self._verdict(meant)
        if verdict is Verdict.CONFIRM:
            if objection := (yield from self._objection(meant, reason)):
                return _refused(objection)
            now = yield asked(world.canonical, meant)
            if isinstance(now, Observation):
                return now
            verdict, reason = self._verdict(meant)  # conditions may have changed while a person was asked
            if verdict is not Verdict.DENY and now != meant:
                return _refused(f"'{meant}' is '{now}' now")
        if verdict is Verdict.DENY:
            return _refused(reason)
        carried_out: Observation = yield asked(world.execute, meant)
        return carried_out

    def _verdict(self, meant: str) -> tuple[Verdict, str]:
        return self._policy.judge(meant, self.inner.household.actions, self.inner.conditions)

    def _objection(self, meant: str, reason: str) -> Generator[Pending[str], str, str]:
        try:
            return (yield asked(self._confirm, meant, reason))
        except CancelledError:
            return f"nobody confirmed '{meant}'"
        except Exception as error:
            return f"nobody could be asked about '{meant}': {error}"


def guarded(
    world: World,
    policy: SkillPolicy | None,
    confirm: Callable[[str, str], Pending[str]],
    tell: Callable[[str], object] = _log.warning,
) -> World:
    """Return a world in which every skill is judged before it is carried out: what starts skills gets it here.

    The first of these that speaks of a skill decides: 1. the rules of the user's policy, in their order; 2. the world's
    own settings, such as the ``policy`` of a tool, in its file or in ``robot.yaml``; 3. without a user's policy it is
    allowed; with one it is denied, and told once, here. So a file loosens a tool's own policy only where it names the
    tool. What is to be confirmed is denied where nobody can be asked. A world that is guarded already, such as one
    behind a bridge, stays as it is. Raises PolicyError: the policy does not fit the world.

    Args:
        policy: The user's policy; None: there is none.
        tell: Takes the line that names what no rule speaks of.
    """
    if world.is_guarded:
        return world
    own = [Rule(skill=skill, verdict=Verdict(verdict)) for skill, verdict in world.rules.items()]
    if policy is None:
        return PolicyGuard(world, SkillPolicy(own, otherwise=Verdict.ALLOW, written=0), confirm) if own else world
    policy.check(world)
    policy = policy.then(own)
    if unnamed := policy.unnamed(world.household):
        tell(f"not allowed by {policy.where}: {', '.join(unnamed)} (no rule names them)")
    return PolicyGuard(world, policy, confirm)


def unwrapped(world: World) -> World:
    return unwrapped(world.inner) if isinstance(world, WorldWrapper) else world


def _refused(reason: str) -> Observation:
    return refusal(reason, Outcome.REFUSED_BY_POLICY)


def refusal(reason: str, outcome: Outcome) -> Observation:
    """Return the observation of a skill that was not carried out, for a reason that is not the world's."""
    return Observation(f"The skill was not carried out: {reason}.", outcome)


# ---------------------------------------------------------------------- several robots in one house


#: The room of a robot, and what it holds.
_Position = tuple[str, tuple[str, ...]]


def with_teammates(robots: Mapping[str, World]) -> dict[str, SharedWorld]:
    """Return robots that see one another: an observation names the others in the room.

    A robot counts as being where it observed something last; one that drives has not arrived before it says so.
    """
    positions: dict[str, _Position] = dict.fromkeys(robots, ("", ()))
    return {name: _WithTeammates(world, name, positions) for name, world in robots.items()}


def teammate_here(robot: str, holds: tuple[str, ...]) -> str:
    """Say that another robot is in the room, and with what; after a space."""
    return f" {robot} is here, too{''.join(f', with {name}' for name in holds)}."


class _WithTeammates(WorldWrapper):
    def __init__(self, inner: World, name: str, positions: dict[str, _Position]) -> None:
        super().__init__(inner)
        self._name, self._positions = name, positions

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return mapped(self.inner.reset(seed), partial(self._with_others, looked=True))

    def observe(self) -> Pending[Observation]:
        return mapped(self.inner.observe(), partial(self._with_others, looked=True))

    def execute(self, skill: str) -> Pending[Observation]:
        return mapped(self.inner.execute(skill), self._with_others)

    def _with_others(self, observation: Observation, *, looked: bool = False) -> Observation:
        own, before = self._name, self._positions[self._name][0]
        room = next((seen.room for seen in observation.seen if seen.room), before)
        held = (self.household.name_of(seen.word, seen.instance) for seen in observation.seen if seen.held)
        self._positions[own] = room, tuple(held)
        others = [(name, holds) for name, (at, holds) in self._positions.items() if at == room and name != own]
        if not (room and others and (looked or room != before)):
            return observation
        return replace(observation, text=observation.text + "".join(teammate_here(*other) for other in others))
