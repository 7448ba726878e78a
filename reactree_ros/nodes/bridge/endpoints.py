"""The endpoints of a bridge: ``~/execute_skill``, the services, and the topics of observations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import Observation as ObservationMsg
from reactree_interfaces.msg import SkillEnded
from reactree_interfaces.srv import AvailableSkills, CorrectWorld, DescribeHousehold, EvaluateGoal, Observe, ResetWorld
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header

from reactree_ros.agent.corrections import stated_in
from reactree_ros.agent.skill import Offered, Skill
from reactree_ros.background.pending import Pending, Worker, asked, mapped
from reactree_ros.episode.telemetry import serving
from reactree_ros.files.secrecy import without_credentials
from reactree_ros.nodes import steady
from reactree_ros.nodes.bridge.world_host import WorldHost
from reactree_ros.nodes.messages import (
    OUTCOME_CODES,
    arguments_from,
    declaring,
    household_to_msg,
    image_to_msg,
    named_values,
    observation_to_msg,
    offered_to_msg,
)
from reactree_ros.nodes.people.ros_person import DISCOVERY, HINT, RosPerson
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.waiting import settled
from reactree_ros.person.port import Answer, Question, approves, quoted
from reactree_ros.plugins.settings import or_nearest
from reactree_ros.world.port import Observation, Outcome, SharedWorld, World, WorldError
from reactree_ros.world.wrappers import refusal

if TYPE_CHECKING:
    from reactree_ros.nodes.bridge.bridge import Bridge

T = TypeVar("T")
Serve = Callable[[Any, Any], Awaitable[None]]


class ObservationTopic:
    """Publishes observations as ``~/observation``, and their pictures as ``~/image`` and a compressed one."""

    def __init__(self, node: Node) -> None:
        self._clock, self._log = node.get_clock(), node.get_logger()
        self._observation = node.create_publisher(ObservationMsg, "~/observation", LATCHED)
        self._image = node.create_publisher(Image, "~/image", 1)
        self._compressed = node.create_publisher(CompressedImage, "~/image/compressed", 1)

    def message(self, observation: Observation) -> ObservationMsg:
        return observation_to_msg(observation, self._clock.now().to_msg())

    def publish(self, msg: ObservationMsg) -> None:
        if msg.text:
            self._observation.publish(msg)
        for picture in msg.pictures:
            header = Header(stamp=msg.header.stamp, frame_id=picture.header.frame_id or "camera")
            image = CompressedImage(header=header, format=picture.format, data=picture.data)
            self._compressed.publish(image)
            self._publish_raw(image)

    def _publish_raw(self, image: CompressedImage) -> None:
        if self._image.get_subscription_count():
            try:
                self._image.publish(image_to_msg(image))
            except Exception as error:  # Pillow is not there, or its readers raise what they like
                self._log.warning(f"~/image: a picture cannot be read ({error})", throttle_duration_sec=60.0)


@dataclass(eq=False)
class _Goal:
    request: ExecuteSkill.Goal
    uses: frozenset[str]  # what of the robot it takes
    handle: Any = None  # once it has begun
    awaited: Pending[Any] | None = None  # what it waits for
    question: Pending[str] | None = None  # the last question to a person about it

    def stop(self) -> None:
        if self.awaited is not None:
            self.awaited.cancel()


class SkillServer:
    """Carries skills out in the hosted world; a person has ``confirm_timeout`` seconds to say yes.

    Attributes:
        last: The last skill and its outcome, in words.
    """

    def __init__(
        self, node: Node, host: WorldHost, topic: ObservationTopic, person: RosPerson, *, confirm_timeout: float
    ) -> None:
        self._node, self._log = node, node.get_logger()
        self._host, self._topic, self._person = host, topic, person
        self._confirm_timeout = confirm_timeout
        self._goals: list[_Goal] = []  # what is under way; none takes of the robot what another one has
        self.last = "none yet"
        self._person_by: float | None = None  # when a person must be there; None: nobody need be
        self._ended = node.create_publisher(SkillEnded, "~/skill_ended", 10)
        self._action = ActionServer(
            node,
            ExecuteSkill,
            "~/execute_skill",
            execute_callback=self.serve,
            goal_callback=self.consider,
            cancel_callback=self.cancel,
            callback_group=ReentrantCallbackGroup(),
            result_timeout=10,  # for a late client, as rcl's; all kept goals are in each status: 1 ms a skill at 2 Hz
        )

    @property
    def busy(self) -> bool:
        return bool(self._goals)

    @property
    def skill(self) -> str:
        return "' and '".join(goal.request.skill for goal in self._goals if goal.handle is not None)

    def stop(self) -> None:
        for goal in self._goals:
            goal.stop()

    def close(self) -> None:
        self._action.destroy()

    def confirm(self, skill: str, reason: str) -> Pending[str]:
        """Ask a person; the answer is why the skill is refused; empty: it is approved."""
        goal = next((one for one in self._goals if one.request.skill == skill), self._goals[-1])
        goal.handle.publish_feedback(ExecuteSkill.Feedback(phase=ExecuteSkill.Feedback.CONFIRMING))
        put = Question(f"May '{skill}' be carried out?", self._confirm_timeout, goal=reason, skill=skill)

        def read(answer: Answer) -> str:
            return "" if approves(answer.text) else f"'{skill}' was not approved: {quoted(answer.text)}"

        goal.question = answer = mapped(self._person.ask(put), read)
        return answer

    def expect_person(self) -> None:
        """Warn later if the policy wants a person to confirm skills, and nobody is there."""
        self._person_by = steady.now() + DISCOVERY if self._host.asks_person() else None

    def look_after(self) -> None:
        self._look_for_person()
        for goal in self._goals:
            asks = goal.question is not None and not goal.question.done()
            if not asks and goal.handle is not None and goal.handle.is_active:
                executing = ExecuteSkill.Feedback(phase=ExecuteSkill.Feedback.EXECUTING, fraction=-1.0)
                goal.handle.publish_feedback(executing)

    def _look_for_person(self) -> None:
        if self._person_by is None or (not self._person.there and steady.now() <= self._person_by):
            return
        self._person_by = None
        if not self._person.there:
            self._log.warning(
                f"the skill policy wants a person to confirm skills, but nobody answers {self._person.name}: they are "
                f"refused until somebody does; {HINT}"
            )

    def consider(self, request: ExecuteSkill.Goal) -> GoalResponse:
        uses = self._uses(request)
        other = next((f"busy with '{one.request.skill}'" for one in self._goals if one.uses & uses), "")
        if other or not self._host.active:
            self._log.warning(f"'{request.skill}' rejected: {other or 'not active'}")
            return GoalResponse.REJECT
        self._goals.append(_Goal(request, uses))
        return GoalResponse.ACCEPT

    def _uses(self, request: ExecuteSkill.Goal) -> frozenset[str]:
        if self._host.world is None:
            return frozenset({""})
        household = self._host.world.household
        try:
            return household.uses(_skill_in(request, household.skills))
        except ValueError:  # it will be refused
            return household.uses(request.skill)

    def cancel(self, goal_handle: Any) -> CancelResponse:
        for goal in self._goals:
            if goal.request is goal_handle.request:
                goal.stop()
        return CancelResponse.ACCEPT

    async def serve(self, goal_handle: Any) -> ExecuteSkill.Result:
        served = serving("execute_skill", goal_handle.request.trace)
        goal = next(one for one in self._goals if one.request is goal_handle.request)
        try:
            observation, message, skills = await self._carry_out(goal, goal_handle)
        finally:
            goal.stop()
            self._goals.remove(goal)
        outcome = observation.outcome
        if goal_handle.is_cancel_requested and outcome is not Outcome.WORLD_UNAVAILABLE:
            outcome = Outcome.CANCELED
        if served is not None:
            served.end("" if outcome is Outcome.DONE else outcome.value, {"reactree.outcome": outcome.value})
        skill, seen = goal_handle.request.skill, self._topic.message(observation)
        came = {"outcome": OUTCOME_CODES[outcome], "message": message, "observation": seen, **offered_to_msg(skills)}
        if self._ended.get_subscription_count():
            self._ended.publish(SkillEnded(goal_id=goal_handle.goal_id, skill=skill, **came))
        if outcome is Outcome.CANCELED and goal_handle.is_cancel_requested:
            goal_handle.canceled()
        elif outcome is Outcome.DONE:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        self.last = f"'{skill}': {outcome.value}"
        self._topic.publish(seen)
        return ExecuteSkill.Result(**came)

    async def _carry_out(self, going: _Goal, goal_handle: Any) -> tuple[Observation, str, Sequence[Offered]]:
        """Carry a skill out; returns the observation, an error message, and the next skills if they are known.

        After a stop nothing moves any more, or the outcome says that nobody knows.
        """
        goal, world = goal_handle.request, self._host.world
        try:
            skill = _skill_in(goal, () if world is None else world.household.skills)
        except ValueError as error:
            return _result(refusal(str(error), Outcome.UNKNOWN_SKILL))
        if goal_handle.is_cancel_requested:
            return _result(refusal("canceled before it began", Outcome.CANCELED))
        if not self._host.active or world is None:
            return _gone(WorldError(f"'{goal.skill}' did not begin: the bridge was deactivated"))
        going.handle = goal_handle
        going.awaited = pending = asked(lambda: world.execute(skill))
        await settled(self._node, pending)
        stopped = pending.cancelled()
        try:
            observation = refusal("canceled", Outcome.CANCELED) if stopped else pending.take()
        except Exception as error:
            return _gone(error)
        skills = asked(world.available_skills)  # after a stop, this waits for the skill's end
        if not stopped:
            going.awaited = skills
        await settled(self._node, skills)
        if stopped and not goal_handle.is_cancel_requested:  # the client did not stop it
            return _gone(WorldError(f"'{goal.skill}' was stopped: the bridge was deactivated, or is ending"))
        try:
            return _result(observation, skills.take())
        except Exception as error:
            return _gone(error) if stopped else _result(observation)


def _skill_in(goal: ExecuteSkill.Goal, skills: Sequence[Skill]) -> str:
    if not goal.name:
        return str(goal.skill)
    known = {skill.name: skill for skill in skills}
    if goal.name not in known:
        raise ValueError(f"there is no skill named '{goal.name}'{or_nearest(goal.name, known)}")
    call = known[goal.name].read(arguments_from(goal.arguments))
    if goal.skill and goal.skill != call:
        raise ValueError(f"name and arguments are '{call}', and not '{goal.skill}'")
    return call


def _gone(error: Exception) -> tuple[Observation, str, Sequence[Offered]]:
    return Observation("", Outcome.WORLD_UNAVAILABLE), str(error) or type(error).__name__, []


def _result(observation: Observation, skills: Sequence[Offered] = ()) -> tuple[Observation, str, Sequence[Offered]]:
    return observation, "" if observation.outcome is Outcome.DONE else observation.text, skills


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

    async def _answer(self, serve: Serve, request: Any, response: Any) -> Any:
        try:
            await serve(request, response)
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
        if not request.everything:
            await self._list_skills(request, response)

    def _observed(self, observation: Observation, response: Any) -> None:
        response.observation = self._topic.message(observation)
        self._topic.publish(response.observation)

    async def _list_skills(self, request: Any, response: Any) -> None:
        offered = offered_to_msg(await self._ask(self._world().available_skills))
        response.skills, response.offers = offered["skills"], offered["offers"]

    async def _list_corrections(self, request: AvailableSkills.Request, response: AvailableSkills.Response) -> None:
        offered = declaring(await self._ask(self._world().corrections))
        response.offers, response.declared = offered["offers"], offered["declared"]

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
            response.goal, response.unmet = named_values(score.goal), list(score.unmet)

    async def _describe(self, request: DescribeHousehold.Request, response: DescribeHousehold.Response) -> None:
        world = self._world()
        household_to_msg(world.household, world.recallable, response)
        response.words = list(world.words)
        response.places = list(world.places) if isinstance(world, SharedWorld) else []
        response.robots = list(self._tasks.robots)
        response.world = named_values(without_credentials(self._tasks.about()))


class _NotActive(Exception):
    """The bridge is not active."""
