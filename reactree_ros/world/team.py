"""Several robots in one world: what each robot's world can say and heed, so that they keep apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.background.pending import Pending
from reactree_ros.world.port import World

#: The verb of skills by which a robot leaves where it stands.
GO_TO = "go to"


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
            names, moves = tuple(map(str, call.values.values())), call.skill.moves
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
