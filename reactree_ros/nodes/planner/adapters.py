"""The two ports over ROS: a skill is an action goal, a decision a service call; neither blocks."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from rclpy.node import Node
from reactree_interfaces.action import ExecuteSkill
from reactree_interfaces.msg import BridgeStatus
from reactree_interfaces.srv import (
    AbortGeneration,
    AvailableSkills,
    CorrectWorld,
    DescribeHousehold,
    EvaluateGoal,
    Generate,
    ModelReady,
    Observe,
    ResetWorld,
)

from reactree_ros.agent.parameters import ParameterError
from reactree_ros.agent.skill import Offer, Offered, Skill, SkillCall
from reactree_ros.background.pending import Pending, after, followed, mapped, settle_as
from reactree_ros.errors import UserError
from reactree_ros.llm.port import (
    DecisionRequest,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    Reply,
    ServerUnavailable,
)
from reactree_ros.llm.waiting import Pace
from reactree_ros.nodes import messages, steady
from reactree_ros.nodes.calls import Calls, OneAnswer, SentGoal, Waiting
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.messages import arguments_to_msgs, observation_from_msg, offers_from, skills_from, values_from
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.waiting import Handover
from reactree_ros.world.port import Household, Observation, Outcome, Score, SharedWorld, WorldError
from reactree_ros.world.wrappers import WorldWrapper, with_teammates

#: How long a skill's result may overtake an earlier status of the bridge, in seconds: they come by two topics.
OVERTAKEN = 1.0
#: Time before a lost decision is requested again, in seconds.
AGAIN = 0.2
#: The services of a bridge.
SERVICES = {
    "reset": ResetWorld,
    "observe": Observe,
    "available_skills": AvailableSkills,
    "evaluate": EvaluateGoal,
    "household": DescribeHousehold,
    "corrections": AvailableSkills,
    "correct": CorrectWorld,
}


class RosWorld(SharedWorld):
    """A world behind a bridge node; its household is known after :meth:`learn`.

    Any thread may cancel a skill and call :meth:`at_rest`; everything else belongs to the node's executor.
    """

    #: The robots that share this world and learn of one another there; empty: there is one.
    robots: Sequence[str] = ()
    is_guarded = True  # by the bridge

    def __init__(self, node: Node, bridge: str, calls: Calls, heartbeat: Heartbeat) -> None:
        self._node, self._calls, self._bridge, self._heartbeat = node, calls, bridge, heartbeat
        self._full_name = str(node.resolve_topic_name(bridge))
        self._life: int | None = None  # of the bridge at the start of the task
        self._under_way: set[Pending[Observation]] = set()
        self.about: dict[str, Any] = {}  # name and settings of the world, as far as the bridge knows
        self._known: Mapping[str, Skill] = {}  # the household's skills, by name
        self._now: tuple[Offered, ...] = ()  # the skills on offer, until something happens
        self._ending: list[Pending[None]] = []  # the ends of cancelled skills
        self._handover = Handover(node)
        self._action = f"{bridge}/execute_skill"
        self._skills = OneAnswer(node, ExecuteSkill, self._action, calls.beside)
        self._trace = ""
        self._clients = {name: node.create_client(kind, f"{bridge}/{name}") for name, kind in SERVICES.items()}
        self._goal = ""  # what whoever looks around next is about
        self._heard: Pending[None] = Pending()  # the first status
        self._halted = ""  # why nothing may move
        self._halted_by_result = 0.0, float("-inf")  # stamp and wall time of the latest such result
        self._status = node.create_subscription(BridgeStatus, f"{bridge}/status", self._note_status, LATCHED)
        self._changed: Callable[[], None] = lambda: None

    def follow(self, changed: Callable[[], None]) -> None:
        """Call a function whenever :meth:`halted` has changed."""
        self._changed = changed

    def halted(self) -> str:
        """Say why nothing may move, by the bridge's last word; empty: it may."""
        return self._halted

    def _note_status(self, msg: BridgeStatus) -> None:
        self._heard.succeed(None)
        at, when = self._halted_by_result
        if messages.seconds_of(msg.header.stamp) >= at or steady.now() - when > OVERTAKEN:
            self._note_halted(msg.halted)

    def _note_halted(self, halted: str) -> None:
        changed, self._halted = halted != self._halted, halted
        if changed:
            self._changed()

    def learn(self) -> Pending[Household]:
        """Ask for the household, and wait for the bridge's first status.

        To be called for each task, because the bridge may have another world. From then on a restart of the bridge is
        an error: it has forgotten what was done, held and seen, and its words would mislead.
        """
        asked = self._asked("household", self._take_household, anew=True)
        return followed(asked, lambda household: after(self._heard, lambda: Pending.ready(household)))

    def _take_household(self, msg: DescribeHousehold.Response) -> Household:
        self.household, self.about = messages.household_from_msg(msg), values_from(msg.world)
        self._known = {skill.name: skill for skill in self.household.skills}
        self.recallable, self.words = tuple(msg.recallable), tuple(msg.words)
        self.places, self.robots = tuple(msg.places), tuple(msg.robots)
        self._life = self._calls.life(self._full_name)
        return self.household

    def _check_life(self) -> None:
        life = self._calls.life(self._full_name)
        if self._life is None:  # its heartbeat was not heard yet
            self._life = life
        elif life is not None and life != self._life:
            raise WorldError(f"{self._bridge} was restarted; what it knew of the task is lost")

    def reset(self, seed: int | None = None) -> Pending[Observation]:
        return mapped(self.reset_to(-1, seed), lambda msg: observation_from_msg(msg.observation))

    def reset_to(self, task_id: int, seed: int | None = None) -> Pending[ResetWorld.Response]:
        """Reset the world to the start of one of its tasks; -1: the current one."""
        self._now = ()
        seed = -1 if seed is None else seed
        return self._asked("reset", lambda msg: msg, anew=True, task_id=task_id, seed=seed)

    def observe(self) -> Pending[Observation]:
        self._now = ()  # somebody else may have been at work
        return self._asked("observe", self._take_observed, goal=self._goal)

    def _take_observed(self, msg: Observe.Response) -> Observation:
        self._take_skills(msg)
        return observation_from_msg(msg.observation)

    def attend(self, goal: str) -> None:
        self._goal = goal

    def survey(self) -> Pending[Observation]:
        return self._asked("observe", lambda msg: observation_from_msg(msg.observation), everything=True)

    def available_skills(self) -> Pending[Sequence[Offered]]:
        return Pending.ready(self._now) if self._now else self._asked("available_skills", self._take_skills)

    def corrections(self) -> Pending[Sequence[Offer]]:
        return self._asked("corrections", lambda msg: offers_from(msg.offers, skills_from(msg.declared)))

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        self._now = ()
        return self._asked("correct", _corrected, correction=correction)

    def _take_skills(self, msg: Any) -> Sequence[Offered]:
        self._now = (*msg.skills, *offers_from(msg.offers, self._known))
        return self._now

    def score(self) -> Pending[Score | None]:
        return self.score_of("")

    def score_of(self, instruction: str) -> Pending[Score | None]:
        """Ask how far an instruction's goal is reached; None if the world has no such goal."""
        return self._asked(
            "evaluate",
            lambda msg: Score(msg.gsr, msg.ssr, values_from(msg.goal), list(msg.unmet)) if msg.has_goal else None,
            instruction=instruction,
        )

    def _asked(self, service: str, read: Callable[[Any], Any], *, anew: bool = False, **request: Any) -> Pending[Any]:
        """Call a service of the bridge; an error code is an error, and so is a restart if not ``anew``."""

        def take(msg: Any) -> Any:
            if not anew:
                self._check_life()
            if msg.error_code == ResetWorld.Response.UNKNOWN_TASK:  # only a reset has this code
                raise UserError(f"{msg.message}; task_id must be one of the tasks of the bridge's world")
            if msg.error_code != type(msg).NONE:
                raise WorldError(f"{self._bridge}: {msg.message}")
            return self._readable(read, msg)

        made = SERVICES[service].Request(**request)
        return self._calls.call(self._clients[service], made, take=take, gone=WorldError, of=self._full_name)

    def _readable(self, read: Callable[[Any], Any], msg: Any) -> Any:
        try:
            return read(msg)
        except ValueError as error:
            raise WorldError(f"{self._bridge}: {error}") from error

    def traced(self, trace: str) -> None:
        self._trace = trace

    def execute(self, skill: str) -> Pending[Observation]:
        """Send a skill as a goal; an early cancel is carried out when the goal is accepted."""
        asked = ExecuteSkill.Goal(skill=str(skill), trace=self._trace)
        with suppress(ParameterError):
            call = self.household.call(skill) if hasattr(self, "household") else skill  # it is learnt
            if isinstance(call, SkillCall):
                said = {name: [words] for name, words in call.said.items()}
                asked.name, asked.arguments = call.skill.name, arguments_to_msgs(said)
        busy = f"{self._bridge} rejected '{skill}': it is busy or not active"
        goal = SentGoal(self._skills, self._action, asked, rejected=busy, error=WorldError)
        self._now = ()

        def stop() -> None:
            if not waiting.sent_to:
                goal.over.succeed(None)
            else:  # watched on: a bridge that goes away never reports the end
                self._calls.wait(replace(waiting, stop=lambda: None, pending=goal.over))
            goal.cancel()

        def cancel() -> None:
            self._ending = [*(one for one in self._ending if not one.done()), goal.over]
            self._handover.put(stop)

        def send() -> None:
            try:
                self._check_life()
            except WorldError as error:
                pending.fail(error)
                return
            goal.send(self._heartbeat.goal(self._action, goal.over.done))

        pending: Pending[Observation] = Pending(on_cancel=cancel)
        goal.end.add_done_callback(lambda end: settle_as(end, pending, partial(self._observation, skill)))
        pending.add_done_callback(goal.give_up)  # also if somebody else fails it
        service = f"{self._action}/_action/send_goal"
        ready = self._skills.server_is_ready
        waiting = Waiting(self._action, service, ready, send, stop, pending, gone=WorldError, node=self._full_name)
        self._calls.wait(waiting)
        self._under_way.add(pending)
        pending.add_done_callback(self._under_way.discard)
        return pending

    def _observation(self, skill: str, told: Any) -> Observation:
        if told.outcome not in messages.OUTCOMES:
            raise WorldError(f"'{skill}' ended with the unknown outcome {told.outcome}")
        outcome = messages.OUTCOMES[told.outcome]
        if outcome is Outcome.WORLD_UNAVAILABLE or not told.observation.text:
            raise WorldError(f"{self._bridge}: {told.message or outcome.value}")
        self._readable(self._take_skills, told)
        if outcome is Outcome.HALTED:
            self._halted_by_result = messages.seconds_of(told.observation.header.stamp), steady.now()
            self._note_halted(told.message)
        return self._readable(lambda msg: observation_from_msg(msg, outcome), told.observation)

    def stop(self) -> None:
        for skill in tuple(self._under_way):
            skill.cancel()

    def at_rest(self) -> Pending[None]:
        """Settle when the bridge has ended each cancelled skill; fails if the bridge goes away before."""
        if not self._ending:
            return Pending.ready(None)
        resting: Pending[None] = Pending()
        _all(self._ending).add_done_callback(lambda ended: settle_as(ended, resting, lambda _: None))
        return resting

    def close(self) -> None:
        self._handover.close()
        self._skills.destroy()
        self._node.destroy_subscription(self._status)
        for client in self._clients.values():
            self._node.destroy_client(client)

    def leave(self) -> None:
        """Let the clients end with the process, because the bridge has gone.

        The middleware would wait a second for each client whose last request nobody acknowledges.
        """
        for client in (*self._clients.values(), self._skills):
            setattr(client, "destroy", lambda: None)  # noqa: B010


def _corrected(msg: CorrectWorld.Response) -> Observation:
    return observation_from_msg(msg.observation, Outcome.DONE if msg.taken_in else Outcome.PRECONDITION)


class RosTeam(WorldWrapper):
    """The robots of one planner, each behind a bridge in a namespace of its name; the first speaks for the world."""

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
        """Return the robots; if each is a world of its own, they learn of one another here."""
        return self.robots if self.inner.robots else with_teammates(self.robots)

    def close(self) -> None:
        for robot in self.robots.values():
            robot.close()

    def learn(self) -> Pending[Household]:
        return mapped(_all([robot.learn() for robot in self.robots.values()]), lambda learnt: learnt[0])

    def reset_to(self, task_id: int, seed: int | None = None) -> Pending[ResetWorld.Response]:
        return self.inner.reset_to(task_id, seed)

    def score(self) -> Pending[Score | None]:
        return self.score_of("")

    def score_of(self, instruction: str) -> Pending[Score | None]:
        """Ask how far an instruction's goal is reached: the first bridge, or the next if that one has gone."""
        answer: Pending[Score | None] = Pending()
        left = list(self.robots.values())

        def ask() -> None:
            asked = left.pop(0).score_of(instruction)
            answer.add_done_callback(lambda done: asked.cancel() if done.cancelled() else None)
            asked.add_done_callback(take)

        def take(done: Future[Score | None]) -> None:
            if left and not answer.done() and not done.cancelled() and done.exception() is not None:
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


class _Lost(ServerUnavailable):
    """The inference node has died, was restarted, or aborts requests because it ends."""


class _NotActive(ServerUnavailable):
    """The inference node lives and does not answer requests, or not yet."""


class Introduction(NamedTuple):
    """An inference node's description of its language model."""

    settings: Mapping[str, Any] = MappingProxyType({})  # its name and settings; empty: unknown
    trained_for: tuple[str, ...] = ()  # the planners, with their options, that it was trained for; none: it is for any


class RosLanguageModel(LanguageModel):
    """A language model behind an inference node.

    A decision that the inference node lost, because it died, was restarted or deactivated, is requested again when the
    node answers: the lost one had no effect. A node that stays away for longer than the calls' patience is gone.
    """

    def __init__(self, node: Node, inference: str, calls: Calls) -> None:
        self._node, self._calls, self._inference = node, calls, inference
        self._full_name = str(node.resolve_topic_name(inference))
        self._generate = node.create_client(Generate, f"{inference}/generate")
        self._abort = node.create_client(AbortGeneration, f"{inference}/abort")
        self._ready = node.create_client(ModelReady, f"{inference}/ready")
        self._prefix = f"{node.get_fully_qualified_name()} {time.time_ns()}"
        self._pace = Pace()

    def slowness(self, request: DecisionRequest) -> float:
        return self._pace.times(request.prompt)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        reply: Pending[Reply] = Pending()
        times = itertools.count(1)
        inactive_since: list[float] = []

        def ask() -> None:
            if not reply.done():
                asked = self._ask(request, next(times))
                reply.add_done_callback(lambda _: asked.cancel())
                asked.add_done_callback(take)

        def take(asked: Future[Reply]) -> None:
            error = None if asked.cancelled() else asked.exception()
            if isinstance(error, _NotActive):
                inactive_since.append(steady.now())
                if inactive_since[-1] - inactive_since[0] > self._calls.patience:
                    reply.fail(ServerUnavailable(f"{error} (for {self._calls.patience:g} s)"))
                else:
                    self._calls.later(AGAIN, ask)
            elif isinstance(error, _Lost):
                inactive_since.clear()
                self._node.get_logger().warning(f"a decision is requested again: {error}")
                self._calls.later(AGAIN, ask)
            else:
                if error is None and not asked.cancelled():
                    self._pace.learn(request.prompt, asked.result())
                elif isinstance(error, NoAnswerInTime):
                    self._pace.late(request.prompt, request.patience)
                settle_as(asked, reply)

        ask()
        return reply

    def introduction(self) -> Pending[Introduction]:
        response = self._calls.call(self._ready, ModelReady.Request(), gone=ServerUnavailable, of=self._full_name)
        return mapped(response, lambda msg: Introduction(values_from(msg.settings), tuple(msg.trained_for)))

    def _ask(self, request: DecisionRequest, time: int) -> Pending[Reply]:
        msg = messages.request_to_msg(request)
        msg.id = f"{self._prefix} {request.id}" + (f" ({time})" if time > 1 else "")  # unique among planners and lives
        msg.planner = request.planner or self._prefix

        def abort() -> None:
            if self._abort.service_is_ready():
                self._abort.call_async(AbortGeneration.Request(id=msg.id))

        gone: dict[str, Any] = {"gone": ServerUnavailable, "lost": _Lost, "of": self._full_name}
        return self._calls.call(self._generate, msg, take=self._take_reply, on_cancel=abort, **gone)

    def _take_reply(self, msg: Generate.Response) -> Reply:
        if msg.error_code == Generate.Response.NONE:
            try:
                return messages.reply_from_msg(msg)
            except ValueError as error:
                raise LanguageModelError(f"{self._inference}: said: {error}") from error
        kinds = {Generate.Response.NOT_ACTIVE: _NotActive, Generate.Response.ABORTED: _Lost}
        if msg.error_code in kinds:  # nobody waits for a decision that was aborted from here
            raise kinds[msg.error_code](f"{self._inference}: {msg.message}")
        raise messages.error_from_msg(msg)
