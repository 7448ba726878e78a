"""What robots that share a world have for themselves, so that no two go for the same cup, and none waits for ever.

A thing belongs to the robot that went for it first, until its subgoal has ended; another robot that goes for it is
refused. For a place where a robot stands, and for a way that one passes, the others wait, in the order in which they
came: for a place before they set out, for a way once they come to it, as far as a world can stop there. Where robots
would wait for one another in a circle, the one that would close it makes way first, or does not get by.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from reactree_ros.background.pending import Pending, give_up_after
from reactree_ros.world.port import Observation, Outcome, SharedWorld, Use

T = TypeVar("T")

#: After these nothing has moved.
_REFUSALS = frozenset({Outcome.PRECONDITION, Outcome.UNKNOWN_SKILL, Outcome.REFUSED_BY_POLICY})


@dataclass(eq=False)
class Claimant:
    name: str
    elapsed: int = 0  # how far it is, in steps: its own, and those of other robots that it had to wait for
    idle: bool = False  # whether it has nothing to do, so that it is to make way where another robot needs the place

    def aside(self) -> str:
        """Name a skill that leads away from where it stands; empty: it knows none."""
        return ""

    def make_way(self) -> None:
        """Move away from where it stands; asked of one that is idle."""


class Taken(Exception):
    """A thing belongs to another robot; the message says to which."""


class Circle(Exception):
    def __init__(self, names: Iterable[str]) -> None:
        self.names = " and ".join(sorted(names))
        super().__init__(f"{self.names} would wait for you, and you for {self.names}")


@dataclass(eq=False)
class _Wish:
    robot: Claimant
    use: Use
    granted: Pending[None] = field(default_factory=Pending)

    @property
    def names(self) -> set[str]:
        return {*self.use.places, *self.use.ways}


class Claims:
    """Who has what.

    Attributes:
        counts: How often something was ``granted``, ``waited`` for, ``refused``, and how many ``circles`` were found.
    """

    def __init__(self) -> None:
        self._things: dict[str, Claimant] = {}
        self._held: dict[str, Claimant] = {}  # places and ways
        self._freed: dict[str, int] = {}  # how far the robot was that had a place last; to pass a way is no step
        self._waiting: list[_Wish] = []
        self._lock = threading.RLock()
        self.counts: Counter[str] = Counter()

    def ask(self, robot: Claimant, use: Use) -> Pending[None]:
        """Ask for what a skill needs; the result is there once the robot has it. Cancelling it withdraws the wish.

        It fails with :class:`Taken` where a thing is another robot's, and with :class:`Circle` where the robot would
        wait for one that waits for it.
        """
        wish = _Wish(robot, use)
        with self._lock:
            owners = [(thing, self._things[thing]) for thing in use.things if thing in self._things]
            for thing, owner in owners:
                if owner is not robot:
                    self.counts["refused"] += 1
                    return Pending.failed(Taken(f"{owner.name} has gone for {thing} before you"))
            if circle := {other.name for other in self._waits_for(wish) if self._needs(other, robot)}:
                self.counts["circles"] += 1
                return Pending.failed(Circle(circle))
            self._waiting.append(wish)
            granted = self._grant()
            in_the_way = [] if wish in granted else [other for other in self._waits_for(wish) if other.idle]
            if wish not in granted:
                self.counts["waited"] += 1
        wish.granted.add_done_callback(lambda done: None if _problem(done) is None else self._withdraw(wish))
        _tell(granted)
        for other in in_the_way:
            other.make_way()
        return wish.granted

    def keep(self, robot: Claimant, places: Iterable[str]) -> None:
        """Note where a robot stands after a skill; it lets go of other places, and of all ways."""
        self._let_go(robot, self._held, set(places))

    def leave(self, robot: Claimant, name: str) -> None:
        """Note that a robot has left a place, or passed a way, while what it does goes on."""
        self._let_go(robot, self._held, self.places_of(robot) - {name})

    def places_of(self, robot: Claimant) -> set[str]:
        with self._lock:
            return {name for name, owner in self._held.items() if owner is robot}

    def finish(self, robot: Claimant) -> None:
        """Let go of the things that a robot went for: its subgoal has ended."""
        self._let_go(robot, self._things, set())
        self.rest(robot)

    def rest(self, robot: Claimant) -> None:
        """Note that a robot has nothing to do; it stays where it stands, as long as no other robot needs the place."""
        robot.idle = True
        with self._lock:
            needed = any(robot in self._waits_for(wish) for wish in self._waiting)
        if needed:
            robot.make_way()

    def release(self, robot: Claimant) -> None:
        self._let_go(robot, self._things, set())
        self._let_go(robot, self._held, set())

    def _let_go(self, robot: Claimant, owned: dict[str, Claimant], kept: set[str]) -> None:
        with self._lock:
            for name in [name for name, owner in owned.items() if owner is robot and name not in kept]:
                del owned[name]
                self._freed[name] = max(robot.elapsed, self._freed.get(name, 0))
            granted = self._grant()
        _tell(granted)

    def _withdraw(self, wish: _Wish) -> None:
        with self._lock:
            if wish in self._waiting:
                self._waiting.remove(wish)
            granted = self._grant()
        _tell(granted)

    def _grant(self) -> list[_Wish]:
        return [wish for wish in list(self._waiting) if not any(self._waits_for(wish)) and self._give(wish)]

    def _give(self, wish: _Wish) -> bool:
        self._waiting.remove(wish)
        self._things.update(dict.fromkeys(wish.use.things, wish.robot))
        self._held.update(dict.fromkeys(wish.names, wish.robot))
        wish.robot.elapsed = max([wish.robot.elapsed, *(self._freed.get(name, 0) for name in wish.use.places)])
        self.counts["granted"] += 1
        return True

    def _waits_for(self, wish: _Wish) -> Iterator[Claimant]:
        """Yield the robots that have what a robot wishes for, or wished for it before."""
        missing = {name for name in wish.names if self._held.get(name) is not wish.robot}
        yield from (self._held[name] for name in missing if name in self._held)
        for before in self._waiting:
            if before is wish:
                break
            if before.robot is not wish.robot and before.names & missing:
                yield before.robot

    def _needs(self, robot: Claimant, other: Claimant) -> bool:
        seen, open_ = {robot}, [robot]
        while open_:
            waiting = open_.pop()
            for wish in self._waiting:
                if wish.robot is waiting:
                    behind = set(self._waits_for(wish)) - seen
                    seen |= behind
                    open_ += behind
        return other in seen


def _tell(granted: Iterable[_Wish]) -> None:
    for wish in granted:
        wish.granted.succeed(None)


class ClaimedSkill:
    """A skill of one of several robots: what it needs for itself the robot has before it begins.

    Attributes:
        pending: What comes of it. Cancelling it withdraws what the robot waits for, or cancels what it does.
    """

    def __init__(self, skill: str, world: SharedWorld, robot: Claimant, claims: Claims, patience: float) -> None:
        self._skill, self._world, self._robot, self._claims = skill, world, robot, claims
        self._patience = patience
        self._made_way_for = ""
        self.pending: Pending[Observation] = Pending()
        self._claim()

    def _claim(self) -> None:
        use, before = self._world.use(self._skill), self._claims.places_of(self._robot)
        granted = self._claims.ask(self._robot, use)
        give_up_after(granted, self._patience, lambda: Taken(f"another robot was in the way for {self._patience:g} s"))
        self._do(granted, lambda _: self._execute(use, before), self._not_granted)

    def _not_granted(self, problem: BaseException) -> None:
        moves = isinstance(problem, Circle) and self._world.use(self._skill).moves and not self._made_way_for
        if isinstance(problem, Circle) and moves and (aside := self._robot.aside()):
            self._do(self._world.execute(aside), lambda seen: self._moved_aside(seen, problem))
        elif isinstance(problem, Taken | Circle):
            self._refuse(str(problem))
        else:
            self.pending.fail(problem)

    def _moved_aside(self, seen: Observation, circle: Circle) -> None:
        if seen.outcome is not Outcome.DONE:
            self._refuse(f"{circle}, and you could not make way: {seen.text}")
            return
        self._claims.keep(self._robot, ())
        self._made_way_for = circle.names
        self._claim()

    def _execute(self, use: Use, before: set[str]) -> None:
        carried_out = self._world.execute(self._skill)
        carried_out.add_done_callback(
            lambda done: self._claims.keep(self._robot, self._places_after(done, use, before))
        )
        self._do(carried_out, self._done)

    def _places_after(self, done: Future[Observation], use: Use, before: set[str]) -> set[str]:
        """Return where the robot stands after a skill; if nobody knows how far it got, that is all that it has."""
        outcome = done.result().outcome if _problem(done) is None else None
        if outcome in _REFUSALS:
            return before
        return set(use.places) if use.moves and outcome is Outcome.DONE else self._claims.places_of(self._robot)

    def _done(self, seen: Observation) -> None:
        if self._made_way_for:
            seen = replace(seen, text=f"{seen.text} You made way for {self._made_way_for} before.")
        self.pending.succeed(seen)

    def _refuse(self, reason: str) -> None:
        text = f"The skill was not carried out: {reason.rstrip('.')}."
        self.pending.succeed(Observation(text, Outcome.PRECONDITION))

    def _do(
        self,
        step: Pending[T],
        then: Callable[[T], object],
        otherwise: Callable[[BaseException], object] | None = None,
    ) -> None:
        """Go on after a step; what is raised on the way is what comes of the skill."""
        self.pending.add_done_callback(lambda done: step.cancel() if done.cancelled() else None)

        def go_on(done: Future[T]) -> None:
            if self.pending.done():
                return
            try:
                if (problem := _problem(done)) is None:
                    then(done.result())
                else:
                    (otherwise or self.pending.fail)(problem)
            except Exception as error:
                self.pending.fail(error)

        step.add_done_callback(go_on)


def _problem(done: Future[Any]) -> BaseException | None:
    return CancelledError() if done.cancelled() else done.exception()
