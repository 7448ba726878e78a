"""Carries a task out: from its goal to an episode that is ticked, and from the episode's end to the goal's result."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from py_trees.common import Status
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.srv import Hear, ResetWorld, SayDecision
from std_srvs.srv import Trigger

from reactree_ros.agent.text import in_one_line
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.episode.assembly import assemble
from reactree_ros.episode.going_on import WayBack, resumed, stop_of
from reactree_ros.episode.run_spec import RunSpec, surroundings
from reactree_ros.errors import UserError
from reactree_ros.llm.port import LanguageModelError
from reactree_ros.llm.spec import strange
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.spec import is_brought
from reactree_ros.nodes import steady
from reactree_ros.nodes.parameters import settings_of
from reactree_ros.nodes.people.ros_person import RosPerson
from reactree_ros.nodes.planner.adapters import Introduction, RosLanguageModel, RosTeam, RosWorld
from reactree_ros.nodes.planner.reporter import Reporter, id_of
from reactree_ros.nodes.planner.task import (
    CANCELED,
    ERROR_CODES,
    STOPPED,
    RecordTopic,
    Task,
    TaskQueue,
    asked_for,
    limits_of,
    record_of,
    result_of,
    spec_of_goal,
)
from reactree_ros.nodes.settings import TaskSettings
from reactree_ros.nodes.waiting import settled
from reactree_ros.person.port import is_stop
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import household_to_dict
from reactree_ros.record.verdict import EpisodeEnd, Judgement
from reactree_ros.view.steering import PAUSED, Steering
from reactree_ros.world.port import WorldError

T = TypeVar("T")


class TaskControl:
    """Offers ``~/pause``, ``~/resume``, ``~/step``, ``~/say`` and ``~/hear``."""

    def __init__(self, node: Node, queue: TaskQueue, *, halted: Callable[[], str], wake: Callable[[], None]) -> None:
        self._node, self._log, self._queue, self._halted, self._wake = node, node.get_logger(), queue, halted, wake
        self.paused = ""
        node.create_service(Trigger, "~/pause", lambda _, response: self._hold(PAUSED, response))
        node.create_service(Trigger, "~/resume", lambda _, response: self._hold("", response))
        node.create_service(Trigger, "~/step", self._step)
        node.create_service(Hear, "~/hear", self._hear)
        node.create_service(SayDecision, "~/say", self._say, callback_group=ReentrantCallbackGroup())

    def held(self) -> str:
        """Say why tasks hold: somebody paused them, or the world may not move; empty: they go on."""
        return self.paused or self._halted()

    def take_in(self, words: str) -> None:
        """Tell the running task what a person says; ``stop`` ends it even if it can take no words in now."""
        task = self._queue.running
        if task is None:
            raise UserError("no task runs that could take in what you say")
        self._log.info(f"goal {id_of(task.goal_handle)} hears {words!r}")
        if not is_stop(words):
            self._steering().tell(words)
            return
        with suppress(UserError):  # it has not begun, is on its way back, or has ended
            self._steering().tell(words)
        task.stop(*STOPPED)
        self._queue.dismiss()
        self._wake()

    def _steering(self) -> Steering:
        task = self._queue.running
        if task is None or task.steering is None:
            raise UserError("no task runs; there is nothing to steer")
        return task.steering

    def _hold(self, reason: str, response: Trigger.Response) -> Trigger.Response:
        self.paused = reason
        with suppress(UserError):  # none runs, or it is on its way back: it holds when it arrives
            steering = self._steering()
            steering.pause() if reason else steering.go_on()
        task = "no task runs; the next one" if self._queue.running is None else "the task"
        response.success, response.message = True, f"{task} {'holds until it is resumed' if reason else 'goes on'}"
        if not reason and (halted := self._halted()):
            response.message += f" when it may: {halted}"
        self._log.info(f"{'paused' if reason else 'resumed'}: {response.message}")
        return response

    def _step(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._tried(response, lambda: self._steering().step())
        if response.success:
            self.paused, response.message = PAUSED, "the task takes one step, then holds"
        return response

    async def _say(self, request: SayDecision.Request, response: SayDecision.Response) -> SayDecision.Response:
        if (said := self._tried(response, lambda: self._steering().say(request.words))) is not None:
            self._wake()
            response.message = (await settled(self._node, said)).take()
            response.success = not response.message
        return response

    def _hear(self, request: Hear.Request, response: Hear.Response) -> Hear.Response:
        self._tried(response, lambda: self.take_in(request.words))
        return response

    @staticmethod
    def _tried(response: Any, do: Callable[[], T]) -> T | None:
        try:
            done = do()
        except UserError as error:
            response.message = str(error)
            return None
        response.success = True
        return done


#: Longest wait for the inference node to say which language model it has, in seconds; a run begins without it, too.
INTRODUCTION = 2.0
#: Longest time to bring a resumed run forward in one tick, in seconds.
SLICE = 0.02
#: Longest wait for the score of a task that was stopped, in seconds.
LAST_SCORE = 1.0


class TaskRunner:
    """The server of ``~/execute_task``: carries one task out at a time, and reports how each goal ended."""

    def __init__(
        self,
        node: Node,
        queue: TaskQueue,
        *,
        world: RosWorld | RosTeam,
        model: RosLanguageModel,
        person: RosPerson,
        memory_name: str,
        control: TaskControl,
        reporter: Reporter,
        wake: Callable[[], None],
    ) -> None:
        self._node, self._queue, self._world, self._model, self._person = node, queue, world, model, person
        self._log = node.get_logger()
        self.last: ExecuteTask.Result | None = None  # of the goal that ended last
        self.memory: EpisodicMemory | None = None
        self._memory_name = memory_name
        self._control, self._reporter, self._wake = control, reporter, wake
        self._record = RecordTopic(node)
        self._action = ActionServer(
            node,
            ExecuteTask,
            "~/execute_task",
            execute_callback=self._execute,
            goal_callback=self._consider,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancel,
            callback_group=ReentrantCallbackGroup(),
            result_timeout=900,  # tasks are few, and a client may have lost its network meanwhile
        )

    async def _carry_out(self, task: Task) -> ExecuteTask.Result:
        goal, settings = task.goal_handle.request, settings_of(self._node, TaskSettings)
        record = record_of(goal) if goal.resume else None
        spec = spec_of_goal(goal, settings) if record is None else resumed(record, limits_of(goal))
        with suppress(WorldError):  # a bridge that is gone, or still busy, says so when it is asked for something
            await self._answered(task, self._world.at_rest(), settings.decision_timeout)
        reset = None
        if not task.stopped and record is None and (spec.task_id is not None or not spec.instruction):
            reset = await self._answered(task, self._world.reset_to(goal.task_id), settings.skill_timeout)
        model = await self._introduced(task) if not task.stopped else Introduction()
        if not task.stopped:
            await self._answered(task, self._world.learn(), settings.decision_timeout)
        if not task.stopped:
            self._begin(task, spec, settings, record=record, reset=reset, model=model)
            await settled(self._node, task.ended)
        return await self._conclude(task, settings)

    def _begin(
        self,
        task: Task,
        spec: RunSpec,
        settings: TaskSettings,
        *,
        record: Record | None,
        reset: ResetWorld.Response | None,
        model: Introduction,
    ) -> None:
        until = 0 if record is None else self._end_of(record)
        about, memory = self._world.about, self._memory_name
        if record is None:
            goal = task.goal_handle.request
            spec = spec_of_goal(goal, settings, task=reset, model=model, world=about, memory=memory)
            if said := strange(spec.planner, model.trained_for):
                self._log.warning(f"planner {said}")
        else:
            kept = spec.memory if is_brought(spec.memory) else ""
            spec = spec.but(memory=memory or kept, **surroundings(about, model.settings, where="the bridge"))
        self._reporter.clear(task)
        task.steering = Steering(self._model, paused=bool(self._control.paused))
        given: dict[str, Any] = {
            "world": self._world,
            "model": task.steering,
            "person": self._person,
            "memory": self.memory,
            "listener": self._reporter,
            "telling": True,
            "tree": self._reporter.tree,
            "growth": self._reporter.growth,
            **task.writing(self._record, settings.save_to),
        }
        if record is not None:
            told = f"goes on with the run {record.run['id']}; no skill is carried out again"
            self._log.info(f"goal {id_of(task.goal_handle)} {told}")
            task.way = WayBack(record, until, spec, later=True, **given)
            task.episode = task.way.episode
        else:
            task.episode = assemble(spec, **given)
        self._reporter.begin(task, task.episode)
        task.episode.context.wake = self._wake
        if task.way is None:
            task.steering.follow(task.episode)
        self._wake()

    def tick(self, task: Task) -> None:
        task.give_up_late_question()
        if task.episode is None or task.ended.done():
            return
        if task.episode.canceled:
            task.stop(*STOPPED)
        if task.returning and not task.stopped:
            self._return(task)
        if task.stopped:
            task.interrupt()
        elif not task.returning:
            task.episode.tick()
        self._record.publish()
        if task.episode.finished:
            task.ended.succeed(None)

    async def _introduced(self, task: Task) -> Introduction:
        asked = self._model.introduction()
        try:
            found: Introduction = await self._answered(task, asked, INTRODUCTION)
            return found
        except (LanguageModelError, WorldError, ValueError) as error:
            why = f"no answer within {INTRODUCTION:g} s" if asked.cancelled() else error
            self._log.warning(f"neither record nor planner follow from the language model: {why}")
            return Introduction()

    def _end_of(self, record: Record) -> int:
        household = self._world.household
        if json.loads(json.dumps(household_to_dict(household))) != record.run["household"]:
            raise UserError(f"{record.name}: was in another household than '{household.name}' of this bridge")
        return stop_of(record)

    def _return(self, task: Task) -> None:
        assert task.way is not None  # it is on it
        assert task.steering is not None
        until = steady.now() + SLICE
        try:
            while steady.now() < until:
                if task.way.step():
                    task.steering.follow(task.way.episode)
                    task.steering.pause() if self._control.paused else task.steering.go_on()
                    break
        except UserError as error:
            task.stop(ExecuteTask.Result.INVALID_GOAL, str(error))
        self._wake()

    async def _answered(self, task: Task, answer: Pending[Any], limit: float) -> Any:
        task.asked, task.asked_until = answer, steady.now() + limit
        await settled(self._node, answer)
        task.asked = None
        if answer.cancelled():
            raise WorldError(f"the bridge did not answer within {limit:g} s")
        return answer.take()

    async def _conclude(self, task: Task, settings: TaskSettings) -> ExecuteTask.Result:
        episode = task.episode
        if episode is None or task.steering is None:
            return task.failed()
        task.steering.ended()
        if episode.finished and episode.root.status == Status.INVALID:
            self._reporter.tree.show()  # so that followers see the interruption
        goal, score, problem = task.goal_handle.request, None, ""
        if not self._queue.closed and episode.result().end != EpisodeEnd.WORLD_GONE.value:
            limit = LAST_SCORE if task.stopped else settings.decision_timeout
            own = "" if goal.task_id >= 0 else goal.instruction.strip()  # a task's goal is its own in any words
            try:
                asked = self._world.score_of(episode.instruction if goal.resume else own)
                score = await self._answered(task, asked, limit)
            except WorldError as error:
                problem = f"no score: {error}"
        result = episode.conclude(score, problem)
        self._record.publish(unheard=True)
        code, message = task.stopped or (ERROR_CODES.get(result.end, ExecuteTask.Result.NONE), result.verdict.because)
        saved_to = ""
        try:
            if task.record is not None:
                task.record.close()
            await self._remember(task, episode, result)
            saved_to = task.saved_to()
        except (OSError, UserError, RuntimeError) as error:
            code, message = ExecuteTask.Result.SAVE_FAILED, str(error)
        return result_of(result, error_code=code, message=message, saved_to=saved_to)

    async def _remember(self, task: Task, episode: Episode, result: EpisodeResult) -> None:
        remember = partial(episode.remember, result)
        added = Pending.ready(remember()) if self.memory is None else self.memory.do(remember)
        (await settled(self._node, added)).take()
        for said in episode.learning.report:
            self._log.info(f"goal {id_of(task.goal_handle)}: {in_one_line(said)}")

    # ------------------------------------------------------------------ goals

    def close(self) -> None:
        self._action.destroy()

    def _consider(self, goal: ExecuteTask.Goal) -> GoalResponse:
        if why := self._queue.rejects():
            self._log.warning(f"goal rejected: {why}; {asked_for(goal)}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accepted(self, goal_handle: Any) -> None:
        self._log.info(f"goal {id_of(goal_handle)} accepted{self._queue.turn()}: {asked_for(goal_handle.request)}")
        self._queue.add(goal_handle)
        self._wake()

    def _cancel(self, goal_handle: Any) -> CancelResponse:
        if (task := self._with_turn(goal_handle)) is not None:
            task.stop(*CANCELED)
            self._wake()
        else:
            self._queue.withdraw(goal_handle)
        return CancelResponse.ACCEPT

    def _with_turn(self, goal_handle: Any) -> Task | None:
        task = self._queue.running
        return task if task is not None and task.goal_handle is goal_handle else None

    async def _execute(self, goal_handle: Any) -> ExecuteTask.Result:
        task = self._with_turn(goal_handle)
        if task is None:
            return self._without_turn(goal_handle)
        try:
            result = await self._result_of(task)
            self._reporter.feed_back(late=True)
            result.feedbacks = task.feedbacks
        finally:
            self._queue.running = None
        if goal_handle.is_cancel_requested:
            goal_handle.canceled()
        elif result.success and not result.error_code:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        self._end(task, result)
        self._queue.next()
        return result

    async def _result_of(self, task: Task) -> ExecuteTask.Result:
        try:
            return await self._carry_out(task)
        except UserError as error:
            return task.failed(ExecuteTask.Result.INVALID_GOAL, str(error) or type(error).__name__)
        except WorldError as error:
            return task.failed(ExecuteTask.Result.WORLD_UNAVAILABLE, str(error) or type(error).__name__)
        except Exception as error:
            self._log.error(traceback.format_exc())
            return task.failed(ExecuteTask.Result.BUG, f"{type(error).__name__}: {error}")

    def _without_turn(self, goal_handle: Any) -> ExecuteTask.Result:
        task, canceled = Task(goal_handle), goal_handle.is_cancel_requested
        goal_handle.canceled() if canceled else goal_handle.abort()
        task.stop(*(CANCELED if canceled else self._queue.closed or STOPPED))
        result = task.failed()
        self._end(task, result)
        return result

    def _end(self, task: Task, result: ExecuteTask.Result) -> None:
        asked = repr(task.episode.instruction) if task.episode else asked_for(task.goal_handle.request)
        reached = f"{Judgement[result.verdict.upper()].words.lower()} ({result.end or 'not begun'})"
        took = f"{result.decisions} decisions, {result.steps} steps, {result.seconds:.1f} s"
        why = f"; {result.message}" if result.message else ""
        self._log.info(f"goal {id_of(task.goal_handle)} ended: {reached}, {asked}; {took}{why}")
        self.last = result
        self._reporter.end(task, f"{reached}: {asked}{why}")
