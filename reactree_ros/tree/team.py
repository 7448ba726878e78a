"""The robots of a run: which subtree has which, and who goes on where one is gone."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Any

from py_trees.behaviour import Behaviour

from reactree_ros.agent.text import names
from reactree_ros.background.pending import Pending, after, asked, give_up_after, stepwise
from reactree_ros.memory.knowledge import Knowledge, Known
from reactree_ros.world.port import GO_TO, Observation, Outcome, SharedWorld, Use, World, team_of


@dataclass(eq=False)
class Claimant:
    name: str
    elapsed: int = 0  # how far it is, in steps: its own, and those of other robots that it had to wait for
    idle: bool = False  # whether it has nothing to do, so that it is to make way where another robot needs the place
    above: Claimant | None = None  # what it is a part of, and so has for itself what that has
    lent: dict[str, Claimant] = field(default_factory=dict)  # what it has of those above, who get it back

    @property
    def line(self) -> Iterator[Claimant]:
        """It, and what it is a part of; none of them ends before it."""
        one: Claimant | None = self
        while one is not None:
            yield one
            one = one.above

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
        self._freed: dict[str, int] = {}  # how far the robot was that had a place last; to pass a way is not a step
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
        wish.granted.add_done_callback(lambda done: self._withdraw(wish) if _failed(done) else None)
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
                if name in robot.lent:
                    owned[name] = robot.lent.pop(name)
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
        lent = ((name, self._held[name]) for name in wish.names if name in self._held)
        wish.robot.lent |= {name: owner for name, owner in lent if owner is not wish.robot}
        self._held.update(dict.fromkeys(wish.names, wish.robot))
        wish.robot.elapsed = max([wish.robot.elapsed, *(self._freed.get(name, 0) for name in wish.use.places)])
        self.counts["granted"] += 1
        return True

    def _waits_for(self, wish: _Wish) -> Iterator[Claimant]:
        """Yield the robots that have what a robot wishes for, or wished for it before."""
        own = {*wish.robot.line}
        missing = {name for name in wish.names if self._held.get(name) not in own}
        for name in missing:
            yield from takewhile(lambda owner: owner not in own, self._owners(name))
        for before in self._waiting:
            if before is wish:
                break
            waits_for_it = any(owner in own for name in before.names for owner in self._owners(name))
            if before.robot is not wish.robot and before.names & missing and not waits_for_it:
                yield before.robot

    def _owners(self, name: str) -> Iterator[Claimant]:
        """Yield who has it, and who lent it and has it after that."""
        owner = self._held.get(name)
        while owner is not None:
            yield owner
            owner = owner.lent.get(name)

    def _needs(self, robot: Claimant, other: Claimant) -> bool:
        seen, open_ = {robot}, [robot]
        while open_:
            waiting = open_.pop()
            for wish in self._waiting:
                if waiting in wish.robot.line:
                    behind = set(self._waits_for(wish)) - seen
                    seen |= behind
                    open_ += behind
        return not seen.isdisjoint(other.line)


def _tell(granted: Iterable[_Wish]) -> None:
    for wish in granted:
        wish.granted.succeed(None)


def claimed_skill(
    skill: str, world: SharedWorld, robot: Claimant, claims: Claims, patience: float
) -> Pending[Observation]:
    """Carry a skill out for one of several robots, once it has for itself what that needs.

    Cancelling it withdraws what the robot waits for, or cancels what it does.
    """
    return stepwise(_claimed_skill(skill, world, robot, claims, patience))


def _claimed_skill(
    skill: str, world: SharedWorld, robot: Claimant, claims: Claims, patience: float
) -> Generator[Pending[Any], Any, Observation]:
    use, made_way_for = world.use(skill), ""
    while True:
        before, granted = claims.places_of(robot), claims.ask(robot, use)
        give_up_after(granted, patience, lambda: Taken(f"another robot was in the way for {patience:g} s"))
        try:
            yield granted
            break
        except Taken as taken:
            return not_carried_out(str(taken))
        except Circle as circle:
            if not use.moves or made_way_for or not (aside := robot.aside()):
                return not_carried_out(str(circle))
            moved: Observation = yield world.execute(aside)
            if moved.outcome is not Outcome.DONE:
                return not_carried_out(f"{circle}, and you could not make way: {moved.text}")
            claims.keep(robot, ())
            made_way_for = circle.names

    def places_after(done: Future[Observation]) -> set[str]:
        """Return where the robot stands after the skill; if nobody knows how far it got, that is all that it has."""
        seen = None if _failed(done) else done.result()
        if seen is not None and seen.is_refused:
            return before
        is_done = seen is not None and seen.outcome is Outcome.DONE
        return set(use.places) if use.moves and is_done else claims.places_of(robot)

    carried_out = world.execute(skill)
    carried_out.add_done_callback(lambda done: claims.keep(robot, places_after(done)))
    seen: Observation = yield carried_out
    return replace(seen, text=f"{seen.text} You made way for {made_way_for} before.") if made_way_for else seen


def _failed(done: Future[Any]) -> bool:
    return done.cancelled() or done.exception() is not None


def not_carried_out(reason: str) -> Observation:
    return Observation(f"The skill was not carried out: {reason.rstrip('.')}.", Outcome.PRECONDITION)


@dataclass(eq=False)
class Robot(Claimant):
    world: World = field(kw_only=True)  # the world as it sees it and acts in it
    claims: Claims = field(kw_only=True)
    known: Known = field(kw_only=True)  # what it knows
    gone: str = ""  # why it can do nothing more; empty as long as it can
    post: Post | None = None  # what it works on; None: nothing
    moving: Pending[Observation] | None = None  # how it makes way for another robot; None: it does not
    #: By what of the robot it takes: the skill that it carries out, or carried out last.
    doing: dict[str, Pending[Observation]] = field(default_factory=dict)

    def ask(self, way: str) -> Pending[None]:
        return self.claims.ask(self, Use(ways=(way,)))

    def leave(self, place: str) -> None:
        self.claims.leave(self, place)

    def aside(self) -> str:
        """Name the skill that leads to the middle of the room; empty if it has none, or nobody knows the room."""
        room = self.known.room
        return f"{GO_TO} {room}" if room and GO_TO in self.world.household.actions else ""

    def make_way(self) -> None:
        """Move away from where it stands; if it cannot, it stays, and the others wait as long as they may."""
        if self.moving is None and (aside := self.aside()):
            self.moving = asked(self.world.execute, aside)
            self.moving.add_done_callback(self._made_way)

    def _made_way(self, done: Future[Observation]) -> None:
        self.moving = None
        self.known.moved()
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            self.lose(str(error))
        elif done.result().outcome is Outcome.DONE:
            self.claims.keep(self, ())

    def lose(self, reason: str) -> None:
        self.gone = reason
        self.claims.release(self)


@dataclass(eq=False)
class Post(Claimant):
    """A subtree's robot: it keeps it to its end, or gets another one where it is gone.

    Several may be of one robot; then each claims what its skills take of that, and keeps it to its end.
    """

    robot: Robot = field(kw_only=True)
    above: Post | None = None  # the post of what the subtree grew under; None for the root's
    before: Post | None = None  # what the robot did before and goes on with; None: it is free then
    top: Behaviour | None = None  # the subtree; None: the whole tree
    part: str = ""  # its number among those of one robot; empty: it is the only one
    world: World = field(init=False)  # the robot's

    def __post_init__(self) -> None:
        self.world = self.robot.world.beside(self.part) if self.part else self.robot.world

    def get(self, robot: Robot) -> None:
        """Have a robot from now on; it is as far as the one that it stands in for."""
        robot.elapsed = max(robot.elapsed, self.robot.elapsed)
        self.robot, self.before, robot.post, robot.idle = robot, robot.post, self, False
        self.world = robot.world

    def is_above(self, post: Post | None) -> bool:
        """Whether it is another post, or stands above it: then its robot waits for what grew."""
        while post is not None and post is not self:
            post = post.above
        return post is self


class Team:
    def __init__(self, world: World, known: Knowledge) -> None:
        self.known, self.claims = known, Claims()
        self._shared = team_of(world)
        worlds: Mapping[str, World] = self._shared or {"": world}
        self.robots = tuple(
            Robot(name, idle=True, world=own, claims=self.claims, known=known.of(name)) for name, own in worlds.items()
        )
        self.alone = len(self.robots) == 1  # whether there is one only
        for robot in () if self.alone else self.robots:
            self._shared[robot.name].heed(robot)
        #: Whether the subtrees of a parallel take turns: there is one robot, whose skills take all of it.
        self._resources = world.household.resources if self.alone else frozenset()
        self.takes_turns = self.alone and not self._resources
        self._parts = 0
        self.post = Post("", robot=self.robots[0])
        self.post.get(self.robots[0])

    def execute(self, post: Post, skill: str, patience: float) -> Pending[Observation]:
        """Let a robot carry a skill out as soon as it has for itself what that needs, after others that need it."""
        robot, ask = post.robot, partial(self._execute, post, skill, patience)
        used = post.world.household.uses(skill) if post.part else {*self._resources, ""}
        for name in used & robot.doing.keys():
            ask = partial(after, robot.doing[name], ask)
        robot.doing |= dict.fromkeys(used, doing := asked(ask))
        return doing

    def _execute(self, post: Post, skill: str, patience: float) -> Pending[Observation]:
        if self.alone:
            return post.world.execute(skill)
        return claimed_skill(skill, self._shared[post.robot.name], post.robot, self.claims, patience)

    def stop(self) -> None:
        """Stop the robots that make way, which no goal node does."""
        for robot in self.robots:
            if robot.moving is not None:
                robot.moving.cancel()

    def introduce(self, robot: Robot) -> str:
        """Say which of the robots one is, as an agent node is told at its start; empty if there is one only."""
        if self.alone:
            return ""
        *names, last = (one.name for one in self.robots)
        return f" You are {robot.name}, one of {', '.join(names)} and {last}."

    @property
    def left(self) -> bool:
        return not all(robot.gone for robot in self.robots)

    @property
    def makespan(self) -> int:
        return max(robot.elapsed for robot in self.robots)

    def send(self, top: Behaviour, subgoal: str, above: Post) -> Post | None:
        """Give a subtree a robot: one that can do it, that holds or is near to what it names; None: it has to wait."""
        if not self.left:
            return Post("", robot=above.robot, above=above, top=top)
        if self.alone:
            self._parts += 1
            return Post(f"'{subgoal}'", robot=above.robot, above=above, top=top, part=str(self._parts))
        able = [robot for robot in self.robots if not robot.gone and self._can(robot, subgoal)]
        robot = self._best(able or [robot for robot in self.robots if not robot.gone], subgoal, above)
        if robot is None:
            return None
        post = Post("", robot=robot, above=above, top=top)
        post.get(robot)
        return post

    def ended(self, post: Post) -> None:
        robot, above = post.robot, post.above
        self.claims.release(post)
        if robot.gone or robot.post is not post:
            return
        robot.post = post.before
        if post.before is None and above is not None and above.robot.gone:
            above.get(robot)
        self.claims.finish(robot)

    def vacancy(self, post: Post) -> str:
        """Say why a post's robot cannot go on; empty if it can. In place of one that is gone it gets a free one."""
        if post.robot.moving is not None:
            return f"{post.robot.name} makes way for another robot"
        if not post.robot.gone:
            return ""
        if (robot := self._best(self.robots, "", post)) is not None:
            post.get(robot)
            return ""
        return f"{post.robot.name} is gone, and no other robot is free"

    def _best(self, robots: Iterable[Robot], subgoal: str, above: Post) -> Robot | None:
        there = [robot for robot in robots if not robot.gone and robot.moving is None]
        free = [robot for robot in there if robot.post is None or robot.post.is_above(above)]
        return max(free, key=lambda robot: _fitness(robot, subgoal, self.known), default=None)

    def _can(self, robot: Robot, subgoal: str) -> bool:
        verbs = {verb for other in self.robots for verb in other.world.household.actions}
        return {verb for verb in verbs if names(subgoal, verb)} <= set(robot.world.household.actions)


def _fitness(robot: Robot, subgoal: str, known: Knowledge) -> tuple[bool, bool]:
    """Rate a robot for a subgoal: whether it holds what that names, and whether it is where such a thing was seen."""
    named = [word for word in known.words if names(subgoal, word)]
    rooms = {sighting.room for word in named for sighting in known.sightings(word)}
    mine = robot.known
    return any(names(subgoal, seen.word) for seen in mine.hands.values()), bool(mine.room) and mine.room in rooms
