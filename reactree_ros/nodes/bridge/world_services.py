"""The services of a bridge: reset, observe, list skills, score a goal, describe the household."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.srv import AvailableSkills, CorrectWorld, DescribeHousehold, EvaluateGoal, Observe, ResetWorld

from reactree_ros.agent.corrections import stated_in
from reactree_ros.background.pending import Pending, Worker, asked
from reactree_ros.nodes.bridge.skill_server import ObservationTopic
from reactree_ros.nodes.bridge.world_host import WorldHost
from reactree_ros.nodes.messages import as_json, household_to_msg, offered_to_msg
from reactree_ros.nodes.waiting import settled
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.team import SharedWorld

if TYPE_CHECKING:
    from reactree_ros.nodes.bridge.bridge import Bridge

T = TypeVar("T")
Answer = Callable[[Any, Any], Awaitable[None]]


class WorldServices:
    """Offers a world's calls as services: ``~/reset``, ``~/observe``, ``~/available_skills`` and so on."""

    def __init__(self, node: Node, host: WorldHost, tasks: Bridge, topic: ObservationTopic) -> None:
        self._node, self._host, self._tasks, self._topic = node, host, tasks, topic
        self._resetting: Pending[None] | None = None  # settles when the reset that is under way has ended
        group = ReentrantCallbackGroup()
        for kind, name, answer in (
            (ResetWorld, "reset", self._reset_in_turn),
            (Observe, "observe", self._observe),
            (AvailableSkills, "available_skills", self._list_skills),
            (AvailableSkills, "corrections", self._list_corrections),
            (CorrectWorld, "correct", self._correct),
            (EvaluateGoal, "evaluate", self._evaluate),
            (DescribeHousehold, "household", self._describe),
        ):
            node.create_service(kind, f"~/{name}", partial(self._answer, answer), callback_group=group)

    async def _answer(self, answer: Answer, request: Any, response: Any) -> Any:
        try:
            await answer(request, response)
        except _NotActive as error:
            response.error_code, response.message = type(response).NOT_ACTIVE, str(error)
        except Exception as error:  # also one of the world's author
            response.error_code = type(response).WORLD_UNAVAILABLE
            response.message = str(error) or type(error).__name__
        return response

    def _world(self) -> World:
        if not self._host.active or self._host.world is None:
            raise _NotActive("the bridge is not active")
        return self._host.world

    async def _ask(self, ask: Callable[[], Pending[T]]) -> T:
        return (await settled(self._node, asked(ask))).take()

    async def _aside(self, work: Callable[[], T]) -> T:
        """Call a slow function in a thread: some tasks have to ask their simulator."""
        with closing(Worker("task")) as worker:
            return await self._ask(lambda: worker.do(work))

    async def _reset_in_turn(self, request: ResetWorld.Request, response: ResetWorld.Response) -> None:
        """Reset the world; concurrent resets wait, so that each reports its own task."""
        while self._resetting is not None:
            await settled(self._node, self._resetting)
        self._resetting = ended = Pending[None]()
        try:
            await self._reset(request, response)
        finally:
            self._resetting = None
            ended.succeed(None)

    async def _reset(self, request: ResetWorld.Request, response: ResetWorld.Response) -> None:
        self._world()
        if request.task_id != -1:
            other = await self._aside(lambda: self._tasks.change_task(request.task_id))
            if other is None:
                response.error_code = ResetWorld.Response.UNKNOWN_TASK
                response.message = f"there is no task {request.task_id}"
                return
            if not self._host.active and other is not self._host.bare:  # any more
                other.close()
            self._world()
            self._tasks.take(other)
        world, seed = self._world(), None if request.seed < 0 else request.seed
        self._observed(await self._ask(lambda: world.reset(seed)), response)
        await self._aside(lambda: self._tasks.describe_task(response))

    async def _observe(self, request: Observe.Request, response: Observe.Response) -> None:
        world = self._world()
        if request.goal:
            world.attend(request.goal)
        self._observed(await self._ask(world.survey if request.everything else world.observe), response)

    def _observed(self, observation: Observation, response: Any) -> None:
        response.observation = self._topic.message(observation)
        self._topic.publish(observation, response.observation)

    async def _list_skills(self, request: AvailableSkills.Request, response: AvailableSkills.Response) -> None:
        offered = offered_to_msg(await self._ask(self._world().available_skills))
        response.skills, response.offers = offered["skills"], offered["offers"]

    async def _list_corrections(self, request: AvailableSkills.Request, response: AvailableSkills.Response) -> None:
        offers = await self._ask(self._world().corrections)
        response.offers = offered_to_msg(offers)["offers"]

    async def _correct(self, request: CorrectWorld.Request, response: CorrectWorld.Response) -> None:
        world = self._world()
        try:
            (statement,) = stated_in(request.correction, await self._ask(world.corrections))
        except ValueError as error:
            observation = Observation(f"It was not taken in: {error}.", Outcome.PRECONDITION)
        else:
            observation = await self._ask(lambda: world.correct(statement))
        response.taken_in = observation.outcome is Outcome.DONE
        self._observed(observation, response)

    async def _evaluate(self, request: EvaluateGoal.Request, response: EvaluateGoal.Response) -> None:
        world, asked_for = self._world(), request.instruction
        score = await self._ask(world.score)
        if asked_for and (score is None or not await self._aside(lambda: self._tasks.asks_for(asked_for))):
            goal = await self._aside(lambda: world.goal_of(asked_for))
            score = await self._ask(lambda: world.judge(goal)) if goal else None
        if score is not None:
            response.has_goal, response.gsr, response.ssr = True, score.gsr, score.ssr
            response.goal = as_json(score.goal)

    async def _describe(self, request: DescribeHousehold.Request, response: DescribeHousehold.Response) -> None:
        world = self._world()
        household_to_msg(world.household, world.recallable, response)
        response.words = list(world.words)
        response.places = list(world.places) if isinstance(world, SharedWorld) else []
        response.robots = list(self._tasks.robots)
        response.world = as_json(self._tasks.about())


class _NotActive(Exception):
    """The bridge is not active."""
