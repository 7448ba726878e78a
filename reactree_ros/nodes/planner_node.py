"""The planner: carries out instructions by growing a behaviour tree that can be watched, cancelled and recorded."""

from __future__ import annotations

import json
import traceback
from collections import deque
from contextlib import suppress
from typing import Any

import py_trees
from py_trees.common import Status
from rclpy.action import CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg
from reactree_interfaces.srv import Hear, SayDecision
from std_srvs.srv import Trigger

from reactree_ros.agent.budget import LIMITS
from reactree_ros.background.pending import Pending
from reactree_ros.episode import Episode, EpisodeResult
from reactree_ros.episode.going_on import WayBack, more_than, stop_of
from reactree_ros.errors import UserError
from reactree_ros.llm.port import LanguageModelError
from reactree_ros.llm.trained import as_trained, strange
from reactree_ros.memory.port import EpisodicMemory
from reactree_ros.memory.spec import memory
from reactree_ros.nodes import steady
from reactree_ros.nodes.action_server import ActionServer
from reactree_ros.nodes.adapters import Introduction, RosLanguageModel, RosWorld
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.diagnostics import ERROR, OK, WARN, Diagnostics, Report
from reactree_ros.nodes.heartbeat import Heartbeat, Lives
from reactree_ros.nodes.messages import counted
from reactree_ros.nodes.parameters import declare, settings_of
from reactree_ros.nodes.record_topic import RecordTopic
from reactree_ros.nodes.reporter import Reporter, id_of
from reactree_ros.nodes.ros_person import RosPerson
from reactree_ros.nodes.ros_team import RosTeam
from reactree_ros.nodes.settings import PLANNER, PlannerNodeSettings, TaskSettings
from reactree_ros.nodes.shown_tree import ShownTree
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.task import (
    ERROR_CODES,
    Task,
    asked_for,
    asks,
    options_of_goal,
    record_of,
    remembers,
    with_score,
)
from reactree_ros.nodes.task_board import TaskBoard
from reactree_ros.nodes.waiting import Wake, Waker
from reactree_ros.person.port import is_stop
from reactree_ros.planners.spec import planner
from reactree_ros.record.reader import Record
from reactree_ros.record.schema import household_to_dict
from reactree_ros.record.verdict import EpisodeEnd, Judgement
from reactree_ros.record.writer import Recorder
from reactree_ros.tree.growth import Growth
from reactree_ros.view.steering import PAUSED, Steering
from reactree_ros.world.port import Score, WorldError

#: How often it is looked whether bridge and inference node live, and after what is asked of them, in seconds.
LOOK_PERIOD = 0.1
#: Longest wait for the inference node to say which language model it has, in seconds; a run begins without it, too.
INTRODUCTION = 2.0
#: How long a run is brought back to where its record was before others have their turn, in seconds.
SLICE = 0.02
#: Longest wait for the score of a task that was stopped, and for a server that is away at the end, in seconds.
LAST_SCORE = 1.0
STOPPED = "a person has stopped it"


class PlannerNode(Node):
    """Carries out instructions.

    Actions:
        ``~/execute_task`` (ExecuteTask): one task at a time; a further goal is rejected, waits, or takes over, as the
        parameter ``on_busy`` says.

    Services:
        ``~/pause`` (std_srvs/Trigger): the task that runs, and whatever comes after it, holds.
        ``~/resume`` (std_srvs/Trigger): it goes on, as far as no emergency stop is engaged.
        ``~/step`` (std_srvs/Trigger): it takes one more decision, then holds again.
        ``~/say`` (SayDecision): a paused task takes a person's words for its next decision, then holds again.
        ``~/hear`` (Hear): a person's words in the middle of the task: ``stop`` ends it, and goals that wait, as a
        cancel does; anything else is told to the goal nodes that decide from then on.
        ``~/read_record`` (ReadRecord): a part of the record of this run or the last one, for who came too late.

    Publishes:
        ``~/decisions`` (Decision; reliable, depth 100): every decision as it is taken, with its goal's id.
        ``~/record`` (RecordPart; reliable, transient local, depth 10): the run's record as it is written, see
        :class:`reactree_ros.nodes.record_topic.RecordTopic`.
        py_trees_ros' snapshot streams (``~/snapshot_streams/…``, and ``~/snapshots`` where its parameter
        ``default_snapshot_stream`` is set): the tree as it grows, from the start; see
        :class:`reactree_ros.nodes.shown_tree.ShownTree`, and for its blackboard
        :class:`reactree_ros.nodes.task_board.TaskBoard`.
        ``/diagnostics`` (DiagnosticArray, once a second): the task, its decisions and budgets, why it holds, who lives.
        ``heartbeat`` (Heartbeat): that the node lives, and the skill that it has under way.

    Subscribes to:
        ``heartbeat`` (Heartbeat): whether bridge and inference node live.

    Uses:
        the bridge and the inference node named by the parameters ``bridge`` and ``inference``; the action
        ``~/ask_person`` (AskPerson), which others offer, where a goal node asks a person.

    Parameters:
        those of :class:`PlannerNodeSettings`, read at the start, and of :class:`TaskSettings`, read for each goal.
    """

    def __init__(self, name: str = "reactree_planner", **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            kwargs: Passed on to :class:`rclpy.node.Node`.

        Raises:
            UserError: A parameter makes no sense, or the episodic memory cannot be opened.
        """
        # before what can be refused: since Kilted a shutdown destroys what was only half made, too
        self._memory: EpisodicMemory | None = None
        self._action: Any = None
        super().__init__(name, **kwargs)
        declare(self, PlannerNodeSettings)
        declare(self, TaskSettings, read_only=False)
        self._settings = settings = settings_of(self, PlannerNodeSettings)
        settings_of(self, TaskSettings)  # a planner that there is not is told at the start
        if settings.memory:
            named = memory(settings.memory)
            named.prepare()
            self._memory = named.open()
        self.heartbeat = Heartbeat(self)
        self._bridges = [f"{robot}/{settings.bridge}" for robot in settings.names] or [settings.bridge]
        self._lives = Lives(self, namespaces=settings.names)
        self._waker = Waker(self)
        self._calls = Calls(self, patience=settings.server_timeout, lives=self._lives)
        self._world: RosWorld | RosTeam = (
            RosTeam(self, settings.bridge, settings.names, self._calls, self.heartbeat)
            if settings.names
            else RosWorld(self, settings.bridge, self._calls, self.heartbeat)
        )
        self._model = RosLanguageModel(self, settings.inference, self._calls)
        self._person = RosPerson(self, self.heartbeat, self._take_in)
        self._growth = Growth()
        self._tree = ShownTree(py_trees.composites.Sequence(name, memory=True))
        self._tree.add_post_tick_handler(lambda _: self._tell_what_happened())  # before the tick's snapshot
        self._tree.setup(node=self)
        self._growth.follow(self._tree, node=self)
        self._board = TaskBoard(self._tree.root, self.get_fully_qualified_name())
        self._say("waits for a goal")
        self._task: Task | None = None
        self._shown: Task | None = None  # the one whose tree is there
        self._queue: deque[Any] = deque()
        self._stopping = False
        self._rest: Pending[None] = Pending.of(None)
        self._last: ExecuteTask.Result | None = None  # of the goal that ended last
        self._paused = ""  # why tasks hold; empty: nobody has paused them
        self._streams: set[str] = set()
        self._decisions = self.create_publisher(DecisionMsg, "~/decisions", 100)
        self._record = RecordTopic(self)
        self._wake = Wake(self, self._tick)
        self._world.changed = self._wake.trigger
        self.create_service(Trigger, "~/pause", self._pause)
        self.create_service(Trigger, "~/resume", self._resume)
        self.create_service(Trigger, "~/step", self._step)
        self.create_service(Hear, "~/hear", self._hear)
        self.create_service(SayDecision, "~/say", self._say_decision, callback_group=ReentrantCallbackGroup())
        Diagnostics(self, "task", self._report)
        self._timer = steady.every(self, 1.0 / settings.tick_rate, self._regular_tick)
        steady.every(self, LOOK_PERIOD, self._calls.watch)
        self._action = ActionServer(
            self,
            ExecuteTask,
            "~/execute_task",
            execute_callback=self._execute,
            goal_callback=self._consider,
            handle_accepted_callback=self._accepted,
            cancel_callback=self._cancel,
            callback_group=ReentrantCallbackGroup(),
            result_timeout=60,
        )

    # ------------------------------------------------------------------ goals

    def _consider(self, goal: ExecuteTask.Goal) -> GoalResponse:
        busy = self._task is not None
        policy = self._settings.on_busy
        full = policy == "queue" and len(self._queue) >= self._settings.queue_size
        if self._stopping or (busy and (policy == "reject" or full)):
            why = "shutting down" if self._stopping else f"{len(self._queue)} goals wait" if full else "a task runs"
            self.get_logger().warning(f"goal rejected: {why}; {asked_for(goal)}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accepted(self, goal_handle: Any) -> None:
        takes_over = self._settings.on_busy == "preempt"
        turn = "" if self._task is None else " and takes over" if takes_over else f" behind {len(self._queue) + 1}"
        self._log(goal_handle, f"accepted{turn}: {asked_for(goal_handle.request)}")
        self._queue.append(goal_handle)
        if self._task is None:
            self._next_task()
        elif self._settings.on_busy == "preempt":
            self._task.stop(ExecuteTask.Result.PREEMPTED, "a newer goal took over")
            self._wake.trigger()

    def _next_task(self) -> None:
        if self._queue:
            goal_handle = self._queue.popleft()
            self._task = Task(goal_handle)
            if self._queue and self._settings.on_busy == "preempt":
                self._task.stop(ExecuteTask.Result.PREEMPTED, "a newer goal took over")
            goal_handle.execute()

    def _cancel(self, goal_handle: Any) -> CancelResponse:
        if self._task is not None and self._task.goal_handle is goal_handle:
            self._task.stop(ExecuteTask.Result.CANCELED, "canceled")
            self._wake.trigger()
        elif goal_handle in self._queue:
            # It has no turn yet: it is executed now, to end as canceled.
            self._queue.remove(goal_handle)
            goal_handle.execute()
        return CancelResponse.ACCEPT

    async def _execute(self, goal_handle: Any) -> ExecuteTask.Result:
        task = self._task
        if task is None or task.goal_handle is not goal_handle:
            return self._without_a_turn(goal_handle)
        try:
            result = await self._carry_out(task)
        except UserError as error:
            result = task.failed(ExecuteTask.Result.INVALID_GOAL, str(error) or type(error).__name__)
        except WorldError as error:
            result = task.failed(ExecuteTask.Result.WORLD_UNAVAILABLE, str(error) or type(error).__name__)
        except Exception as error:
            self.get_logger().error(traceback.format_exc())
            result = task.failed(ExecuteTask.Result.BUG, f"{type(error).__name__}: {error}")
        finally:
            self._task = None
        if goal_handle.is_cancel_requested:
            goal_handle.canceled()
        elif result.success and not result.error_code:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        self._tell_end(task, result)
        if not self._stopping:
            self._next_task()
        return result

    def _without_a_turn(self, goal_handle: Any) -> ExecuteTask.Result:
        """End a goal that was canceled in the queue, or waits there when a person says stop, or at the end."""
        task = Task(goal_handle)
        if goal_handle.is_cancel_requested:
            goal_handle.canceled()
            task.stop(ExecuteTask.Result.CANCELED, "canceled")
        elif self._stopping:
            goal_handle.abort()
            task.stop(ExecuteTask.Result.SHUTDOWN, "the planner was shut down")
        else:
            goal_handle.abort()
            task.stop(ExecuteTask.Result.CANCELED, STOPPED)
        result = task.failed()
        self._tell_end(task, result)
        return result

    def _log(self, goal_handle: Any, text: str) -> None:
        self.get_logger().info(f"goal {id_of(goal_handle)} {text}")

    def _say(self, text: str) -> None:
        """Let the tree's root say something to whoever watches."""
        self._tree.root.feedback_message = text
        self._tree.show()

    def _tell_end(self, task: Task, result: ExecuteTask.Result) -> None:
        asked = repr(task.episode.instruction) if task.episode else asked_for(task.goal_handle.request)
        reached = Judgement[result.verdict.upper()].words.lower()
        took = f"{result.decisions} decisions, {result.steps} steps, {result.seconds:.1f} s"
        why = f"; {result.message}" if result.message else ""
        self._log(task.goal_handle, f"ended: {reached} ({result.end or 'not begun'}), {asked}; {took}{why}")
        self._last = result
        if task is self._shown:
            self._say(f"{reached} ({result.end or 'not begun'}): {asked}{why}")

    async def _carry_out(self, task: Task) -> ExecuteTask.Result:
        goal, settings = task.goal_handle.request, settings_of(self, TaskSettings)
        named, options = goal.planner or settings.planner, options_of_goal(goal, settings)
        chosen = planner(named or PLANNER)
        record = record_of(goal) if goal.resume else None
        instruction, task_id, task_name = goal.instruction, goal.task_id, "instruction"
        with suppress(WorldError):  # a bridge that is gone, or still busy, says so when it is asked for something
            await self._answered(task, self._world.at_rest(), settings.decision_timeout)
        if not task.stopped and record is None and (task_id >= 0 or not instruction.strip()):
            reset = await self._answered(task, self._world.reset_to(task_id), settings.skill_timeout)
            instruction = instruction if instruction.strip() else reset.instruction
            task_id, task_name = reset.task_id, reset.task_name or task_name
        model = await self._introduced(task) if not task.stopped else Introduction()
        if record is None and (meant := as_trained(named, model.trained_for)):
            chosen = planner(meant)
            if said := strange(meant, model.trained_for):
                self.get_logger().warning(f"planner {said}")
        about = await self._known(task, settings, model) if not task.stopped else {}
        if not task.stopped:
            self._tree.clear()
            task.steering = Steering(self._model, paused=bool(self._paused))
            task.reporter = Reporter(self, task, self._decisions, self._tree, self._board)
            given: dict[str, Any] = {
                "world": self._world,
                "model": task.steering,
                "person": self._person if record is not None or asks(chosen) else None,
                "memory": self._memory,
                "listener": task.reporter,
                "tree": self._tree,
                "growth": self._growth,
            }
            if record is not None:
                task.way = self._way_back(task, record, about, settings.save_to, given)
                task.episode = task.way.episode
            else:
                task.episode = Episode(
                    instruction.strip(),
                    planner=chosen,
                    options=options,
                    working_memory=remembers(goal, settings, chosen),
                    record=Recorder(**task.writing(self._record, settings.save_to), **with_score(about, task_id >= 0)),
                    task_id=None if task_id < 0 else task_id,
                    task_name=task_name,
                    **given,
                )
            self._shown = task
            carried_out = f"carries out {task.episode.instruction!r}, goal {id_of(task.goal_handle)}"
            self._tree.root.feedback_message = carried_out
            self._board.begin(task.episode.instruction, task.episode.context)
            task.episode.context.wake = self._wake.trigger
            if task.way is None:
                task.steering.follow(task.episode)
            self._wake.trigger()
            await task.ended
        return await self._concluded(task, settings)

    async def _known(self, task: Task, settings: TaskSettings, model: Introduction) -> dict[str, Any]:
        """Learn what the world is; returns what a record says of it and of the language model.

        Raises:
            WorldError: The bridge does not say what its household is.
        """
        await self._answered(task, self._world.learn(), settings.decision_timeout)
        return {"world": self._world.about, "llm": dict(model.settings)}

    async def _introduced(self, task: Task) -> Introduction:
        """Wait a moment for what the language model is; nothing where the inference node does not say it."""
        asked = self._model.introduction()
        try:
            found: Introduction = await self._answered(task, asked, INTRODUCTION)
            return found
        except (LanguageModelError, WorldError, ValueError) as error:
            why = f"no answer within {INTRODUCTION:g} s" if asked.cancelled() else error
            self.get_logger().warning(f"neither record nor planner follow from the language model: {why}")
            return Introduction()

    def _way_back(
        self, task: Task, record: Record, about: dict[str, Any], folder: str, given: dict[str, Any]
    ) -> WayBack:
        """Begin to bring a run to where its record ends; nothing of it is carried out again.

        Raises:
            UserError: It has nothing to go on with, or was in another household.
        """
        goal, household = task.goal_handle.request, self._world.household
        if json.loads(json.dumps(household_to_dict(household))) != record.run["household"]:
            raise UserError(f"{goal.resume}: was in another household than '{household.name}' of this bridge")
        limits = more_than(record, {name: getattr(goal, name) for name in LIMITS if getattr(goal, name)})
        self._log(task.goal_handle, f"goes on with the run {record.run['id']}; no skill is carried out again")
        return WayBack(
            record,
            stop_of(record),
            about=with_score(about, record.run["task_id"] is not None),
            limits=limits,
            later=True,
            **task.writing(self._record, folder),
            **given,
        )

    async def _answered(self, task: Task, answer: Pending[Any], limit: float) -> Any:
        """Wait for the bridge, at most so many seconds, and no longer once the task is to stop.

        Raises:
            WorldError: It did not answer in time, or cannot.
        """
        task.asked, task.asked_until = answer, steady.now() + limit
        await self._waker.settled(answer)
        task.asked = None
        if answer.cancelled():
            raise WorldError(f"the bridge did not answer within {limit:g} s")
        return answer.take()

    async def _concluded(self, task: Task, settings: TaskSettings) -> ExecuteTask.Result:
        episode = task.episode
        if episode is None or task.steering is None:
            return task.failed()
        task.steering.ended()
        if episode.finished and episode.root.status == Status.INVALID:
            self._tree.show()  # so that followers see the interruption
        score: Score | None = None
        problem = ""
        if not self._stopping and episode.result().end != EpisodeEnd.WORLD_GONE.value:
            limit = LAST_SCORE if task.stopped else settings.decision_timeout
            goal = task.goal_handle.request
            asked = goal.instruction.strip() if goal.task_id < 0 else ""  # a task's goal is its own in any words
            if goal.resume:
                asked = episode.instruction
            try:
                score = await self._answered(task, self._world.score_of(asked), limit)
            except WorldError as error:
                problem = f"no score: {error}"
        result = episode.conclude(score, problem)
        self._record.publish()
        code, message = task.stopped or (ERROR_CODES.get(result.end, ExecuteTask.Result.NONE), result.verdict.because)
        saved_to = ""
        try:
            saved_to = self._keep(task, episode, result)
        except (OSError, UserError, RuntimeError) as error:
            code, message = ExecuteTask.Result.SAVE_FAILED, str(error)
        return ExecuteTask.Result(
            success=result.achieved,
            verdict=result.verdict.judgement.word,
            end=result.end,
            gsr=-1.0 if result.gsr is None else result.gsr,
            ssr=-1.0 if result.ssr is None else result.ssr,
            decisions=result.decisions,
            steps=result.steps,
            agent_nodes=result.agent_nodes,
            questions=result.questions,
            max_depth=result.max_depth,
            seconds=result.seconds,
            prompt_tokens=counted(result.prompt_tokens),
            cached_tokens=counted(result.cached_tokens),
            output_tokens=counted(result.output_tokens),
            reasoning_tokens=counted(result.reasoning_tokens),
            cost=-1.0 if result.cost is None else result.cost,
            model_seconds=result.model_seconds,
            error_code=code,
            message=message,
            saved_to=saved_to,
        )

    def _keep(self, task: Task, episode: Episode, result: EpisodeResult) -> str:
        """Add an episode to episodic memory; returns where its record is, empty where there is none."""
        if task.record is not None:
            task.record.close()
        episode.remember(result)
        if problem := task.unsaved or (task.record.problem if task.record is not None else ""):
            raise UserError(problem)
        return "" if task.record is None else str(task.record.path)

    # ------------------------------------------------------------------ holding

    def _pause(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._hold(PAUSED, response)

    def _resume(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._hold("", response)

    def _hold(self, reason: str, response: Trigger.Response) -> Trigger.Response:
        """Hold tasks for a reason; without one let them go on."""
        self._paused = reason
        running = self._task is not None
        with suppress(UserError):  # no task has begun that has not ended, or it is on its way back; it holds then
            steering = self._steering()
            steering.pause() if reason else steering.go_on()
        response.success = True
        task = "the task" if running else "no task runs; the next one"
        response.message = f"{task} {'holds until it is resumed' if reason else 'goes on'}"
        halted = self._world.halted()
        if halted and not reason:
            response.message += f" when it may: {halted}"
        self.get_logger().info(f"{'paused' if reason else 'resumed'}: {response.message}")
        return response

    def _steering(self) -> Steering:
        """Return what steers the task that runs.

        Raises:
            UserError: None does.
        """
        if self._task is None or self._task.steering is None:
            raise UserError("no task runs; there is nothing to steer")
        return self._task.steering

    def _step(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            self._steering().step()
        except UserError as error:
            response.message = str(error)
            return response
        self._paused = PAUSED
        response.success, response.message = True, "the task takes one decision, then holds"
        return response

    async def _say_decision(self, request: SayDecision.Request, response: SayDecision.Response) -> SayDecision.Response:
        try:
            said = self._steering().say(request.words)
        except UserError as error:
            response.message = str(error)
            return response
        self._wake.trigger()
        await self._waker.settled(said)
        response.message = said.take()
        response.success = not response.message
        return response

    # ------------------------------------------------------------------ a person's words

    def _hear(self, request: Hear.Request, response: Hear.Response) -> Hear.Response:
        try:
            self._take_in(request.words)
        except UserError as error:
            response.message = str(error)
        response.success = not response.message
        return response

    def _take_in(self, words: str) -> None:
        """Take in what a person says in the middle of a task; ``stop`` also where nothing else could be taken in.

        Raises:
            UserError: No task runs, or it cannot take words in now.
        """
        task = self._task
        if task is None:
            raise UserError("no task runs that could take in what you say")
        self._log(task.goal_handle, f"hears {words!r}")
        if not is_stop(words):
            self._steering().tell(words)
            return
        with suppress(UserError):  # it has not begun, is on its way back, or has ended
            self._steering().tell(words)
        task.stop(ExecuteTask.Result.CANCELED, STOPPED)
        while self._queue:
            self._queue.popleft().execute()
        self._wake.trigger()

    # ------------------------------------------------------------------ diagnostics

    def _report(self) -> Report:
        task, last = self._task, self._last
        values: dict[str, object] = {
            "goal": "none" if task is None else id_of(task.goal_handle),
            "task": "none" if task is None else asked_for(task.goal_handle.request),
            **(task.counts() if task is not None else {}),
            "goals that wait": len(self._queue),
            "last goal": "none yet" if last is None else f"{last.end or 'not begun'}; {last.message}".rstrip("; "),
        }
        names = (*self._bridges, self._settings.inference)
        silent = [name for name in names if not self._lives.living(self.resolve_topic_name(name))]
        values |= {name: "silent" if name in silent else "lives" for name in names}
        held = self._paused or self._world.halted()
        values["held because"] = held or "it is not"
        if silent:
            return Report(WARN, f"silent: {', '.join(silent)}", values)
        if held:
            return Report(WARN, f"held: {held}", values)
        if task is None and last is not None and last.error_code in ERROR_CODES.values():
            return Report(ERROR, f"the last task ended by an error: {last.message}", values)
        return Report(OK, "waits for a goal" if task is None else "carries a task out", values)

    # ------------------------------------------------------------------ ticking

    def _regular_tick(self) -> None:
        self._tick()
        streams = set(self._tree.snapshot_streams)
        if self._task is None and streams - self._streams:
            self._tree.show()  # who begins to watch between two tasks sees the tree of the last one
        self._streams = streams

    def _tick(self) -> None:
        """Tick the task that runs; ends it where the tree has ended or it is to stop."""
        task = self._task
        if task is not None and task.asked is not None and steady.now() > task.asked_until:
            task.asked.cancel()
        if task is None or task.episode is None or task.ended.done():
            return
        if task.episode.canceled:
            task.stop(ExecuteTask.Result.CANCELED, STOPPED)
        if task.returning and not task.stopped:
            self._return(task)
        if task.stopped:
            task.interrupt()
        elif not task.returning:
            task.episode.tick()
        self._record.publish()
        if task.episode.finished:
            task.ended.set_result(None)
            self._waker.wake()

    def _return(self, task: Task) -> None:
        """Bring a run that is gone on with nearer to where it was."""
        assert task.way is not None  # it is on it
        assert task.steering is not None
        until = steady.now() + SLICE
        try:
            while steady.now() < until:
                if task.way.step():
                    task.steering.follow(task.way.episode)
                    task.steering.pause() if self._paused else task.steering.go_on()
                    break
        except UserError as error:
            task.stop(ExecuteTask.Result.INVALID_GOAL, str(error))
        self._wake.trigger()

    def _tell_what_happened(self) -> None:
        if self._task is not None and self._task.reporter is not None:
            self._task.reporter.tell()

    # ------------------------------------------------------------------ the end

    def begin_stop(self) -> None:
        """Interrupt the task that runs: what it has in flight is cancelled."""
        self._stopping = True
        self._calls.patience = min(self._calls.patience, LAST_SCORE)
        try:
            if self._task is not None:
                self._task.stop(ExecuteTask.Result.SHUTDOWN, "the planner was shut down")
                self._tick()
        finally:
            self._world.stop()
            self._rest = self._world.at_rest()
        while self._queue:
            self._queue.popleft().execute()

    def stopped(self) -> bool:
        """Whether no task runs, and the bridge has ended the skill or does not live any more."""
        living = any(self._lives.living(self.resolve_topic_name(bridge)) for bridge in self._bridges)
        return self._task is None and (self._rest.done() or not living)

    def destroy_node(self) -> None:
        """Release memory, tree and endpoints."""
        if self._memory is not None:
            self._memory.close()
        if self._action is not None:  # it is made last
            self._board.close()
            self._action.destroy()
            if any(self._lives.has_died(self.resolve_topic_name(bridge)) for bridge in self._bridges):
                self._world.leave()
        super().destroy_node()


def main() -> None:
    """Run the node."""
    run_node(PlannerNode)


if __name__ == "__main__":
    main()
