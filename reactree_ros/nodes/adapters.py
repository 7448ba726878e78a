"""The two ports over ROS: a skill is an action goal, a decision a service call. Both poll, neither blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.node import Node
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.srv import (
    AbortGeneration,
    AvailableSkills,
    EvaluateGoal,
    Generate,
    Observe,
    ResetWorld,
)

from reactree_ros.agent.prompt import Domain
from reactree_ros.errors import UserError
from reactree_ros.llm.port import DecisionRequest, LanguageModel, Reply
from reactree_ros.nodes.calls import Calls, Waiting, settle
from reactree_ros.nodes.messages import OUTCOMES, error_from_msg, observation_from_msg, reply_from_msg, request_to_msg
from reactree_ros.pending import Pending
from reactree_ros.world.port import Observation, Outcome, Score, World, WorldError


def mapped(source: Pending[Any], function: Callable[[Any], Any]) -> Pending[Any]:
    """Return what comes of a pending result by way of a function; cancelling it cancels the source."""
    pending: Pending[Any] = Pending(on_cancel=source.cancel)

    def finish(done: Any) -> None:
        try:
            pending.succeed(function(done.result()))
        except BaseException as error:
            pending.fail(error)

    source.add_done_callback(lambda done: None if done.cancelled() else finish(done))
    return pending


class RosWorld(World):
    """A world behind a bridge node.

    Args:
        node: Whose clients are used.
        bridge: Name of the bridge node, relative to the node's namespace.
        calls: Looks after what is waited for.
    """

    def __init__(self, node: Node, bridge: str, calls: Calls) -> None:
        self._node, self._calls, self._bridge = node, calls, bridge
        self._now: tuple[str, ...] = ()  # the skills that may be tried, as long as nothing has happened since
        self._skills = ActionClient(node, ExecuteSkill, f"{bridge}/execute_skill")
        self._reset = node.create_client(ResetWorld, f"{bridge}/reset")
        self._observe = node.create_client(Observe, f"{bridge}/observe")
        self._available = node.create_client(AvailableSkills, f"{bridge}/available_skills")
        self._evaluate = node.create_client(EvaluateGoal, f"{bridge}/evaluate")

    def reset(self) -> Pending[None]:
        """Bring the world back to where its task starts."""
        return mapped(self.reset_to(-1), lambda _: None)

    def reset_to(self, task_id: int) -> Pending[ResetWorld.Response]:
        """Bring the world to the start of a task of the bridge's task file; -1: the task it has."""
        self._now = ()
        response = self._calls.call(self._reset, ResetWorld.Request(task_id=task_id))
        return self._checked(mapped(response, self._known_task))

    @staticmethod
    def _known_task(msg: ResetWorld.Response) -> ResetWorld.Response:
        if msg.error_code == ResetWorld.Response.UNKNOWN_TASK:
            raise UserError(f"{msg.message}; task_id must be a task of the bridge's task file")
        return msg

    def observe(self) -> Pending[Observation]:
        """Look around; what may be tried is asked anew, too: somebody else may have been at work."""
        self._now = ()
        response = self._checked(self._calls.call(self._observe, Observe.Request()))
        return mapped(response, lambda msg: observation_from_msg(msg.observation))

    def survey(self) -> Pending[Observation]:
        """Ask for all there is, seen or not."""
        response = self._checked(self._calls.call(self._observe, Observe.Request(everything=True)))
        return mapped(response, lambda msg: observation_from_msg(msg.observation))

    def available_skills(self) -> Pending[Sequence[str]]:
        """Ask which skills may be tried, and about what working memory may be asked; or know it from the last skill."""
        if self._now:
            return Pending.of(self._now)
        response = self._checked(self._calls.call(self._available, AvailableSkills.Request()))
        return mapped(response, self._take_skills)

    def _take_skills(self, msg: AvailableSkills.Response) -> Sequence[str]:
        self.recallable, self.domain, self._now = tuple(msg.recallable), Domain(msg.domain), tuple(msg.skills)
        return self._now

    def score(self) -> Pending[Score | None]:
        """Ask how far the goal of the world's task is reached."""
        return self.score_of("")

    def score_of(self, instruction: str) -> Pending[Score | None]:
        """Ask how far an instruction's goal is reached; None where it is not one of the world's task."""
        response = self._checked(self._calls.call(self._evaluate, EvaluateGoal.Request(instruction=instruction)))
        return mapped(response, lambda msg: Score(msg.gsr, msg.ssr) if msg.has_goal else None)

    def _checked(self, response: Pending[Any]) -> Pending[Any]:
        def check(msg: Any) -> Any:
            if msg.error_code != type(msg).NONE:
                raise WorldError(f"{self._bridge}: {msg.message}")
            return msg

        return mapped(response, check)

    def execute(self, skill: str) -> Pending[Observation]:
        """Send a skill as a goal; a cancel before the goal was accepted is carried out on acceptance."""
        handles: list[Any] = []
        self._now = ()

        def stop() -> None:
            for handle in handles:
                handle.cancel_goal_async()

        pending: Pending[Observation] = Pending(on_cancel=stop)

        def accepted(future: Any) -> None:
            answer: Pending[Any] = Pending()
            settle(answer, future)
            try:
                handle = answer.take()
            except BaseException as error:
                pending.fail(error)
                return
            if not handle.accepted:
                pending.fail(WorldError(f"{self._bridge} rejected '{skill}': it is busy or not active"))
            elif pending.done():  # cancelled, or given up
                handle.cancel_goal_async()
            else:
                handles.append(handle)
                handle.get_result_async().add_done_callback(finished)

        def finished(future: Any) -> None:
            answer: Pending[Any] = Pending()
            settle(answer, future)
            try:
                pending.succeed(self._observation(skill, answer.take()))
            except BaseException as error:
                pending.fail(error)

        def send() -> None:
            self._skills.send_goal_async(ExecuteSkill.Goal(skill=skill)).add_done_callback(accepted)

        def servers() -> int:
            return self._calls.count(f"{name}/_action/send_goal") if self._skills.server_is_ready() else 0

        name = f"{self._bridge}/execute_skill"
        self._calls.wait(Waiting(name, servers, send, stop, pending, self._calls.now()))
        return pending

    def _observation(self, skill: str, answer: Any) -> Observation:
        result = answer.result
        outcome = OUTCOMES.get(result.outcome, Outcome.EXECUTION)
        if answer.status not in (GoalStatus.STATUS_SUCCEEDED, GoalStatus.STATUS_ABORTED, GoalStatus.STATUS_CANCELED):
            raise WorldError(f"'{skill}' ended in the unknown goal status {answer.status}")
        if outcome is Outcome.WORLD_UNAVAILABLE or not result.observation.text:
            raise WorldError(f"{self._bridge}: {result.message or outcome.value}")
        self._now = tuple(result.skills)
        return observation_from_msg(result.observation, outcome)

    def close(self) -> None:
        """Take the clients out of the node."""
        self._skills.destroy()
        for client in (self._reset, self._observe, self._available, self._evaluate):
            self._node.destroy_client(client)


class RosLanguageModel(LanguageModel):
    """A language model behind an inference node.

    Args:
        node: Whose clients are used.
        inference: Name of the inference node, relative to the node's namespace.
        calls: Looks after what is waited for.
    """

    def __init__(self, node: Node, inference: str, calls: Calls) -> None:
        self._node, self._calls = node, calls
        self._generate = node.create_client(Generate, f"{inference}/generate")
        self._abort = node.create_client(AbortGeneration, f"{inference}/abort")
        self._prefix = f"{node.get_fully_qualified_name()} {node.get_clock().now().nanoseconds}"

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        """Ask the inference node; cancelling stops the generation there."""
        msg = request_to_msg(request)
        msg.id = f"{self._prefix} {request.id}"  # unique among planners, and among their lives
        msg.planner = request.planner or self._prefix

        def abort() -> None:
            if self._abort.service_is_ready():
                self._abort.call_async(AbortGeneration.Request(id=msg.id))

        response = self._calls.call(self._generate, msg, on_cancel=abort)
        return mapped(response, self._take_reply)

    @staticmethod
    def _take_reply(msg: Generate.Response) -> Reply:
        if msg.error_code != Generate.Response.NONE:
            raise error_from_msg(msg)
        return reply_from_msg(msg)

    def close(self) -> None:
        """Take the clients out of the node."""
        for client in (self._generate, self._abort):
            self._node.destroy_client(client)
