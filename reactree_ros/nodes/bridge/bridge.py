"""A bridge: hosts a world behind an action and services, with a skill policy and a time limit around it."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from reactree_interfaces.msg import BridgeStatus
from reactree_interfaces.srv import ResetWorld
from std_msgs.msg import Header

from reactree_ros.background.pending import Pending
from reactree_ros.errors import UserError
from reactree_ros.nodes import steady
from reactree_ros.nodes.bridge.endpoints import ObservationTopic, SkillServer, WorldServices
from reactree_ros.nodes.bridge.world_host import WorldHost
from reactree_ros.nodes.diagnostics import ERROR, OK, STALE, WARN, Diagnostics, Report
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.lifecycle import ManagedNode, logged
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.nodes.people.ros_person import RosPerson
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.settings import BridgeSettings
from reactree_ros.world.port import World, team_of

#: How often a bridge looks after its skill and whether anything may move, in seconds.
LOOK_PERIOD = 0.1
#: How often the status is published while it does not change, in seconds.
STATUS_PERIOD = 0.5


class Bridge(ManagedNode):
    """Hosts a world; a subclass for each kind of world loads it in :meth:`load`.

    In a world of several robots each has a bridge in a namespace of its name. This node is the bridge of the first; it
    makes the others (:class:`MemberBridge`), which change state with it.

    Actions:
        ``~/execute_skill`` (ExecuteSkill): a goal is rejected if its skill takes what of the robot another one has,
            which is all of it where nothing is declared. Canceling stops the skill.

    Services:
        ``~/reset``, ``~/observe``, ``~/available_skills``, ``~/evaluate``, ``~/household``, ``~/check``.

    Publishes:
        ``~/observation`` (Observation; reliable, transient local, depth 1): the latest observation.
        ``~/skill_ended`` (SkillEnded; reliable, depth 10): the result of every goal, at once.
        ``~/status`` (BridgeStatus; reliable, transient local, depth 1): whether anything may move; at every change,
            and regularly.
        ``~/image`` (sensor_msgs/Image): the agent's camera after a skill, in worlds that take pictures.
        ``/diagnostics`` (DiagnosticArray, once a second): world, skill, why nothing may move, policy; of a robot also
            emergency stop and servers.
        ``heartbeat`` (Heartbeat): that the bridge lives, and its goals on a robot's servers.

    Uses:
        the action ``~/ask_person`` (AskPerson), which others offer, if the policy wants a person's yes.

    Parameters:
        those of :class:`BridgeSettings`, read when the node is configured.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._skills: SkillServer | None = None  # made when the node is configured first
        self.members: dict[str, MemberBridge] = {}  # the bridges of the other robots, by their names
        self.robots: Sequence[str] = ()  # those that share the world; none if there is one
        self.serves: dict[str, SkillServer] = {}  # by the action's full name
        self._published: tuple[str, float] = ("", float("-inf"))  # the status that was published last, and when
        super().__init__(name, **kwargs)
        declare(self, BridgeSettings)
        self._settings = settings_of(self, BridgeSettings)
        robot = self.get_namespace().strip("/")
        self.host = WorldHost(self._settings, self.get_logger(), self._confirm, robot=robot, house=self.house)
        self.made.callback(self.host.close)
        self.heartbeat = Heartbeat(self)
        Diagnostics(self, "world", self._report)

    def prepare(self) -> None:
        if self.host.leaving:
            raise UserError("something still moves in the former world; configure again later")
        self.host.load_policy()
        self.take(self.load())

    def follow(self, transition: str) -> TransitionCallbackReturn:
        """Make the same transition with the bridges of the other robots."""
        for member in self.members.values():
            done = getattr(member, f"trigger_{transition}")()
            if done is not TransitionCallbackReturn.SUCCESS:
                self.get_logger().error(f"{member.get_fully_qualified_name()} did not {transition}")
                return TransitionCallbackReturn.FAILURE
        return TransitionCallbackReturn.SUCCESS

    def offer(self) -> None:
        topic = ObservationTopic(self)
        self._status = self.create_publisher(BridgeStatus, "~/status", LATCHED)
        self._person = RosPerson(self, self.heartbeat)
        self._skills = SkillServer(self, self.host, topic, self._person, confirm_timeout=self._settings.confirm_timeout)
        self.serves[self.resolve_service_name("~/execute_skill")] = self._skills
        self.made.callback(self._skills.close)
        WorldServices(self, self.host, self, topic)
        steady.every(self, LOOK_PERIOD, self._look_after)

    @logged
    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        self.host.active = True
        if self._skills is not None:
            self._skills.expect_person()
        self.follow("activate")
        return super().on_activate(state)

    def take(self, world: World) -> None:
        if world is not self.host.bare:
            self.host.take(world)
            self._share_out(world)

    def _share_out(self, world: World) -> None:
        first, *others = team_of(world).items() or [("", world)]
        self.robots = (first[0], *dict(others)) if others else ()
        beside = self.get_namespace().rstrip("/").removesuffix(f"/{first[0]}")
        for name, robot in others:
            if name in self.members:
                self.members[name].take_over(robot, self.robots)
                continue
            member = self.members[name] = MemberBridge(self, f"{beside}/{name}", robot, self.robots)
            if self.executor is not None:
                self.executor.add_node(member)

    @abc.abstractmethod
    def load(self) -> World:
        """Make the world that the parameters name."""

    def about(self) -> Mapping[str, Any]:
        """Return the world as ``{"name": …, "settings": {…}, "house": …}``; empty: unknown."""
        return {}

    def house(self) -> str:
        """Return which house the world is, for what is kept of it: its name, or that of the world."""
        about = self.about()
        return str(about.get("house") or about.get("name", ""))

    def lacks(self) -> str:
        return "the bridge is not configured" if self.host.bare is None else self.host.bare.lacks()

    def change_task(self, task_id: int) -> World | None:
        """Return a world for another task; None if there is no such task."""
        return None

    def describe_task(self, response: ResetWorld.Response) -> None:
        """Write the world's task into a response; nothing if it has none."""

    def asks_for(self, instruction: str) -> bool:
        return True

    def _confirm(self, skill: str, reason: str) -> Pending[str]:
        assert self._skills is not None  # a skill is under way
        return self._skills.confirm(skill, reason)

    def _look_after(self) -> None:
        self.host.close_what_rests()
        if self._skills is not None:
            self._skills.look_after()
        halted, now = self.host.halted(), steady.now()
        if halted != self._published[0] or now - self._published[1] >= STATUS_PERIOD:
            self._published = halted, now
            self._status.publish(BridgeStatus(header=Header(stamp=self.get_clock().now().to_msg()), halted=halted))

    def _report(self) -> Report:
        bare, policy, skills = self.host.bare, self.host.policy, self._skills
        halted, skill = self.host.halted(), "" if skills is None else skills.skill
        values = {
            "world": "none" if bare is None else type(bare).__name__,
            "skill": skill or "none",
            "last skill": "none yet" if skills is None else skills.last,
            "may not move because": halted or "it may",
            "skill policy": "none" if policy is None else policy.where,
            "who confirms": "there" if skills is not None and self._person.there else "nobody",
            **({} if bare is None else bare.status()),
        }
        if not self.host.active:
            return Report(STALE, "not active", values)
        if emergency := "" if bare is None else bare.emergency():
            return Report(ERROR, f"emergency: {emergency}", values)
        if trouble := halted or self.lacks():
            return Report(WARN, trouble, values)
        return Report(OK, f"carries out '{skill}'" if skill else "waits for a skill", values)

    def begin_stop(self) -> None:
        for member in self.members.values():
            member.begin_stop()
        if self._skills is not None:
            self._skills.stop()
        self.host.stop()

    def stopped(self) -> bool:
        busy = self._skills is not None and self._skills.busy
        return not busy and self.host.at_rest() and all(member.stopped() for member in self.members.values())

    def release(self) -> None:
        self.host.release()

    def destroy_node(self) -> None:
        for member in self.members.values():
            if self.executor is not None:
                self.executor.remove_node(member)
            member.destroy_node()
        self.members = {}
        super().destroy_node()


class MemberBridge(Bridge):
    """The bridge of a further robot of a world; it gets name, context and settings of that of the first."""

    def __init__(self, host: Bridge, namespace: str, robot: World, robots: Sequence[str]) -> None:
        super().__init__(
            host.get_name(),
            namespace=namespace,
            context=host.context,
            parameter_overrides=[host.get_parameter(name) for name in BridgeSettings.model_fields],
            use_global_arguments=False,
        )
        self._robot, self.robots, self._first = robot, robots, host

    def house(self) -> str:
        return self._first.house()

    def load(self) -> World:
        return self._robot

    def take_over(self, robot: World, robots: Sequence[str]) -> None:
        self._robot, self.robots = robot, robots
        self.take(robot)

    def _share_out(self, world: World) -> None:
        """Nothing to do: the first robot's bridge has the others."""
