"""The two ports over ROS: a skill is an action goal, a decision a service call; neither blocks."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from threading import get_ident
from types import MappingProxyType
from typing import Any, NamedTuple

from builtin_interfaces.msg import Time
from rclpy.client import Client
from rclpy.node import Node
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
from reactree_ros.agent.skill import Offer, Offered, SkillCall
from reactree_ros.background.pending import Pending, mapped, settle_as
from reactree_ros.errors import UserError
from reactree_ros.llm.pace import Pace
from reactree_ros.llm.port import (
    DecisionRequest,
    LanguageModel,
    LanguageModelError,
    NoAnswerInTime,
    Reply,
    ServerUnavailable,
)
from reactree_ros.nodes import steady
from reactree_ros.nodes.calls import Calls, Waiting
from reactree_ros.nodes.heartbeat import Heartbeat
from reactree_ros.nodes.inference.known_prompts import SentPrompts
from reactree_ros.nodes.messages import (
    OUTCOMES,
    error_from_msg,
    household_from_msg,
    observation_from_msg,
    offers_from,
    reply_from_msg,
    request_to_msg,
    settings_from,
)
from reactree_ros.nodes.planner.skill_goals import SkillGoal, SkillGoals
from reactree_ros.nodes.qos import LATCHED
from reactree_ros.nodes.waiting import Wake
from reactree_ros.world.port import Household, Observation, Outcome, Score, WorldError
from reactree_ros.world.team import SharedWorld

#: How long a skill's result may overtake an earlier status of the bridge, in seconds: they come by two topics.
OVERTAKEN = 1.0
#: Time before a lost decision is requested again, in seconds.
AGAIN = 0.2


def _nanoseconds(stamp: Time) -> int:
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def _score_in(msg: EvaluateGoal.Response) -> Score | None:
    return Score(msg.gsr, msg.ssr, settings_from(msg.goal)) if msg.has_goal else None


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
        self._skill: Pending[Observation] | None = None
        self.about: dict[str, Any] = {}  # name and settings of the world, as far as the bridge knows
        self._now: tuple[Offered, ...] = ()  # the skills on offer, until something happens
        self._last: Pending[None] = Pending.of(None)  # the end of the last cancelled skill
        self._cancelled: deque[Callable[[], None]] = deque()
        self._wake = Wake(node, self._stop_cancelled)
        self._spun_by = 0  # the thread of the node's executor, once it has called
        self._skills = SkillGoals(node, bridge)
        self._trace = ""
        self._reset = node.create_client(ResetWorld, f"{bridge}/reset")
        self._observe = node.create_client(Observe, f"{bridge}/observe")
        self._available = node.create_client(AvailableSkills, f"{bridge}/available_skills")
        self._evaluate = node.create_client(EvaluateGoal, f"{bridge}/evaluate")
        self._describe = node.create_client(DescribeHousehold, f"{bridge}/household")
        self._corrections = node.create_client(AvailableSkills, f"{bridge}/corrections")
        self._correct = node.create_client(CorrectWorld, f"{bridge}/correct")
        self._clients = (
            *(self._reset, self._observe, self._available, self._evaluate, self._describe),
            *(self._corrections, self._correct),
        )
        self._goal = ""  # what whoever looks around next is about
        self._heard: Pending[None] = Pending()  # the first status
        self._halted = ""  # why nothing may move
        self._halted_by_result: tuple[int, float] = (0, float("-inf"))  # of the latest such result: stamp, wall time
        self._status = node.create_subscription(BridgeStatus, f"{bridge}/status", self._note_status, LATCHED)
        self._changed: Callable[[], None] = lambda: None

    def follow(self, changed: Callable[[], None]) -> None:
        self._changed = changed

    def halted(self) -> str:
        return self._halted

    def _note_status(self, msg: BridgeStatus) -> None:
        self._spun_by = get_ident()
        self._heard.succeed(None)
        at, when = self._halted_by_result
        if _nanoseconds(msg.stamp) >= at or steady.now() - when > OVERTAKEN:
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
        asked = self._asked(self._describe, DescribeHousehold.Request(), self._take_household, anew=True)
        learnt: Pending[Household] = Pending(on_cancel=asked.cancel)

        def go_on(answer: Any) -> None:
            if answer.cancelled() or answer.exception() is not None:
                settle_as(answer, learnt)
            else:
                self._heard.add_done_callback(lambda _: settle_as(answer, learnt))

        asked.add_done_callback(go_on)
        return learnt

    def _take_household(self, msg: DescribeHousehold.Response) -> Household:
        try:
            self.household = household_from_msg(msg)
            self.about = settings_from(msg.world)
        except ValueError as error:
            raise WorldError(f"{self._bridge}: {error}") from error
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
        request = ResetWorld.Request(task_id=task_id, seed=-1 if seed is None else seed)
        return self._asked(self._reset, request, lambda msg: msg, anew=True)

    def observe(self) -> Pending[Observation]:
        self._now = ()
        request = Observe.Request(goal=self._goal)
        return self._asked(self._observe, request, lambda msg: observation_from_msg(msg.observation))

    def attend(self, goal: str) -> None:
        self._goal = goal

    def survey(self) -> Pending[Observation]:
        request = Observe.Request(everything=True)
        return self._asked(self._observe, request, lambda msg: observation_from_msg(msg.observation))

    def available_skills(self) -> Pending[Sequence[Offered]]:
        if self._now:
            return Pending.of(self._now)
        return self._asked(self._available, AvailableSkills.Request(), self._take_skills)

    def corrections(self) -> Pending[Sequence[Offer]]:
        return self._asked(self._corrections, AvailableSkills.Request(), lambda msg: offers_from(msg.offers))

    def correct(self, correction: SkillCall) -> Pending[Observation]:
        self._now = ()
        request = CorrectWorld.Request(correction=correction)
        return self._asked(self._correct, request, _corrected)

    def _take_skills(self, msg: Any) -> Sequence[Offered]:
        try:
            self._now = (*msg.skills, *offers_from(msg.offers))
        except ValueError as error:
            raise WorldError(f"{self._bridge}: {error}") from error
        return self._now

    def score(self) -> Pending[Score | None]:
        return self.score_of("")

    def score_of(self, instruction: str) -> Pending[Score | None]:
        """Ask how far an instruction's goal is reached; None if the world has no such goal."""
        request = EvaluateGoal.Request(instruction=instruction)
        return self._asked(self._evaluate, request, _score_in)

    def _asked(self, client: Client, request: Any, read: Callable[[Any], Any], *, anew: bool = False) -> Pending[Any]:
        def take(msg: Any) -> Any:
            if not anew:
                self._check_life()
            if msg.error_code == ResetWorld.Response.UNKNOWN_TASK:  # only a reset has this code
                raise UserError(f"{msg.message}; task_id must be one of the tasks of the bridge's world")
            if msg.error_code != type(msg).NONE:
                raise WorldError(f"{self._bridge}: {msg.message}")
            return read(msg)

        return self._calls.call(client, request, take=take, gone=WorldError, of=self._full_name)

    def traced(self, trace: str) -> None:
        self._trace = trace

    def execute(self, skill: str) -> Pending[Observation]:
        with suppress(ParameterError):
            skill = self.household.call(skill) if hasattr(self, "household") else skill  # it is learnt
        goal = SkillGoal(skill, self._trace)
        self._now = ()

        def stop() -> None:
            if not waiting.sent_to:
                goal.over.succeed(None)
            else:  # watched on: a bridge that goes away never reports the end
                self._calls.wait(replace(waiting, stop=lambda: None, pending=goal.over))
            self._skills.cancel(goal)

        def cancel() -> None:
            self._last = goal.over
            self._cancelled.append(stop)
            if get_ident() == self._spun_by:  # as in a tick
                self._stop_cancelled()
            else:
                self._wake.trigger()

        def send() -> None:
            try:
                self._check_life()
            except WorldError as error:
                pending.fail(error)
                return
            self._skills.send(goal, self._heartbeat.goal(self._skills.name, goal.over.done))

        pending: Pending[Observation] = Pending(on_cancel=cancel)
        goal.end.add_done_callback(lambda told: settle_as(told, pending, partial(self._observation, skill)))
        pending.add_done_callback(lambda _: goal.give_up())  # also if somebody else fails it
        name, ready = self._skills.name, self._skills.server_is_ready
        waiting = Waiting(
            name, f"{name}/_action/send_goal", ready, send, stop, pending, gone=WorldError, node=self._full_name
        )
        self._calls.wait(waiting)
        self._skill = pending
        return pending

    def _observation(self, skill: str, told: Any) -> Observation:
        if told.outcome not in OUTCOMES:
            raise WorldError(f"'{skill}' ended with the unknown outcome {told.outcome}")
        outcome = OUTCOMES[told.outcome]
        if outcome is Outcome.WORLD_UNAVAILABLE or not told.observation.text:
            raise WorldError(f"{self._bridge}: {told.message or outcome.value}")
        self._take_skills(told)
        if outcome is Outcome.HALTED:
            self._halted_by_result = _nanoseconds(told.observation.stamp), steady.now()
            self._note_halted(told.message)
        return observation_from_msg(told.observation, outcome)

    def stop(self) -> None:
        if self._skill is not None:
            self._skill.cancel()

    def _stop_cancelled(self) -> None:
        while self._cancelled:
            self._cancelled.popleft()()

    def at_rest(self) -> Pending[None]:
        """Settle when the bridge has ended the last cancelled skill; fails if the bridge goes away before.

        The bridge carries out one skill at a time, so the others have ended, too.
        """
        resting: Pending[None] = Pending()
        self._last.add_done_callback(lambda ended: settle_as(ended, resting))
        return resting

    def close(self) -> None:
        self._stop_cancelled()
        self._wake.close()
        self._skills.close()
        self._node.destroy_subscription(self._status)
        for client in self._clients:
            self._node.destroy_client(client)

    def leave(self) -> None:
        """Let the clients end with the process, because the bridge has gone.

        The middleware would wait a second for each client whose last request nobody acknowledges.
        """
        for client in (*self._clients, *self._skills.clients):
            setattr(client, "destroy", lambda: None)  # noqa: B010


def _corrected(msg: CorrectWorld.Response) -> Observation:
    return observation_from_msg(msg.observation, Outcome.DONE if msg.taken_in else Outcome.PRECONDITION)


class _Lost(ServerUnavailable):
    """The inference node has died, was restarted, or aborts requests because it ends."""


class _NotActive(ServerUnavailable):
    """The inference node lives and does not answer requests, or not yet."""


class _Forgotten(ServerUnavailable):
    """The inference node does not have the prompt that the request goes on from."""


class Introduction(NamedTuple):
    """An inference node's description of its language model."""

    settings: Mapping[str, Any] = MappingProxyType({})
    trained_for: tuple[str, ...] = ()


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
        self._sent = SentPrompts()

    def slowness(self, request: DecisionRequest) -> float:
        return self._pace.times(request.prompt)

    def decide(self, request: DecisionRequest) -> Pending[Reply]:
        reply: Pending[Reply] = Pending()
        times = itertools.count(1)
        inactive_since: list[float] = []

        def ask(*, whole: bool = False) -> None:
            if not reply.done():
                asked = self._ask(request, next(times), whole=whole)
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
            elif isinstance(error, _Forgotten):
                self._sent.forget()
                ask(whole=True)
            elif isinstance(error, _Lost):
                inactive_since.clear()
                self._sent.forget()  # the next node has none of them
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
        return mapped(response, lambda msg: Introduction(settings_from(msg.settings), tuple(msg.trained_for)))

    def _ask(self, request: DecisionRequest, time: int, *, whole: bool) -> Pending[Reply]:
        turns = tuple(request.turns)
        known = None if whole else self._sent.longest(turns)
        msg = request_to_msg(request, known)
        msg.id = f"{self._prefix} {request.id}" + (f" ({time})" if time > 1 else "")  # unique among planners and lives
        msg.planner = request.planner or self._prefix

        def abort() -> None:
            if self._abort.service_is_ready():
                self._abort.call_async(AbortGeneration.Request(id=msg.id))

        def take(answer: Generate.Response) -> Reply:
            if known is not None and answer.error_code == Generate.Response.UNKNOWN_PROMPT:
                raise _Forgotten(answer.message)
            reply = self._take_reply(answer)
            self._sent.add(msg.id, turns, known)
            return reply

        return self._calls.call(
            self._generate,
            msg,
            take=take,
            on_cancel=abort,
            gone=ServerUnavailable,
            lost=_Lost,
            of=self._full_name,
        )

    def _take_reply(self, msg: Generate.Response) -> Reply:
        if msg.error_code == Generate.Response.NONE:
            try:
                return reply_from_msg(msg)
            except ValueError as error:
                raise LanguageModelError(f"{self._inference}: said: {error}") from error
        kinds = {Generate.Response.NOT_ACTIVE: _NotActive, Generate.Response.ABORTED: _Lost}
        if msg.error_code in kinds:  # nobody waits for a decision that was aborted from here
            raise kinds[msg.error_code](f"{self._inference}: {msg.message}")
        raise error_from_msg(msg)

    def close(self) -> None:
        for client in (self._generate, self._abort, self._ready):
            self._node.destroy_client(client)
