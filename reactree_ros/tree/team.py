"""The robots of a run: which subtree has which, and who goes on where one is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace

from py_trees.behaviour import Behaviour

from reactree_ros.agent.observation import Observation, Seen
from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import SkillCall
from reactree_ros.agent.text import names
from reactree_ros.background.pending import Pending, after, asked
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.tree.claims import Claimant, ClaimedSkill, Claims
from reactree_ros.world.port import GO_TO, Outcome, Use, World, team_of

#: The state of what nobody can look into.
_CLOSED = "CLOSED"


class News:
    """What the robots of a run have observed, in order, of which each agent node is told what others observed since."""

    def __init__(self, name_of: Callable[[str, int], str]) -> None:
        self._name_of = name_of
        self._observed: list[tuple[str, Observation]] = []

    @property
    def count(self) -> int:
        return len(self._observed)

    def add(self, robot: str, observation: Observation) -> None:
        self._observed.append((robot, observation))

    def since(self, count: int, robot: str, is_wanted: Callable[[str], bool]) -> str:
        """Say what robots but one have observed since there were so many observations, each sentence after a space."""
        told = dict[str, None]()
        for other, observation in self._observed[count:]:
            for seen in observation.seen if other != robot else ():
                name = self._name_of(seen.word, seen.instance)
                if name == seen.place and _CLOSED not in seen.states:
                    told[f" {other} has looked at {name}."] = None
                elif is_wanted(seen.word) and seen.place and seen.room:
                    told[f" {other} saw {name} near {seen.place} in {seen.room}."] = None
        return "".join(told)


@dataclass(eq=False)
class Robot(Claimant):
    world: World = field(kw_only=True)  # the world as it sees it and acts in it
    claims: Claims = field(kw_only=True)
    room: str = ""  # where it saw something last; empty before
    at: str = ""  # what it went to last, by the effect of a declared skill; empty where nobody knows
    holds: tuple[Seen, ...] = ()
    gone: str = ""  # why it can do nothing more; empty as long as it can
    post: Post | None = None  # what it works on; None: nothing
    moving: Pending[Observation] | None = None  # how it makes way for another robot; None: it does not
    #: The skill that it carries out, or carried out last.
    doing: Pending[Observation] = field(default_factory=lambda: Pending.failed(CancelledError()))

    def ask(self, way: str) -> Pending[None]:
        return self.claims.ask(self, Use(ways=(way,)))

    def leave(self, place: str) -> None:
        self.claims.leave(self, place)

    def aside(self) -> str:
        """Name the skill that leads to the middle of the room; empty if it has none, or nobody knows the room."""
        return f"{GO_TO} {self.room}" if self.room and GO_TO in self.world.household.actions else ""

    def make_way(self) -> None:
        """Move away from where it stands; if it cannot, it stays, and the others wait as long as they may."""
        if self.moving is None and (aside := self.aside()):
            self.moving = asked(self.world.execute, aside)
            self.moving.add_done_callback(self._made_way)

    def _made_way(self, done: Future[Observation]) -> None:
        self.moving, self.at = None, ""
        if done.cancelled():
            return
        if (error := done.exception()) is not None:
            self.lose(str(error))
        elif done.result().outcome is Outcome.DONE:
            self.claims.keep(self, ())

    def lose(self, reason: str) -> None:
        self.gone = reason
        self.claims.release(self)

    def did(self, skill: str, outcome: Outcome) -> SkillCall | None:
        """Take in where a skill has led it; if it went otherwise, or nobody knows what it does, that is not known."""
        try:
            call = self.world.household.call(skill)
        except ParameterError:
            self.at = ""
            return None
        if call.skill.moves:
            self.at = call.value("at") if outcome is Outcome.DONE else ""
        return call

    def saw(self, observation: Observation) -> None:
        self.holds = tuple(seen for seen in observation.seen if seen.held)
        self.room = next((seen.room for seen in observation.seen if seen.room), self.room)


@dataclass(eq=False)
class Post:
    """A subtree's robot: it keeps it to its end, or gets another one where it is gone."""

    robot: Robot
    above: Post | None = None  # the post of what the subtree grew under; None for the root's
    before: Post | None = None  # what the robot did before and goes on with; None: it is free then
    top: Behaviour | None = None  # the subtree; None: the whole tree

    def get(self, robot: Robot) -> None:
        """Have a robot from now on; it is as far as the one that it stands in for."""
        robot.elapsed = max(robot.elapsed, self.robot.elapsed)
        self.robot, self.before, robot.post, robot.idle = robot, robot.post, self, False

    def is_above(self, post: Post | None) -> bool:
        """Whether it is another post, or stands above it: then its robot waits for what grew."""
        while post is not None and post is not self:
            post = post.above
        return post is self


class Team:
    def __init__(self, world: World) -> None:
        self.claims, self.news = Claims(), News(world.household.name_of)
        self._shared = team_of(world)
        worlds: Mapping[str, World] = self._shared or {"": world}
        self.robots = tuple(Robot(name, idle=True, world=own, claims=self.claims) for name, own in worlds.items())
        self.alone = len(self.robots) == 1  # whether there is one only
        for robot in () if self.alone else self.robots:
            self._shared[robot.name].heed(robot)
        self.post = Post(self.robots[0])
        self.post.get(self.robots[0])

    def execute(self, robot: Robot, skill: str, patience: float) -> Pending[Observation]:
        """Let a robot carry a skill out, after the one before, as soon as it has for itself what that needs."""
        robot.doing = after(robot.doing, lambda: self._execute(robot, skill, patience))
        return robot.doing

    def _execute(self, robot: Robot, skill: str, patience: float) -> Pending[Observation]:
        if self.alone:
            return robot.world.execute(skill)
        return ClaimedSkill(skill, self._shared[robot.name], robot, self.claims, patience).pending

    def stop(self) -> None:
        """Stop the robots that make way, which no goal node does."""
        for robot in self.robots:
            if robot.moving is not None:
                robot.moving.cancel()

    def with_news(self, robot: Robot, observation: Observation, subgoal: str, since: int) -> Observation:
        if self.alone:
            return observation
        news = self.news.since(since, robot.name, lambda word: names(subgoal, word))
        return replace(observation, text=observation.text + news) if news else observation

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

    def send(self, top: Behaviour, subgoal: str, above: Post, memory: WorkingMemory | None) -> Post | None:
        """Give a subtree a robot: one that can do it, that holds or is near to what it names; None: it has to wait."""
        if not self.left:
            return Post(above.robot, above, top=top)
        able = [robot for robot in self.robots if not robot.gone and self._can(robot, subgoal)]
        robot = self._best(able or [robot for robot in self.robots if not robot.gone], subgoal, above, memory)
        if robot is None:
            return None
        post = Post(robot, above, top=top)
        post.get(robot)
        return post

    def ended(self, post: Post) -> None:
        robot, above = post.robot, post.above
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
        if (robot := self._best(self.robots, "", post, None)) is not None:
            post.get(robot)
            return ""
        return f"{post.robot.name} is gone, and no other robot is free"

    def _best(self, robots: Iterable[Robot], subgoal: str, above: Post, memory: WorkingMemory | None) -> Robot | None:
        there = [robot for robot in robots if not robot.gone and robot.moving is None]
        free = [robot for robot in there if robot.post is None or robot.post.is_above(above)]
        return max(free, key=lambda robot: _fitness(robot, subgoal, memory), default=None)

    def _can(self, robot: Robot, subgoal: str) -> bool:
        verbs = {verb for other in self.robots for verb in other.world.household.actions}
        return {verb for verb in verbs if names(subgoal, verb)} <= set(robot.world.household.actions)


def _fitness(robot: Robot, subgoal: str, memory: WorkingMemory | None) -> tuple[bool, bool]:
    """Rate a robot for a subgoal: whether it holds what that names, and whether it is where such a thing was seen."""
    named = [word for word in memory.words if names(subgoal, word)] if memory is not None else []
    rooms = {sighting.room for word in named for sighting in memory.sightings(word)} if memory is not None else set()
    return any(names(subgoal, seen.word) for seen in robot.holds), bool(robot.room) and robot.room in rooms
