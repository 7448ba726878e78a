"""What every bridge does: hosts a world behind actions and services, and enforces the skill policy."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from rclpy.qos import DurabilityPolicy, QoSProfile
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import Observation as ObservationMsg
from reactree_interfaces.srv import AvailableSkills, ConfirmSkill, EvaluateGoal, Observe, ResetWorld
from sensor_msgs.msg import Image

from reactree_ros.errors import UserError
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.messages import OUTCOME_CODES, observation_to_msg, picture_to_msg
from reactree_ros.nodes.parameters import declare
from reactree_ros.nodes.waiting import Waker
from reactree_ros.pending import Pending
from reactree_ros.world.port import Observation, Outcome, World
from reactree_ros.world.skill_policy import SkillPolicy, Verdict, load_policy


class Bridge(LifecycleNode, abc.ABC):
    """Hosts a world; a node of its own for each kind of world says in :meth:`load` which.

    Actions:
        ``~/execute_skill`` (ExecuteSkill): one skill at a time; a further goal is rejected. Canceling stops the skill.

    Services:
        ``~/reset``, ``~/observe``, ``~/available_skills``, ``~/evaluate``.

    Publishes:
        ``~/observation`` (Observation; reliable, transient local, depth 1): the latest observation.
        ``~/image`` (sensor_msgs/Image): what the agent's camera saw after a skill, of worlds that take pictures.

    Uses:
        the service ``confirm_service`` (ConfirmSkill), where the policy says so.

    Parameters:
        ``policy``, ``confirm_service``, ``confirm_timeout``, ``skill_timeout``, ``stop_timeout``; read when the node
        is configured.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            kwargs: Passed on to :class:`rclpy.lifecycle.LifecycleNode`.
        """
        super().__init__(name, **kwargs)
        declare(self, "policy", "", "skill policy, a YAML file; empty: every skill is carried out")
        declare(self, "confirm_service", "confirm_skill", "service that asks a person, for skills to be confirmed")
        declare(self, "confirm_timeout", 30.0, "longest wait for a person, in seconds", between=(0.1, 3600.0))
        declare(self, "skill_timeout", 300.0, "longest time for one skill, in seconds", between=(0.1, 86400.0))
        declare(self, "stop_timeout", 10.0, "longest wait for the world to come to rest, in s", between=(0.1, 3600.0))
        self._world: World | None = None
        self._policy: SkillPolicy | None = None
        self._active = False
        self._skill: Pending[Any] | None = None
        self._question: Pending[Any] | None = None
        self._rest: Pending[None] | None = None
        self._goal_handle: Any = None
        self._skill_began = self._rest_began = self._asked = 0.0
        self._busy = False
        self._offered: list[Any] = []

    # ------------------------------------------------------------------ lifecycle

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Load world and policy, make the endpoints."""
        try:
            policy = self.string("policy")
            self._policy = load_policy(policy) if policy else None
            self._world = self.load()
        except UserError as error:
            self.get_logger().error(str(error))
            return TransitionCallbackReturn.FAILURE
        if not self._offered:
            self._offer()
        return TransitionCallbackReturn.SUCCESS

    def _offer(self) -> None:
        """Make the endpoints; they stay, so that what is under way when the node is cleaned up can be answered."""
        group = ReentrantCallbackGroup()
        self._waker = Waker(self)
        self._calls = Calls(self, patience=self.get_parameter("confirm_timeout").value)
        latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
        self._observation = self.create_publisher(ObservationMsg, "~/observation", latched)
        self._image = self.create_publisher(Image, "~/image", 1)
        self._confirm = self.create_client(ConfirmSkill, self.string("confirm_service"), callback_group=group)
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
            )
        ]
        self.create_timer(0.1, self._look_after)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Begin to carry skills out."""
        self._active = True
        return super().on_activate(state)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the skill that runs and refuse further ones."""
        self._active = False
        self._stop_skill()
        return super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Release the world."""
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Stop the skill that runs, release the world."""
        self._active = False
        self._stop_skill()
        self._release()
        return TransitionCallbackReturn.SUCCESS

    def _release(self) -> None:
        if self._world is not None:
            self._world.close()
            self._world = None

    @abc.abstractmethod
    def load(self) -> World:
        """Make the world that the parameters name.

        Raises:
            UserError: They name none; the message says which parameter.
        """

    def change_task(self, task_id: int) -> World | None:
        """Return a world for another task; None where there is no such task."""
        return None

    def describe_task(self, response: ResetWorld.Response) -> None:
        """Write into a response which task the world has; nothing where it has none."""

    def asks_for(self, instruction: str) -> bool:
        """Whether the world's goal is what an instruction asks for."""
        return True

    def string(self, name: str) -> str:
        """Return the value of a string parameter."""
        return str(self.get_parameter(name).value)

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
        for pending in (self._question, self._skill):
            if pending is not None:
                pending.cancel()

    async def _execute(self, goal_handle: Any) -> ExecuteSkill.Result:
        try:
            observation, message = await self._carry_out(goal_handle)
            skills = await self._next_skills(observation)
        finally:
            self._busy, self._skill, self._question, self._goal_handle = False, None, None, None
        outcome = Outcome.CANCELED if goal_handle.is_cancel_requested else observation.outcome
        if outcome is Outcome.CANCELED and goal_handle.is_cancel_requested:
            goal_handle.canceled()
        elif outcome is Outcome.DONE:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        msg = self._publish(observation)
        return ExecuteSkill.Result(outcome=OUTCOME_CODES[outcome], message=message, observation=msg, skills=skills)

    async def _carry_out(self, goal_handle: Any) -> tuple[Observation, str]:
        goal = goal_handle.request
        if not _fits(goal.skill, goal.verb, goal.target):
            return _refusal(
                Outcome.UNKNOWN_SKILL, f"the skill '{goal.skill}' is not its verb '{goal.verb}' with '{goal.target}'"
            )
        verdict, reason = Verdict.ALLOW, ""
        if self._policy is not None:
            verdict, reason = self._policy.judge(goal.skill)
            if verdict is Verdict.CONFIRM:
                self._feedback(goal_handle, ExecuteSkill.Feedback.CONFIRMING, 0.0)
                reason = await self._ask(goal.skill, reason)
                verdict = Verdict.DENY if reason else Verdict.ALLOW
        world = self._world
        if goal_handle.is_cancel_requested or not self._active or world is None:
            return _refusal(Outcome.CANCELED, "canceled before it began")
        if verdict is Verdict.DENY:
            return _refusal(Outcome.REFUSED_BY_POLICY, reason)
        self._goal_handle, self._skill_began = goal_handle, self._seconds()
        self._skill = pending = _asked_of(lambda: world.execute(goal.skill))
        await self._waker.settled(pending)
        if pending.cancelled():
            if not await self._comes_to_rest(world):
                limit = self.get_parameter("stop_timeout").value
                return Observation("", Outcome.WORLD_UNAVAILABLE), f"'{goal.skill}' did not stop within {limit:g} s"
            if goal_handle.is_cancel_requested or not self._active:
                return _refusal(Outcome.CANCELED, "canceled")
            limit = self.get_parameter("skill_timeout").value
            return _refusal(Outcome.TIMEOUT, f"took longer than {limit:g} s and was stopped")
        try:
            observation = pending.take()
        except Exception as error:
            return Observation("", Outcome.WORLD_UNAVAILABLE), str(error)
        return observation, "" if observation.outcome is Outcome.DONE else observation.text

    async def _comes_to_rest(self, world: World) -> bool:
        """Wait until nothing moves any more, within its bound; says whether nothing does."""
        self._rest = resting = _asked_of(world.at_rest)
        self._rest_began = self._seconds()
        await self._waker.settled(resting)
        self._rest = None
        return not resting.cancelled() and resting.exception() is None

    async def _next_skills(self, observation: Observation) -> list[str]:
        """Say what may be tried next, so that the planner need not ask; nothing where the world cannot say."""
        if self._world is None or observation.outcome is Outcome.WORLD_UNAVAILABLE:
            return []
        self._skill = pending = _asked_of(self._world.available_skills)
        await self._waker.settled(pending)
        try:
            return list(pending.take())
        except Exception:
            return []

    async def _ask(self, skill: str, reason: str) -> str:
        """Ask a person; returns why the skill is refused, or nothing where it is approved."""
        limit = self.get_parameter("confirm_timeout").value
        pending = self._calls.call(self._confirm, ConfirmSkill.Request(skill=skill, reason=reason, seconds=limit))
        self._question, self._asked = pending, self._seconds()
        await self._waker.settled(pending)
        if pending.cancelled():
            return f"nobody confirmed '{skill}' within {limit:g} s"
        try:
            answer = pending.take()
        except Exception as error:
            return f"nobody could be asked about '{skill}': {error}"
        return "" if answer.approved else f"'{skill}' was not approved: {answer.message or 'no reason given'}"

    def _look_after(self) -> None:
        """Keep the bounds of what is waited for, and tell how a skill goes that takes longer than this timer."""
        self._calls.watch()
        confirm_timeout = self.get_parameter("confirm_timeout").value
        if self._question is not None and self._seconds() - self._asked > confirm_timeout:
            self._question.cancel()
        if self._goal_handle is not None and self._goal_handle.is_active:
            self._feedback(self._goal_handle, ExecuteSkill.Feedback.EXECUTING, -1.0)
        stop_timeout = self.get_parameter("stop_timeout").value
        if self._rest is not None and self._seconds() - self._rest_began > stop_timeout:
            self._rest.cancel()
        if self._skill is not None and self._seconds() - self._skill_began > self.get_parameter("skill_timeout").value:
            self._skill.cancel()

    def _feedback(self, goal_handle: Any, phase: int, fraction: float) -> None:
        goal_handle.publish_feedback(ExecuteSkill.Feedback(phase=phase, fraction=fraction))

    # ------------------------------------------------------------------ services

    async def _on_reset(self, request: ResetWorld.Request, response: ResetWorld.Response) -> ResetWorld.Response:
        if not self._ready(response):
            return response
        if request.task_id != -1:
            world = self.change_task(request.task_id)
            if world is None:
                response.error_code = ResetWorld.Response.UNKNOWN_TASK
                response.message = f"there is no task {request.task_id}"
                return response
            if world is not self._world:
                self._release()
            self._world = world
        assert self._world is not None
        if await self._world_says(self._world.reset, response) is not None:
            self.describe_task(response)
        return response

    async def _on_observe(self, request: Observe.Request, response: Observe.Response) -> Observe.Response:
        if self._ready(response) and self._world is not None:
            ask = self._world.survey if request.everything else self._world.observe
            answer = await self._world_says(ask, response)
            if answer is not None:
                response.observation = self._publish(answer[0])
        return response

    async def _on_available_skills(
        self, request: AvailableSkills.Request, response: AvailableSkills.Response
    ) -> AvailableSkills.Response:
        world = self._world
        if self._ready(response) and world is not None:
            answer = await self._world_says(world.available_skills, response)
            if answer is not None:
                response.skills, response.recallable = list(answer[0]), list(world.recallable)
                response.domain = world.domain.value
        return response

    async def _on_evaluate(
        self, request: EvaluateGoal.Request, response: EvaluateGoal.Response
    ) -> EvaluateGoal.Response:
        if self._ready(response) and self._world is not None:
            answer = await self._world_says(self._world.score, response)
            own = not request.instruction or self.asks_for(request.instruction)
            if own and answer is not None and answer[0] is not None:
                response.has_goal, response.gsr, response.ssr = True, answer[0].gsr, answer[0].ssr
        return response

    def _ready(self, response: Any) -> bool:
        if not self._active:
            response.error_code, response.message = type(response).NOT_ACTIVE, "the bridge is not active"
        return self._active

    async def _world_says(self, ask: Callable[[], Pending[Any]], response: Any) -> tuple[Any] | None:
        """Wait for the world; returns its answer in a tuple, or None with the error in the response."""
        pending = await self._waker.settled(_asked_of(ask))
        try:
            return (pending.take(),)
        except Exception as error:
            response.error_code, response.message = type(response).WORLD_UNAVAILABLE, str(error)
            return None

    def _publish(self, observation: Observation) -> ObservationMsg:
        """Tell an observation to whoever listens; returns it as a message."""
        now = self.get_clock().now().to_msg()
        msg = observation_to_msg(observation, now)
        if observation.text:
            self._observation.publish(msg)
        if observation.picture is not None:
            self._image.publish(picture_to_msg(observation.picture, now))
        return msg

    def _seconds(self) -> float:
        return float(self.get_clock().now().nanoseconds) / 1e9

    # ------------------------------------------------------------------ the end

    def begin_stop(self) -> None:
        """Stop the skill that runs."""
        self._active = False
        self._stop_skill()

    def stopped(self) -> bool:
        """Whether no skill runs."""
        return not self._busy

    def destroy_node(self) -> None:
        """Release world and endpoints."""
        self._release()
        if self._offered:
            self._action.destroy()
        super().destroy_node()


def _asked_of(ask: Callable[[], Pending[Any]]) -> Pending[Any]:
    """Ask the world; one that raises is one that failed."""
    try:
        return ask()
    except Exception as error:
        return Pending.failed(error)


def _fits(skill: str, verb: str, target: str) -> bool:
    """Whether a skill is its verb with its target, as far as they are given."""
    if verb and target:
        return skill == f"{verb} {target}"
    return skill.startswith(f"{verb} " if verb else "") and skill.endswith(f" {target}" if target else "")


def _refusal(outcome: Outcome, reason: str) -> tuple[Observation, str]:
    return Observation(f"The skill was not carried out: {reason}.", outcome), reason
