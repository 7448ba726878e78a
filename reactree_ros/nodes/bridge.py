"""What every bridge does: hosts a world behind actions and services, with a skill policy and a time limit around it."""

from __future__ import annotations

import abc
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rclpy.action import CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import BridgeStatus, SkillEnded
from reactree_interfaces.msg import Observation as ObservationMsg
from reactree_interfaces.srv import (
    AvailableSkills,
    DescribeHousehold,
    EvaluateGoal,
    Observe,
    ResetWorld,
)
from sensor_msgs.msg import Image

from reactree_ros.agent.skill import Offered, Skill
from reactree_ros.background.pending import Pending, asked, mapped
from reactree_ros.background.worker import Worker
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.action_server import ActionServer
from reactree_ros.nodes.diagnostics import ERROR, OK, STALE, WARN, Diagnostics, Report
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.lifecycle import ManagedNode, told
from reactree_ros.nodes.messages import (
    OUTCOME_CODES,
    as_json,
    household_to_msg,
    observation_to_msg,
    offered_to_msg,
    picture_to_msg,
    settings_from,
)
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.ros_person import DISCOVERY, HINT, RosPerson
from reactree_ros.nodes.settings import BridgeSettings
from reactree_ros.nodes.waiting import Waker
from reactree_ros.person.port import Answer, Question, approves, quoted
from reactree_ros.plugins.settings import or_nearest
from reactree_ros.world.port import Observation, Outcome, World, WorldError
from reactree_ros.world.skill_policy import SkillPolicy, Verdict, load_policy
from reactree_ros.world.team import team_of
from reactree_ros.world.wrappers import PolicyGuard, SkillTimeLimit, WorldWrapper, refusal

#: How often it is looked at whether anything may move, in seconds.
STATUS_LOOK = 0.1
#: How often that is told where it does not change, in seconds.
STATUS_PERIOD = 0.5


class Bridge(ManagedNode):
    """Hosts a world; a node of its own for each kind of world says in :meth:`load` which.

    A world of several robots has a bridge for each, in a namespace of the robot's name beside this one's: this node is
    the first robot's, and has the others with it (:class:`MemberBridge`), which live as it does.

    Actions:
        ``~/execute_skill`` (ExecuteSkill): one skill at a time; a further goal is rejected. Canceling stops the skill.

    Services:
        ``~/reset``, ``~/observe``, ``~/available_skills``, ``~/evaluate``, ``~/household``, ``~/check``.

    Publishes:
        ``~/observation`` (Observation; reliable, transient local, depth 1): the latest observation.
        ``~/skill_ended`` (SkillEnded; reliable, depth 10): the result of every goal, told at once to everybody.
        ``~/status`` (BridgeStatus; reliable, transient local, depth 1): whether anything may move; at once when that
            changes, and again and again.
        ``~/image`` (sensor_msgs/Image): what the agent's camera saw after a skill, of worlds that take pictures.
        ``/diagnostics`` (DiagnosticArray, once a second): world, skill, why nothing may move, policy; of a robot its
            emergency stop and its servers.
        ``heartbeat`` (Heartbeat): that the bridge lives, and what it has under way on a robot's servers.

    Uses:
        the action ``~/ask_person`` (AskPerson), which others offer, where the policy wants a person's yes.

    Parameters:
        those of :class:`BridgeSettings`, read when the node is configured.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            kwargs: Passed on to :class:`rclpy.lifecycle.LifecycleNode`.
        """
        # before what can be refused: since Kilted a shutdown destroys what was only half made, too
        self._policy: SkillPolicy | None = None
        self._hosted: World | None = None  # as it was loaded
        self._world: WorldWrapper | None = None  # the same with policy and time limit around it
        self._active = False
        self._skill: Pending[Any] | None = None
        self._question: Pending[str] | None = None  # the answer of a person that is to come
        self._goal_handle: Any = None
        self._busy = False
        self._offered: list[Any] = []
        self._leaving: list[_Leaving] = []
        self._resetting: Pending[None] | None = None  # settles when the reset that is under way has ended
        self._rest: Pending[None] = Pending.of(None)  # of the last stop
        self._last = "none yet"  # the last skill, and how it ended
        self._told: tuple[str, float] = ("", float("-inf"))  # the status that was told last, and when
        self.members: dict[str, MemberBridge] = {}  # the bridges of the other robots, by their names
        self._robots: Sequence[str] = ()  # those that share the world; none where there is one
        self._somebody_by: float | None = None  # until when somebody who confirms must be there; None: nobody need be
        super().__init__(name, **kwargs)
        declare(self, BridgeSettings)
        self._settings = settings_of(self, BridgeSettings)
        self.heartbeat = Heartbeat(self)
        Diagnostics(self, "world", self._report)

    # ------------------------------------------------------------------ lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load world and policy, make the endpoints; fails as long as something moves in the world that was before."""
        if self._leaving:
            self.get_logger().error("what the world before was told to stop has not ended yet; configure again later")
            return TransitionCallbackReturn.FAILURE
        try:
            self._policy = load_policy(self._settings.policy) if self._settings.policy else None
            self._host(self.load())
        except Exception as error:  # of whoever wrote the world, too
            self.get_logger().error(str(error) or type(error).__name__)
            return TransitionCallbackReturn.FAILURE
        if not self._offered:
            self._offer()
        return self._with_members("configure")

    def _with_members(self, transition: str) -> TransitionCallbackReturn:
        """Let the bridges of the other robots do what this one does."""
        for member in self.members.values():
            done = getattr(member, f"trigger_{transition}")()
            if done is not TransitionCallbackReturn.SUCCESS:
                self.get_logger().error(f"{member.get_fully_qualified_name()} did not {transition}")
                return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def _offer(self) -> None:
        """Make the endpoints; they stay, so that what is under way when the node is cleaned up can be answered."""
        group = ReentrantCallbackGroup()
        self._waker, self._resetting = Waker(self), None
        self._observation = self.create_publisher(ObservationMsg, "~/observation", LATCHED)
        self._status = self.create_publisher(BridgeStatus, "~/status", LATCHED)
        self._ended = self.create_publisher(SkillEnded, "~/skill_ended", 10)
        self._image = self.create_publisher(Image, "~/image", 1)
        self._person = RosPerson(self, self.heartbeat)
        self._action = ActionServer(
            self,
            ExecuteSkill,
            "~/execute_skill",
            execute_callback=self._execute,
            goal_callback=self._consider,
            cancel_callback=self._cancel,
            callback_group=group,
            result_timeout=1,  # every status message names all goals that are kept
        )
        self._offered = [
            self.create_service(kind, f"~/{name}", callback, callback_group=group)
            for kind, name, callback in (
                (ResetWorld, "reset", self._on_reset),
                (Observe, "observe", self._on_observe),
                (AvailableSkills, "available_skills", self._on_available_skills),
                (EvaluateGoal, "evaluate", self._on_evaluate),
                (DescribeHousehold, "household", self._on_household),
            )
        ]
        steady.every(self, 0.1, self._look_after)
        steady.every(self, STATUS_LOOK, self._tell_status)

    @told
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to carry skills out."""
        self._active = True
        asks = self._policy is not None and any(rule.verdict is Verdict.CONFIRM for rule in self._policy.rules)
        self._somebody_by = steady.now() + DISCOVERY if asks else None
        self._with_members("activate")
        return super().on_activate(state)

    @told
    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the skill that runs and refuse further ones."""
        self._with_members("deactivate")
        self.begin_stop()
        return super().on_deactivate(state)

    @told
    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release the world, as soon as nothing of it moves any more."""
        self._with_members("cleanup")
        self.release()
        return TransitionCallbackReturn.SUCCESS

    @told
    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the skill that runs, release the world as soon as nothing of it moves any more."""
        self._with_members("shutdown")
        self.begin_stop()
        self.release()
        return TransitionCallbackReturn.SUCCESS

    def _host(self, world: World) -> None:
        """Host a world; another one that was there is closed.

        Raises:
            UserError: The policy does not fit it.
        """
        if world is self._hosted:
            return
        settings, policy = self._settings, self._policy
        if policy is not None:
            self._check_policy(policy, world)
        self.release()
        limit = settings.skill_timeout
        limited = SkillTimeLimit(world, limit, settings.stop_timeout, answer_seconds=limit)
        self._hosted, self._world = world, limited if policy is None else PolicyGuard(limited, policy, self._ask)
        self._share_out(world)

    def _share_out(self, world: World) -> None:
        """Give the bridge of each other robot what it hosts."""
        first, *others = team_of(world).items() or [("", world)]
        self._robots = (first[0], *dict(others)) if others else ()
        beside = self.get_namespace().rstrip("/").removesuffix(f"/{first[0]}")
        for name, robot in others:
            if name in self.members:
                self.members[name].take(robot, self._robots)
                continue
            member = self.members[name] = MemberBridge(self, f"{beside}/{name}", robot, self._robots)
            if self.executor is not None:
                self.executor.add_node(member)

    def _check_policy(self, policy: SkillPolicy, world: World) -> None:
        try:
            policy.check(world.household.actions, world.words, world.free_verbs, world.household.skills)
        except UserError:
            world.close()
            raise
        if not world.words and any(rule.object for rule in policy.rules):
            self.get_logger().warning(f"{policy.where}: the world does not say its words: the objects are not checked")

    def release(self) -> None:
        """Close the world as soon as nothing of it moves any more, or after `stop_timeout`."""
        if self._hosted is not None:
            until = steady.now() + self._settings.stop_timeout
            self._leaving.append(_Leaving(self._hosted, asked(self._hosted.at_rest), until))
            self._hosted = self._world = None
            self._close_what_rests()

    def _close_what_rests(self, *, in_any_case: bool = False) -> None:
        for one in list(self._leaving):
            if in_any_case or one.rest.done() or steady.now() > one.until:
                self._leaving.remove(one)
                try:
                    one.world.close()
                except Exception:  # of whoever wrote the world
                    self.get_logger().error(f"the world could not be closed: {traceback.format_exc()}")

    @abc.abstractmethod
    def load(self) -> World:
        """Make the world that the parameters name.

        Raises:
            UserError: They name none; the message says which parameter.
        """

    def about(self) -> Mapping[str, Any]:
        """Say which world it is, ``{"name": …, "settings": {…}, "house": …}``; nothing where nobody knows."""
        return {}

    def lacks(self) -> str:
        """Say what the world needs and is not there, or that there is none."""
        return "the bridge is not configured" if self._hosted is None else self._hosted.lacks()

    def change_task(self, task_id: int) -> World | None:
        """Return a world for another task; None where there is no such task.

        Raises:
            UserError: It cannot be made.
        """
        return None

    def describe_task(self, response: ResetWorld.Response) -> None:
        """Write into a response which task the world has; nothing where it has none."""

    def asks_for(self, instruction: str) -> bool:
        """Whether the world's goal is what an instruction asks for."""
        return True

    # ------------------------------------------------------------------ skills

    def _consider(self, goal: ExecuteSkill.Goal) -> GoalResponse:
        if not self._active or self._busy:
            self.get_logger().warning(f"'{goal.skill}' rejected: {'busy' if self._busy else 'not active'}")
            return GoalResponse.REJECT
        self._busy = True
        return GoalResponse.ACCEPT

    def _cancel(self, goal_handle: Any) -> CancelResponse:
        self._stop_skill()
        return CancelResponse.ACCEPT

    def _stop_skill(self) -> None:
        if self._skill is not None:
            self._skill.cancel()

    async def _execute(self, goal_handle: Any) -> ExecuteSkill.Result:
        try:
            observation, message, skills = await self._carry_out(goal_handle)
        finally:
            self._stop_skill()
            self._busy, self._skill, self._question, self._goal_handle = False, None, None, None
        outcome = observation.outcome
        if goal_handle.is_cancel_requested and outcome is not Outcome.WORLD_UNAVAILABLE:
            outcome = Outcome.CANCELED
        skill, seen = goal_handle.request.skill, self._as_msg(observation)
        came = {"outcome": OUTCOME_CODES[outcome], "message": message, "observation": seen, **offered_to_msg(skills)}
        self._ended.publish(SkillEnded(goal_id=goal_handle.goal_id, skill=skill, **came))  # first: it is waited for
        if outcome is Outcome.CANCELED and goal_handle.is_cancel_requested:
            goal_handle.canceled()
        elif outcome is Outcome.DONE:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        self._last = f"'{skill}': {outcome.value}"
        self._publish(observation, seen)
        return ExecuteSkill.Result(**came)

    async def _carry_out(self, goal_handle: Any) -> tuple[Observation, str, Sequence[Offered]]:
        """Carry a skill out; returns what came of it, what went wrong, and what may be tried next where that is known.

        Where it was stopped, nothing moves any more, or the outcome says that nobody knows.
        """
        goal, world = goal_handle.request, self._world
        try:
            skill = _skill_in(goal, () if world is None else world.household.skills)
        except ValueError as error:
            return _told(refusal(str(error), Outcome.UNKNOWN_SKILL))
        if goal_handle.is_cancel_requested:
            return _told(refusal("canceled before it began", Outcome.CANCELED))
        if not self._active or world is None:
            return _gone(WorldError(f"'{goal.skill}' did not begin: the bridge was deactivated"))
        self._goal_handle = goal_handle
        self._skill = pending = asked(lambda: world.execute(skill))
        await self._waker.settled(pending)
        stopped = pending.cancelled()
        try:
            observation = refusal("canceled", Outcome.CANCELED) if stopped else pending.take()
        except Exception as error:
            return _gone(error)
        skills = asked(world.available_skills)  # where a skill was stopped, this waits until it has ended
        if not stopped:
            self._skill = skills
        await self._waker.settled(skills)
        if stopped and not goal_handle.is_cancel_requested:  # whoever asked for it did not: no word on the world
            return _gone(WorldError(f"'{goal.skill}' was stopped: the bridge was deactivated, or is ending"))
        try:
            return _told(observation, skills.take())
        except Exception as error:
            return _gone(error) if stopped else _told(observation)

    def _ask(self, skill: str, reason: str) -> Pending[str]:
        """Ask a person; the answer is why the skill is refused, or nothing where it is approved."""
        self._feedback(ExecuteSkill.Feedback.CONFIRMING, 0.0)
        question = f"May '{skill}' be carried out?"
        put = Question(question, self._settings.confirm_timeout, goal=reason, skill=skill)

        def read(answer: Answer) -> str:
            return "" if approves(answer.text) else f"'{skill}' was not approved: {quoted(answer.text)}"

        self._question = answer = mapped(self._person.ask(put), read)
        return answer

    def _look_after(self) -> None:
        """Tell how a skill goes that takes longer than this timer."""
        self._close_what_rests()
        self._look_for_somebody()
        if self._question is not None and not self._question.done():
            return
        if self._goal_handle is not None and self._goal_handle.is_active:
            self._feedback(ExecuteSkill.Feedback.EXECUTING, -1.0)

    def _tell_status(self) -> None:
        """Tell whether anything may move."""
        halted = "" if self._world is None else self._world.halted()
        now = steady.now()
        if halted != self._told[0] or now - self._told[1] >= STATUS_PERIOD:
            self._told = halted, now
            self._status.publish(BridgeStatus(stamp=self.get_clock().now().to_msg(), halted=halted))

    def _look_for_somebody(self) -> None:
        """Say once where the policy wants a person to confirm, and nobody is there who would be asked."""
        if self._somebody_by is None:
            return
        there = self._person.there
        if there or steady.now() > self._somebody_by:
            self._somebody_by = None
        if not there and self._somebody_by is None:
            self.get_logger().warning(
                f"the skill policy wants a person to confirm skills, but nobody answers {self._person.name}: they are "
                f"refused until somebody does; {HINT}"
            )

    def _feedback(self, phase: int, fraction: float) -> None:
        self._goal_handle.publish_feedback(ExecuteSkill.Feedback(phase=phase, fraction=fraction))

    # ------------------------------------------------------------------ diagnostics

    def _report(self) -> Report:
        hosted, policy = self._hosted, self._policy
        halted = "" if hosted is None else hosted.halted()
        skill = "" if self._goal_handle is None else self._goal_handle.request.skill
        values = {
            "world": "none" if hosted is None else type(hosted).__name__,
            "skill": skill or "none",
            "last skill": self._last,
            "may not move because": halted or "it may",
            "skill policy": "none" if policy is None else policy.where,
            "who confirms": "there" if self._offered and self._person.there else "nobody",
            **({} if hosted is None else hosted.status()),
        }
        if not self._active:
            return Report(STALE, "not active", values)
        if emergency := "" if hosted is None else hosted.emergency():
            return Report(ERROR, f"emergency: {emergency}", values)
        if halted:
            return Report(WARN, halted, values)
        if lacks := self.lacks():
            return Report(WARN, lacks, values)
        return Report(OK, f"carries out '{skill}'" if skill else "waits for a skill", values)

    # ------------------------------------------------------------------ services

    async def _on_reset(self, request: ResetWorld.Request, response: ResetWorld.Response) -> ResetWorld.Response:
        """Reset the world, one after the other: each tells of its own task."""
        while self._resetting is not None:
            await self._waker.settled(self._resetting)
        self._resetting = ended = Pending[None]()
        try:
            return await self._reset(request, response)
        finally:
            if self._resetting is ended:  # and the node was not configured anew meanwhile
                self._resetting = None
            ended.succeed(None)

    async def _reset(self, request: ResetWorld.Request, response: ResetWorld.Response) -> ResetWorld.Response:
        if not self._ready(response):
            return response
        if request.task_id != -1:
            changed = await self._aside(lambda: self.change_task(request.task_id), response)
            if changed is None:
                return response
            (other,) = changed
            if other is None:
                response.error_code = ResetWorld.Response.UNKNOWN_TASK
                response.message = f"there is no task {request.task_id}"
                return response
            if not self._ready(response):  # any more
                if other is not self._hosted:
                    other.close()
                return response
            try:
                self._host(other)
            except UserError as error:
                response.error_code, response.message = ResetWorld.Response.WORLD_UNAVAILABLE, str(error)
                return response
        world, seed = self._world, None if request.seed < 0 else request.seed
        assert world is not None
        answer = await self._world_says(lambda: world.reset(seed), response)
        if answer is not None:
            response.observation = self._as_msg(answer[0])
            self._publish(answer[0], response.observation)
            await self._aside(lambda: self.describe_task(response), response)
        return response

    async def _on_observe(self, request: Observe.Request, response: Observe.Response) -> Observe.Response:
        if self._ready(response) and self._world is not None:
            ask = self._world.survey if request.everything else self._world.observe
            answer = await self._world_says(ask, response)
            if answer is not None:
                response.observation = self._as_msg(answer[0])
                self._publish(answer[0], response.observation)
        return response

    async def _on_available_skills(
        self, request: AvailableSkills.Request, response: AvailableSkills.Response
    ) -> AvailableSkills.Response:
        world = self._world
        if self._ready(response) and world is not None:
            answer = await self._world_says(world.available_skills, response)
            if answer is not None:
                offered = offered_to_msg(answer[0])
                response.skills, response.offers = offered["skills"], offered["offers"]
        return response

    def _on_household(
        self, request: DescribeHousehold.Request, response: DescribeHousehold.Response
    ) -> DescribeHousehold.Response:
        if self._ready(response) and self._world is not None:
            household_to_msg(self._world.household, self._world.recallable, response)
            response.places, response.robots = list(self._world.places), list(self._robots)
            response.world = as_json(self.about())
        return response

    async def _on_evaluate(
        self, request: EvaluateGoal.Request, response: EvaluateGoal.Response
    ) -> EvaluateGoal.Response:
        if self._ready(response) and self._world is not None:
            answer = await self._world_says(self._world.score, response)
            if answer is not None and answer[0] is not None:
                own = await self._aside(lambda: not request.instruction or self.asks_for(request.instruction), response)
                if own == (True,):
                    response.has_goal, response.gsr, response.ssr = True, answer[0].gsr, answer[0].ssr
        return response

    def _ready(self, response: Any) -> bool:
        if not self._active:
            response.error_code, response.message = type(response).NOT_ACTIVE, "the bridge is not active"
        return self._active

    async def _aside(self, work: Callable[[], Any], response: Any) -> tuple[Any] | None:
        """Do what may take a while: what a task asks for, its simulator has to tell. Returns as :meth:`_world_says`."""
        worker = Worker("task", WorldError)
        answer = await self._world_says(lambda: worker.do(work), response)
        worker.close()
        return answer

    async def _world_says(self, ask: Callable[[], Pending[Any]], response: Any) -> tuple[Any] | None:
        """Wait for the world; returns its answer in a tuple, or None with the error in the response."""
        pending = await self._waker.settled(asked(ask))
        try:
            return (pending.take(),)
        except Exception as error:
            response.error_code = type(response).WORLD_UNAVAILABLE
            response.message = str(error) or type(error).__name__
            return None

    def _as_msg(self, observation: Observation) -> ObservationMsg:
        return observation_to_msg(observation, self.get_clock().now().to_msg())

    def _publish(self, observation: Observation, msg: ObservationMsg) -> None:
        """Tell an observation, which is a message already, to whoever listens."""
        if observation.text:
            self._observation.publish(msg)
        if observation.picture is not None:
            self._image.publish(picture_to_msg(observation.picture, msg.stamp))

    # ------------------------------------------------------------------ the end

    def begin_stop(self) -> None:
        """Stop the skill that runs."""
        for member in self.members.values():
            member.begin_stop()
        self._active = False
        self._stop_skill()
        if self._hosted is not None:
            self._rest = asked(self._hosted.at_rest)

    def stopped(self) -> bool:
        """Whether no skill runs and nothing moves."""
        at_rest = all(member.stopped() for member in self.members.values())
        return at_rest and not self._busy and not self._leaving and self._rest.done()

    def destroy_node(self) -> None:
        """Release world and endpoints."""
        for member in self.members.values():
            if self.executor is not None:
                self.executor.remove_node(member)
            member.destroy_node()
        self.members = {}
        self.release()
        self._close_what_rests(in_any_case=True)
        if self._offered:
            self._action.destroy()
        super().destroy_node()


class MemberBridge(Bridge):
    """The bridge of another robot of a world that a bridge hosts.

    Args:
        host: That bridge; this one has its name, context and settings.
        namespace: The namespace.
        robot: What it hosts.
        robots: The robots of that world.
    """

    def __init__(self, host: Bridge, namespace: str, robot: World, robots: Sequence[str]) -> None:
        super().__init__(
            host.get_name(),
            namespace=namespace,
            context=host.context,
            parameter_overrides=[host.get_parameter(name) for name in BridgeSettings.model_fields],
            use_global_arguments=False,
        )
        self._robot, self._robots = robot, robots

    def load(self) -> World:
        """Return the robot."""
        return self._robot

    def take(self, robot: World, robots: Sequence[str]) -> None:
        """Host the same robot in another world."""
        self._robot, self._robots = robot, robots
        self._host(robot)

    def _share_out(self, world: World) -> None:
        """Its host has the other robots."""


@dataclass(eq=False)
class _Leaving:
    """A world that is to be closed as soon as nothing of it moves."""

    world: World
    rest: Pending[None]
    until: float


def _skill_in(goal: ExecuteSkill.Goal, skills: Sequence[Skill]) -> str:
    """Return the skill of a goal: a declared one by its name and arguments, or what its words say.

    Raises:
        ValueError: Name and arguments are no skill, or not that of the words; the message says why.
    """
    if not goal.name:
        return str(goal.skill)
    known = {skill.name: skill for skill in skills}
    if goal.name not in known:
        raise ValueError(f"there is no skill named '{goal.name}'{or_nearest(goal.name, known)}")
    call = known[goal.name].read(settings_from(goal.arguments))
    if goal.skill and goal.skill != call:
        raise ValueError(f"name and arguments are '{call}', and not '{goal.skill}'")
    return call


def _gone(error: Exception) -> tuple[Observation, str, Sequence[Offered]]:
    return Observation("", Outcome.WORLD_UNAVAILABLE), str(error) or type(error).__name__, []


def _told(observation: Observation, skills: Sequence[Offered] = ()) -> tuple[Observation, str, Sequence[Offered]]:
    return observation, "" if observation.outcome is Outcome.DONE else observation.text, skills
