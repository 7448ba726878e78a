"""A ROS graph of a test: the nodes, spun in the test's thread until what it waits for is there."""

from __future__ import annotations

import gc
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import rclpy
from doubles import ScriptedModel, ScriptedWorld
from processes import PATIENCE, SILENCE, Patience
from rclpy.action import ActionClient
from rclpy.lifecycle import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter
from reactree_interfaces.action import ExecuteSkill, ExecuteTask
from reactree_interfaces.msg import Decision
from unique_identifier_msgs.msg import UUID

from reactree_ros.background.pending import Pending
from reactree_ros.llm.port import LanguageModel
from reactree_ros.nodes.bridge.bridge_node import BridgeNode
from reactree_ros.nodes.calls import Calls, Introduction
from reactree_ros.nodes.executors import make_executor
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.inference.inference_node import InferenceNode
from reactree_ros.nodes.planner.adapters import RosLanguageModel, RosWorld
from reactree_ros.nodes.planner.planner_node import PlannerNode
from reactree_ros.world.port import Observation, World

T = TypeVar("T")


class HeldWorld(ScriptedWorld):
    """Looks around at once; its skills stay in flight until :meth:`finish`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.held: list[tuple[Pending[Observation], str]] = []

    def execute(self, skill: str) -> Pending[Observation]:
        self.executed.append(skill)
        pending = Pending[Observation](on_cancel=lambda: self._stopped(skill))
        self.held.append((pending, skill))
        return pending

    def _stopped(self, skill: str) -> None:
        self.cancelled[skill] += 1
        self.held = [one for one in self.held if not one[0].cancelled()]

    def finish(self) -> None:
        """Let the skills in flight end well."""
        held, self.held = self.held, []
        for pending, skill in held:
            pending.succeed(Observation(f"You {skill}."))


class Goal:
    """A goal that was sent to an action server."""

    def __init__(self, graph: Graph, client: ActionClient, goals: WeakValueDictionary[bytes, Goal], goal: Any) -> None:
        self._graph = graph
        id = uuid.uuid4().bytes
        goals[id] = self
        self.feedback: list[Any] = []
        self._end: Any = None
        self._answer = client.send_goal_async(goal, goal_uuid=UUID(uuid=list(id)))
        self._answer.add_done_callback(self._answered)

    def _answered(self, future: Any) -> None:
        if future.result().accepted:
            self._end = future.result().get_result_async()

    @property
    def accepted(self) -> bool:
        """Whether it was accepted; waits for the answer."""
        return bool(self._graph.wait(self._answer, "the goal is answered").accepted)

    @property
    def id(self) -> bytes:
        """Its id; waits until it was accepted."""
        assert self.accepted
        return bytes(self._answer.result().goal_id.uuid)

    def cancel(self) -> None:
        """Cancel it once it is accepted; waits until the cancel was answered."""
        assert self.accepted
        self._graph.wait(self._answer.result().cancel_goal_async(), "the cancel is answered")

    def _ended(self) -> Any:
        assert self.accepted
        self._graph.until(lambda: self._end is not None, "the result is asked for")
        while not self._end.done():  # on a busy machine a goal may take long, as long as it goes on
            seen = len(self.feedback)
            self._graph.until(lambda n=seen: self._end.done() or len(self.feedback) > n, "the goal goes on, or ends")
        ended = self._end.result()
        sent = getattr(ended.result, "feedbacks", 0)  # some may come after the result
        self._graph.until(lambda: len(self.feedback) >= sent, "all feedback has come")
        return ended

    @property
    def result(self) -> Any:
        """What came of it; waits for its end."""
        return self._ended().result

    @property
    def status(self) -> int:
        """A constant of action_msgs/GoalStatus; waits for its end."""
        return int(self._ended().status)


class Graph:
    """Nodes in a context and a domain of their own.

    Nothing runs but while the test waits, so that what it looks at holds still. Nodes share an executor; a node that
    is made with ``alone=True`` has its own and can be halted, resumed and killed."""

    def __init__(self, domain_id: int) -> None:
        self.domain_id = domain_id
        self.context = rclpy.Context()
        rclpy.init(context=self.context, domain_id=domain_id)
        self._executors: dict[Node | None, Any] = {None: make_executor(self.context)}
        self._halted: set[Node] = set()
        self.nodes: list[Node] = []
        self._clients: dict[tuple[type, str], Any] = {}
        self._met = set[str]()
        self.probe = self.add_node("probe")

    # ------------------------------------------------------------------ nodes

    def add(self, node: Any, *, alone: bool = False) -> Any:
        """Let a node take part."""
        executor = make_executor(self.context) if alone else self._executors[None]
        if alone:
            self._executors[node] = executor
        executor.add_node(node)
        for member in getattr(node, "members", {}).values():
            executor.add_node(member)
        self.nodes.append(node)
        return node

    def add_node(self, name: str, *, alone: bool = False, **options: Any) -> Node:
        """Make a node of the test's own."""
        return self.add(Node(name, context=self.context, **options), alone=alone)

    def bridge(
        self,
        world: World | None = None,
        /,
        *,
        name: str = "household_bridge",
        namespace: str = "",
        active: bool = True,
        alone: bool = False,
        **parameters: Any,
    ) -> BridgeNode:
        """Make a bridge, active if not said otherwise."""
        node = BridgeNode(name, world=world, namespace=namespace, **self._given(parameters))
        return self.add(activate(node) if active else node, alone=alone)

    def inference(
        self,
        model: LanguageModel | None = None,
        /,
        *,
        name: str = "inference",
        namespace: str = "",
        active: bool = True,
        alone: bool = False,
        **parameters: Any,
    ) -> InferenceNode:
        """Make an inference node, active if not said otherwise."""
        node = InferenceNode(name, model=model, namespace=namespace, **self._given(parameters))
        return self.add(activate(node) if active else node, alone=alone)

    def planner(
        self,
        *,
        name: str = "reactree_planner",
        namespace: str = "",
        active: bool = True,
        alone: bool = False,
        beside: Sequence[Node] = (),
        **parameters: Any,
    ) -> PlannerNode:
        """Make a planner that ticks often, active if not said otherwise."""
        parameters = {"tick_rate": 50.0, "silence": SILENCE} | parameters
        node = PlannerNode(name, namespace=namespace, beside=beside, **self._given(parameters))
        return self.add(activate(node) if active else node, alone=alone)

    def _given(self, parameters: dict[str, Any]) -> dict[str, Any]:
        overrides = [Parameter(name, value=value) for name, value in parameters.items()]
        return {"context": self.context, "parameter_overrides": overrides}

    # ------------------------------------------------------------------ the planner's ports, made in the probe

    def calls(self, patience: float = 3600.0) -> Calls:
        made = Calls(self.probe, patience=patience)
        self.probe.create_timer(0.02, made.watch)
        return made

    def ros_world(self, bridge: str = "household_bridge", *, patience: float = 3600.0) -> RosWorld:
        return RosWorld(self.probe, bridge, self.calls(patience), Heartbeat(self.probe))

    def ros_model(self, *, patience: float = 3600.0) -> RosLanguageModel:
        return RosLanguageModel(self.probe, "inference", self.calls(patience))

    def settled(self, pending: Pending[T]) -> T:
        """Return what a pending result is settled with."""
        self.until(pending.done)
        return pending.take()

    # ------------------------------------------------------------------ whole households

    def household(
        self,
        script: Mapping[str, Sequence[str]],
        *,
        model: LanguageModel | None = None,
        world: World | None = None,
        composed: bool = False,
        **parameters: Any,
    ) -> PlannerNode:
        """Make a planner with an inference node that says what a script says, and a bridge to a scripted world.

        ``composed``: the planner calls them directly.
        """
        others = [self.inference(model or ScriptedModel(script)), self.bridge(world or ScriptedWorld())]
        return self.planner(beside=others if composed else (), **parameters)

    def held(
        self, script: Mapping[str, Sequence[str]], world: HeldWorld | None = None, /, **parameters: Any
    ) -> tuple[HeldWorld, PlannerNode, Goal]:
        """Begin a task of a household whose first skill is held."""
        world = world or HeldWorld()
        planner = self.household(script, world=world, **parameters)
        goal = self.task()
        self.until(lambda: world.held, "the skill runs")
        return world, planner, goal

    def halt(self, node: Node) -> None:
        """Let a node stop answering, though it is there."""
        self._halted.add(node)

    def resume(self, node: Node) -> None:
        """Let a halted node go on."""
        self._halted.remove(node)

    def kill(self, node: Node) -> None:
        """Take a node out in the midst of what it does, without a word to anybody."""
        self.nodes.remove(node)
        executor = self._executors.pop(node)
        executor.remove_node(node)
        _destroy(node)
        executor.shutdown()

    def close(self) -> None:
        """Take everything down, so that nothing of it is left in the domain."""
        for client in self._clients.values():
            if isinstance(client, ActionClient):
                client.destroy()
        for node, executor in self._executors.items():
            if node is not None:
                executor.remove_node(node)
        for node in reversed(self.nodes):
            self._executors[None].remove_node(node)
            _destroy(node)
        for executor in self._executors.values():
            executor.shutdown()
        self.context.try_shutdown()
        for kept in (self._clients, self._executors, self.nodes):
            kept.clear()
        gc.collect()  # what refers to each other would be there for a while yet

    # ------------------------------------------------------------------ waiting

    def until(
        self, condition: Callable[[], Any], what: str = "the condition holds", patience: float = PATIENCE
    ) -> None:
        """Let the nodes run until a condition holds."""
        limit = Patience(patience)
        while not condition():
            assert not limit.is_over(), f"not within {patience:g} s in which nothing else went on: {what}"
            self.step()

    def step(self) -> None:
        """Let every node run one callback, or wait a moment where there is none."""
        for node, executor in list(self._executors.items()):
            if node is not None and node not in self._halted:
                executor.spin_once(timeout_sec=0.0)
        self._executors[None].spin_once(timeout_sec=0.01)

    def run_alone(self, node: Node, until: Callable[[], Any]) -> None:
        """Let one node that is spun alone run until a condition holds; the others hear nothing of it meanwhile."""
        patience = Patience()
        while not until():
            assert not patience.is_over(), f"not within {PATIENCE:g} s in which nothing else went on"
            self._executors[node].spin_once(timeout_sec=0.01)

    def wait(self, future: Any, what: str) -> Any:
        """Let the nodes run until a future is done; returns its result."""
        self.until(future.done, what)
        return future.result()

    # ------------------------------------------------------------------ what a test asks

    def call(self, kind: type, name: str, /, **request: Any) -> Any:
        """Call a service and wait for the answer."""
        return self.wait(self.send(kind, name, **request), f"{name} answers")

    def send(self, kind: type, name: str, /, **request: Any) -> Any:
        """Call a service; returns the future."""
        client = self._client(kind, name, lambda: self.probe.create_client(kind, name))
        self.until(client.service_is_ready, f"{name} is there")
        self._meet(name)
        return client.call_async(kind.Request(**request))  # type: ignore[attr-defined]

    def task(self, instruction: str = "root", *, to: str = "reactree_planner", **goal: Any) -> Goal:
        """Send a task to a planner."""
        return self._goal(ExecuteTask, f"{to}/execute_task", ExecuteTask.Goal(instruction=instruction, **goal))

    def skill(self, skill: str, *, to: str = "household_bridge", **goal: Any) -> Goal:
        """Send a skill to a bridge."""
        return self._goal(ExecuteSkill, f"{to}/execute_skill", ExecuteSkill.Goal(skill=skill, **goal))

    def _goal(self, kind: type, name: str, goal: Any) -> Goal:
        client, goals = self._client(kind, name, lambda: (ActionClient(self.probe, kind, name), self._fed(kind, name)))
        self.until(client.server_is_ready, f"{name} is there")
        self._meet(name)
        return Goal(self, client, goals, goal)

    def _fed(self, kind: Any, name: str) -> WeakValueDictionary[bytes, Goal]:
        """Return the goals that get an action's feedback, by id; rclpy's client takes none in after the result."""
        goals = WeakValueDictionary[bytes, Goal]()

        def hear(msg: Any) -> None:
            if (goal := goals.get(bytes(msg.goal_id.uuid))) is not None:
                goal.feedback.append(msg.feedback)

        self.probe.create_subscription(kind.Impl.FeedbackMessage, f"{name}/_action/feedback", hear, 1000)
        return goals

    def _client(self, kind: type, name: str, make: Callable[[], Any]) -> Any:
        if (kind, name) not in self._clients:
            self._clients[kind, name] = make()
        return self._clients[kind, name]

    def _meet(self, name: str) -> None:
        """Let a node of another process get to know the client of its service or action, which is there."""
        if name in self._met:
            return
        self._met.add(name)
        full, own = self.probe.resolve_service_name(name), {node.get_fully_qualified_name() for node in self.nodes}
        services = {service for service, _ in self.probe.get_service_names_and_types()}
        names = ["/".join(full.split("/")[:parts]) for parts in range(full.count("/"), 1, -1)]
        server = next((one for one in names if f"{one}/get_parameters" in services), "")
        if server and server not in own:
            self.until(Introduction(self.probe, server).done, f"{server} answers")

    def listen(self, kind: type, topic: str, qos: Any = 100) -> list[Any]:
        """Return a list to which every message on a topic is added from now on."""
        heard: list[Any] = []
        self.probe.create_subscription(kind, topic, heard.append, qos)
        self.until(lambda: self.probe.count_publishers(topic), f"{topic} is published")
        return heard

    def decisions(self, planner: str = "reactree_planner") -> list[Decision]:
        """Return a list to which every decision of a planner is added from now on."""
        return self.listen(Decision, f"/{planner}/decisions")


def _destroy(node: Node) -> None:
    """Destroy a node and all that it has made, so that it leaves the graph even if something refers to it."""
    clients = list(node.clients)
    node.destroy_node()
    for one in (*clients, *node.waitables):  # rclpy leaves the latter, and a planner what waits for a dead bridge
        type(one).destroy(one)


def activate(node: Any) -> Any:
    """Bring a lifecycle node up."""
    assert node.trigger_configure() == TransitionCallbackReturn.SUCCESS
    assert node.trigger_activate() == TransitionCallbackReturn.SUCCESS
    return node


def entities(*nodes: Node) -> dict[str, int]:
    """Count what some nodes have in ROS, by kind."""
    counts: dict[str, int] = defaultdict(int)
    for node in nodes:
        for kind in ("timers", "clients", "services", "subscriptions", "publishers", "guards", "waitables"):
            counts[kind] += len(list(getattr(node, kind)))
    return dict(counts)
