"""A drive of a robot with companions: it asks before each passage, and reports what it has left."""

from __future__ import annotations

from reactree_lab.worlds.pyrobosim.scene import HouseScene
from reactree_lab.worlds.pyrobosim.simulator import UnderWay
from reactree_ros.background.pending import Pending
from reactree_ros.world.team import RightOfWay


class Drive:
    """The places and passages of a robot during an action; for one thread."""

    def __init__(self, right_of_way: RightOfWay | None, scene: HouseScene) -> None:
        self.asks, self.blocked = right_of_way is not None, ""
        self._right_of_way, self._scene = right_of_way, scene
        self._has = set() if scene.at is None else {scene.at.own}  # places and passages that it occupies or may enter
        self._before, self._asked = "", Pending.of(None)  # the passage that it has asked for

    def may_pass(self, told: UnderWay) -> bool:
        """Read the robot's progress; return whether it may enter the passage before it."""
        if self._right_of_way is None:
            return False
        self._leave_all_but(told.at, told.before)
        if told.before and told.before != self._before:
            self._asked = self._right_of_way.ask(self._called(told.before))
        self._before = told.before
        if not self._before or not self._asked.done():
            return False
        if (error := self._asked.exception()) is not None:
            self.blocked = str(error)
            return False
        self._has.add(self._before)
        return True

    def end(self, at: str) -> None:
        if self._right_of_way is None:
            return
        if self._before and not self._asked.cancel():
            self._has.add(self._before)
        self._leave_all_but(at)

    def _leave_all_but(self, *names: str) -> None:
        for own in self._has.difference(names):
            assert self._right_of_way is not None  # otherwise nothing is granted
            self._right_of_way.leave(self._called(own))
        self._has = {own for own in (*self._has, names[0]) if own in names and own}

    def _called(self, own: str) -> str:
        return self._scene.own[own].name
