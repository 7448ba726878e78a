"""What a planner exchanges with the other nodes in its runs, kept once and exchanged again by bare programs of rclpy.

A step is a request, its answer, the end of a skill, a message on a topic, feedback, or the end of a goal. The bare
programs have messages that were made before, and none of our code but the executor.
"""

from __future__ import annotations

import gc
import pickle
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import rclpy
from rclpy.action import ActionClient, ActionServer
from rclpy.action.server import ServerGoalHandle
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.client import Client
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.publisher import Publisher
from rclpy.qos import DurabilityPolicy, QoSProfile
from rclpy.task import Future
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg
from reactree_interfaces.msg import Observation, SkillEnded

PLANNER, INFERENCE, BRIDGE = "reactree_planner", "inference", "household_bridge"
SKILL = f"/{BRIDGE}/execute_skill"
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
#: Tenths of a second from the servers' being there to the first goal.
SETTLING = 30
#: What only a person's stop sends.
_SELDOM = ("/cancel_goal", "/abort")


class Step(NamedTuple):
    """One step of the planner.

    Attributes:
        what: "call", "answered", "skill", "heard", "publish", "feedback" or "end".
        name: Of the service or topic.
        kind: Type of the service or message.
        msg: The message.
        of: Number of the call that is answered; of a message on a topic, its QoS's depth and durability.
    """

    what: str
    name: str = ""
    kind: Any = None
    msg: Any = None
    of: Any = None


class Keeping:
    """Keeps the steps of the planner in this process; :meth:`save` writes them."""

    def __init__(self) -> None:
        self._steps: list[bytes] = []
        self._calls = 0

    def _keep(self, *step: Any) -> None:
        self._steps.append(pickle.dumps(Step(*step)))  # at once: messages are used again

    def begin(self, skill: type) -> None:
        """Begin, before the planner is made.

        Args:
            skill: The class of a skill's goal: ``send`` sends it, ``_ended`` gets what came of it.
        """
        call, publish = Client.call_async, Publisher.publish
        feedback, succeed = ServerGoalHandle.publish_feedback, ServerGoalHandle.succeed
        send, end = skill.send, skill._ended  # type: ignore[attr-defined]

        def called(client: Any, request: Any) -> Any:
            if client.srv_name.endswith(_SELDOM):
                return call(client, request)
            number, self._calls = self._calls, self._calls + 1
            name = f"/{client.srv_name.lstrip('/')}"
            self._keep("call", name, client.srv_type, request, number)
            future = call(client, request)
            done = future.set_result

            def answered(result: Any) -> None:  # before what follows from it
                self._keep("answered", name, None, result, number)
                done(result)

            future.set_result = answered
            return future

        def published(publisher: Any, msg: Any) -> None:
            if not isinstance(msg, bytes):
                qos = publisher.qos_profile
                self._keep(
                    "publish",
                    publisher.topic_name,
                    publisher.msg_type,
                    msg,
                    (qos.depth, int(qos.durability)),
                )
            publish(publisher, msg)

        def fed_back(handle: Any, msg: Any) -> None:
            self._keep("feedback", "", None, msg)
            feedback(handle, msg)

        def ended(handle: Any, *given: Any) -> None:
            self._keep("end")
            succeed(handle, *given)

        def sent(goal: Any, id: Any) -> None:
            self._keep("skill", SKILL, None, goal._goal)
            send(goal, id)

        def heard(goal: Any, future: Any) -> None:
            self._keep("heard", "", None, future.result().result)
            end(goal, future)

        Client.call_async, Publisher.publish = called, published
        ServerGoalHandle.publish_feedback, ServerGoalHandle.succeed = fed_back, ended
        skill.send, skill._ended = sent, heard  # type: ignore[attr-defined]

    def save(self, file: Path) -> None:
        """Write the steps."""
        file.write_bytes(pickle.dumps(self._steps))


def steps_of(file: Path) -> list[Step]:
    """Read the steps back."""
    return list(map(pickle.loads, pickle.loads(file.read_bytes())))


class BarePlanner(Node):
    """Makes the planner's steps again, each as soon as what came before it in the run has come."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__(PLANNER)
        self._steps, self._at = steps, 0
        self._arrived: set[int] = set()
        self._ended = 0  # skills whose end was heard and not waited for yet
        self._handle: Any = None
        self._began = 0
        self._decided = self.get_clock().now().to_msg()
        calls = {step.name: step.kind for step in steps if step.what == "call"}
        self._requests = {name: self.create_client(kind, name) for name, kind in calls.items()}
        topics = {step.name: step for step in steps if step.what == "publish"}
        self._topics = {name: self.create_publisher(one.kind, name, _qos(*one.of)) for name, one in topics.items()}
        self._skills = ActionClient(self, ExecuteSkill, SKILL)
        self._looking, self._seen = self.create_timer(0.1, self._offer), 0

    def _offer(self) -> None:
        """Take goals when everybody is there and has had time to find this program: what is sent before is lost."""
        self._seen += self._skills.server_is_ready() and all(one.service_is_ready() for one in self._requests.values())
        if self._seen > SETTLING:
            self.destroy_timer(self._looking)
            group = ReentrantCallbackGroup()
            more = {"callback_group": group, "handle_accepted_callback": self._begin}
            ActionServer(self, ExecuteTask, f"/{PLANNER}/execute_task", self._end, **more)

    def _begin(self, handle: Any) -> None:
        """Begin a goal, which is executed at its end: rclpy (7.1.6) would ask a coroutine all the time."""
        self._handle, self._began = handle, self._at
        self._go_on()

    def _end(self, handle: Any) -> ExecuteTask.Result:
        handle.succeed()
        steps = self._steps[self._began : self._at]
        result = ExecuteTask.Result(success=True, verdict="reached", end="done")
        result.decisions = sum(step.kind is DecisionMsg for step in steps)
        result.feedbacks = sum(step.what == "feedback" for step in steps)
        return result

    def _accepted(self, future: Future) -> None:
        future.result().get_result_async().add_done_callback(self._hear)

    def _hear(self, future: Future) -> None:
        self._ended += 1
        self._go_on()

    def _answered(self, step: Step, future: Future) -> None:
        self._arrived.add(step.of)
        if step.name.endswith("/generate"):
            self._decided = self.get_clock().now().to_msg()
        self._go_on()

    def _go_on(self) -> None:
        while self._handle is not None and self._at < len(self._steps):
            step = self._steps[self._at]
            if step.what == "answered" and step.of not in self._arrived:
                return
            if step.what == "heard":
                if not self._ended:
                    return
                self._ended -= 1
            self._at += 1
            if step.what == "call":
                self._requests[step.name].call_async(step.msg).add_done_callback(partial(self._answered, step))
            elif step.what == "skill":
                self._skills.send_goal_async(step.msg).add_done_callback(self._accepted)
            elif step.what == "publish":
                if step.kind is DecisionMsg:
                    step.msg.header.stamp = self._decided
                self._topics[step.name].publish(step.msg)
            elif step.what == "feedback":
                self._handle.publish_feedback(step.msg)
            elif step.what == "end":
                self._handle.execute()
                self._handle = None


def _qos(depth: int, durability: int) -> QoSProfile:
    return QoSProfile(depth=depth, durability=DurabilityPolicy(durability))


class BareServers(Node):
    """Answers the planner's requests in their order."""

    def __init__(self, name: str, steps: list[Step]) -> None:
        super().__init__(name)
        kinds = {step.name: step.kind for step in steps if step.what == "call"}
        group = ReentrantCallbackGroup()
        for service, kind in kinds.items():
            if service.startswith(f"/{name}/"):
                answers = deque(step.msg for step in steps if (step.what, step.name) == ("answered", service))
                self.create_service(kind, service, self._answering(answers), callback_group=group)
        if name == BRIDGE:
            self._ends = deque(step.msg for step in steps if step.what == "heard")
            self._ended = self.create_publisher(SkillEnded, "~/skill_ended", 10)
            self._observation = self.create_publisher(Observation, "~/observation", LATCHED)
            ActionServer(self, ExecuteSkill, SKILL, self._execute, callback_group=group, result_timeout=1)

    @staticmethod
    def _answering(answers: deque[Any]) -> Callable[[Any, Any], Any]:
        return lambda request, response: answers.popleft()

    def _execute(self, handle: Any) -> ExecuteSkill.Result:
        result = self._ends.popleft()
        fields = ("outcome", "message", "observation", "skills", "offers")
        self._ended.publish(SkillEnded(goal_id=handle.goal_id, **{name: getattr(result, name) for name in fields}))
        handle.succeed()
        self._observation.publish(result.observation)
        return result


def exchange_again(name: str, file: Path, executor: Any) -> None:
    """Be one of the three programs."""
    steps = steps_of(file)
    node = BarePlanner(steps) if name == PLANNER else BareServers(name, steps)
    executor.add_node(node)
    gc.freeze()  # as our nodes do
    with suppress(KeyboardInterrupt, ExternalShutdownException):
        while rclpy.ok():
            executor.spin_once(timeout_sec=0.1)


def plain() -> SingleThreadedExecutor:
    """Return the executor that most programs of rclpy have."""
    return SingleThreadedExecutor()
