"""Several robots over ROS, each behind a bridge in a namespace of its own, as one world."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rclpy.node import Node
from reactree_interfaces.srv import ResetWorld

from reactree_ros.background.pending import Pending, mapped, settle_as
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.planner.adapters import RosWorld
from reactree_ros.world.multi_robot import with_teammates
from reactree_ros.world.port import Household, Score
from reactree_ros.world.team import SharedWorld
from reactree_ros.world.wrappers import WorldWrapper


class RosTeam(WorldWrapper):
    """The robots of one planner; the first one's bridge speaks for the world as a whole."""

    inner: RosWorld

    def __init__(self, node: Node, bridge: str, robots: Sequence[str], calls: Calls, heartbeat: Heartbeat) -> None:
        self.robots = {name: RosWorld(node, f"{name}/{bridge}", calls, heartbeat) for name in robots}
        super().__init__(next(iter(self.robots.values())))

    @property
    def recallable(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(dict.fromkeys(word for robot in self.robots.values() for word in robot.recallable))

    @property
    def words(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(dict.fromkeys(word for robot in self.robots.values() for word in robot.words))

    @property
    def about(self) -> dict[str, Any]:
        return self.inner.about

    def follow(self, changed: Callable[[], None]) -> None:
        for robot in self.robots.values():
            robot.follow(changed)

    def team(self) -> Mapping[str, SharedWorld]:
        return self.robots if self.inner.robots else with_teammates(self.robots)

    def learn(self) -> Pending[Household]:
        return mapped(_all([robot.learn() for robot in self.robots.values()]), lambda learnt: learnt[0])

    def reset_to(self, task_id: int, seed: int | None = None) -> Pending[ResetWorld.Response]:
        return self.inner.reset_to(task_id, seed)

    def score(self) -> Pending[Score | None]:
        return self.score_of("")

    def score_of(self, instruction: str) -> Pending[Score | None]:
        answer: Pending[Score | None] = Pending()
        left = list(self.robots.values())

        def ask() -> None:
            asked = left.pop(0).score_of(instruction)
            answer.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
            asked.add_done_callback(take)

        def take(done: Future[Score | None]) -> None:
            if answer.done():
                return
            if left and not done.cancelled() and done.exception() is not None:
                ask()
            else:
                settle_as(done, answer)

        ask()
        return answer

    def halted(self) -> str:
        reasons = {name: robot.halted() for name, robot in self.robots.items()}
        return "; ".join(f"{name}: {reason}" for name, reason in reasons.items() if reason)

    def at_rest(self) -> Pending[None]:
        return mapped(_all([robot.at_rest() for robot in self.robots.values()]), lambda _: None)

    def stop(self) -> None:
        for robot in self.robots.values():
            robot.stop()

    def close(self) -> None:
        for robot in self.robots.values():
            robot.close()

    def leave(self) -> None:
        for robot in self.robots.values():
            robot.leave()


def _all(pending: Sequence[Pending[Any]]) -> Pending[list[Any]]:
    together: Pending[list[Any]] = Pending(on_cancel=lambda: [one.cancel() for one in pending])

    def take(done: Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            settle_as(done, together)
        elif not together.done() and all(one.done() for one in pending):
            together.succeed([one.take() for one in pending])

    for one in pending:
        one.add_done_callback(take)
    return together
