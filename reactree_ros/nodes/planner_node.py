"""The planner: carries out instructions by growing a behaviour tree that can be watched, cancelled and recorded."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import py_trees
import py_trees_ros
from py_trees.behaviour import Behaviour
from py_trees.common import Status
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from reactree_interfaces.action import ExecuteTask
from reactree_interfaces.msg import Decision as DecisionMsg

from reactree_ros.agent.budget import Budget
from reactree_ros.agent.decision import Act, Decision, Think
from reactree_ros.errors import UserError
from reactree_ros.llm.port import Reply
from reactree_ros.memory.working import WorkingMemory
from reactree_ros.nodes.adapters import RosLanguageModel, RosWorld
from reactree_ros.nodes.calls import Calls
from reactree_ros.nodes.messages import counted
from reactree_ros.nodes.parameters import declare
from reactree_ros.nodes.spinning import run_node
from reactree_ros.nodes.waiting import Waker
from reactree_ros.pending import Pending
from reactree_ros.planners.variants import REMEMBERING, Variant, variant
from reactree_ros.run import Run, RunResult
from reactree_ros.saved_run import experiences, save_run
from reactree_ros.tree.context import Listener, RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.tree.growth import Growth
from reactree_ros.tree.options import ParallelPolicy, TreeOptions
from reactree_ros.world.port import Observation, Score

ON_BUSY = ("reject", "queue", "preempt")
#: Longest wait for the score of a task that was stopped, in seconds.
LAST_SCORE = 1.0


class PlannerNode(Node):
    """Carries out instructions.

    Actions:
        ``~/execute_task`` (ExecuteTask): one task at a time; a further goal is rejected, waits, or takes over, as the
        parameter ``on_busy`` says.

    Publishes:
        ``~/decisions`` (Decision; reliable, depth 100): every decision as it is taken.
        py_trees_ros' snapshot streams (``~/snapshot_streams/…``, and ``~/snapshots`` where its parameter
        ``default_snapshot_stream`` is set): the tree as it grows.

    Uses:
        the bridge and the inference node named by the parameters ``bridge`` and ``inference``.

    Parameters:
        ``bridge``, ``inference``, ``planner``, ``tick_rate``, ``max_decisions``, ``max_steps``, ``max_depth``,
        ``parallel``, ``working_memory``, ``memory``, ``on_busy``, ``queue_size``, ``decision_timeout``,
        ``skill_timeout``, ``server_timeout``, ``save_to``.
    """

    def __init__(self, name: str = "reactree_planner", **kwargs: Any) -> None:
        """Make the node.

        Args:
            name: Its name.
            kwargs: Passed on to :class:`rclpy.node.Node`.

        Raises:
            UserError: The episodic memory cannot be opened.
        """
        super().__init__(name, **kwargs)
        bridge = declare(self, "bridge", "household_bridge", "name of the bridge node")
        inference = declare(self, "inference", "inference", "name of the inference node")
        variant(declare(self, "planner", "reactree", "planner of goals that name none"))
        rate = declare(self, "tick_rate", 10.0, "ticks a second; also ticks when something ends", between=(0.1, 1000.0))
        for what, default in (("max_decisions", 200), ("max_steps", 200), ("max_depth", 20)):
            declare(self, what, default, f"{what} of goals that give none", between=(1, 10**6), read_only=False)
        declare(self, "parallel", "majority", "when a parallel succeeds", one_of=("majority", "all"))
        declare(self, "working_memory", True, "remember where things were seen", read_only=False)
        memory = declare(self, "memory", "", "episodic memory, a file; empty: none")
        declare(self, "on_busy", "reject", "what happens to a goal while a task runs", one_of=ON_BUSY)
        declare(self, "queue_size", 16, "goals that may wait", between=(1, 10000))
        declare(self, "decision_timeout", 120.0, "longest wait for a decision, in seconds", between=(0.1, 86400.0))
        declare(self, "skill_timeout", 600.0, "longest wait for a skill, in seconds", between=(0.1, 86400.0))
        patience = declare(self, "server_timeout", 5.0, "how long a server may be away, in s", between=(0.1, 3600.0))
        declare(self, "save_to", "", "folder in which each run is saved; empty: none is", read_only=False)

        self._episodic, self._examples = _open_memory(memory)
        self._waker = Waker(self)
        self._calls = Calls(self, patience=patience)
        self._world = RosWorld(self, bridge, self._calls)
        self._model = RosLanguageModel(self, inference, self._calls)
        self._growth = Growth()
        self._tree = py_trees_ros.trees.BehaviourTree(py_trees.composites.Sequence(name, memory=True))
        self._tree.setup(node=self)
        self._growth.follow(self._tree, node=self)
        self._task: Task | None = None
        self._queue: deque[Any] = deque()
        self._stopping = False
        self._streams: set[str] = set()
        self._decisions = self.create_publisher(DecisionMsg, "~/decisions", 100)
        self._wake = self.create_guard_condition(self._tick)
        self._timer = self.create_timer(1.0 / rate, self._regular_tick)
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
        policy = self.get_parameter("on_busy").value
        full = policy == "queue" and len(self._queue) >= self.get_parameter("queue_size").value
        if self._stopping or (busy and (policy == "reject" or full)):
            self.get_logger().warning(f"goal rejected: {'a task runs' if busy else 'shutting down'}")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT

    def _accepted(self, goal_handle: Any) -> None:
        self._queue.append(goal_handle)
        if self._task is None:
            self._next_task()
        elif self.get_parameter("on_busy").value == "preempt":
            self._task.stop(ExecuteTask.Result.PREEMPTED, "a newer goal took over")
            self._wake.trigger()

    def _next_task(self) -> None:
        if self._queue:
            goal_handle = self._queue.popleft()
            self._task = Task(goal_handle)
            if self._queue and self.get_parameter("on_busy").value == "preempt":
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
            result = task.failed(ExecuteTask.Result.INVALID_GOAL, str(error))
        except Exception as error:
            result = task.failed(ExecuteTask.Result.WORLD_UNAVAILABLE, str(error) or type(error).__name__)
        finally:
            self._task = None
        if goal_handle.is_cancel_requested:
            goal_handle.canceled()
        elif result.success and not result.error_code:
            goal_handle.succeed()
        else:
            goal_handle.abort()
        if not self._stopping:
            self._next_task()
        return result

    @staticmethod
    def _without_a_turn(goal_handle: Any) -> ExecuteTask.Result:
        """End a goal that was canceled in the queue, or still waits there at the end."""
        task = Task(goal_handle)
        if goal_handle.is_cancel_requested:
            goal_handle.canceled()
            task.stop(ExecuteTask.Result.CANCELED, "canceled")
        else:
            goal_handle.abort()
            task.stop(ExecuteTask.Result.SHUTDOWN, "the planner was shut down")
        return task.failed()

    async def _carry_out(self, task: Task) -> ExecuteTask.Result:
        goal = task.goal_handle.request
        planner = self._planner_of(goal)
        context = self._context_of(goal)
        instruction, task_id, task_name = goal.instruction, goal.task_id, "instruction"
        if not task.stopped and (task_id >= 0 or not instruction.strip()):
            limit = self.get_parameter("skill_timeout").value
            reset = await self._answered(task, self._world.reset_to(task_id), limit)
            instruction = instruction if instruction.strip() else reset.instruction
            task_id, task_name = reset.task_id, reset.task_name or task_name
        if not task.stopped:
            for child in list(self._tree.root.children):
                self._tree.prune_subtree(child.id)
            context.listener = _Reporter(self, task)
            number = None if task_id < 0 else task_id
            task.run = Run(instruction.strip(), context, planner=planner.build, tree=self._tree, task_id=number)
            context.wake = self._wake.trigger
            self._wake.trigger()
            await task.ended
        return await self._concluded(task, task_name)

    async def _answered(self, task: Task, answer: Pending[Any], limit: float) -> Any:
        """Wait for the bridge, at most so many seconds, and no longer once the task is to stop."""
        task.asked, task.asked_until = answer, self._calls.now() + limit
        await self._waker.settled(answer)
        task.asked = None
        if answer.cancelled():
            raise TimeoutError(f"the bridge did not answer within {limit:g} s")
        return answer.take()

    async def _concluded(self, task: Task, task_name: str) -> ExecuteTask.Result:
        run = task.run
        if run is None:
            return task.failed()
        if run.finished and run.root.status == Status.INVALID and self._tree.tree_update_handler is not None:
            self._tree.tree_update_handler()  # so that followers see the interruption
        score: Score | None = None
        problem = ""
        if not self._stopping:
            limit = LAST_SCORE if task.stopped else self.get_parameter("decision_timeout").value
            goal = task.goal_handle.request
            asked = goal.instruction.strip() if goal.task_id < 0 else ""  # a task's goal is its own in any words
            try:
                score = await self._answered(task, self._world.score_of(asked), limit)
            except Exception as error:
                problem = f"no score: {error}"
        result = run.result(score, problem)
        code, message = task.stopped or (ExecuteTask.Result.NONE, result.message)
        if result.end == "error":
            code = ExecuteTask.Result.AGENT_NODE_ERROR
        saved_to = ""
        try:
            saved_to = self._keep(run, result, task_name)
        except (OSError, UserError, RuntimeError) as error:
            code, message = ExecuteTask.Result.SAVE_FAILED, str(error)
        return ExecuteTask.Result(
            success=result.achieved and not task.stopped,
            end=result.end,
            gsr=-1.0 if result.gsr is None else result.gsr,
            ssr=-1.0 if result.ssr is None else result.ssr,
            decisions=result.decisions,
            steps=result.steps,
            agent_nodes=result.agent_nodes,
            max_depth=result.max_depth,
            seconds=result.seconds,
            prompt_tokens=counted(result.prompt_tokens),
            cached_tokens=counted(result.cached_tokens),
            output_tokens=counted(result.output_tokens),
            model_seconds=result.model_seconds,
            error_code=code,
            message=message,
            saved_to=saved_to,
        )

    def _planner_of(self, goal: ExecuteTask.Goal) -> Variant:
        return variant(goal.planner or self.get_parameter("planner").value)

    def _context_of(self, goal: ExecuteTask.Goal) -> RunContext:
        """Read a goal's options.

        Raises:
            UserError: An option makes no sense.
        """
        planner = self._planner_of(goal)
        if goal.task_id < -1:
            raise UserError(f"task_id is {goal.task_id}; it must be a task of the bridge's task file, or -1")
        if goal.working_memory > ExecuteTask.Goal.WORKING_MEMORY_OFF:
            raise UserError(f"working_memory is {goal.working_memory}; it must be one of the constants (0, 1, 2)")

        def chosen(name: str) -> int:
            return int(getattr(goal, name) or self.get_parameter(name).value)

        remember = planner.working_memory or self.get_parameter("working_memory").value
        if goal.working_memory != ExecuteTask.Goal.WORKING_MEMORY_DEFAULT:
            remember = goal.working_memory == ExecuteTask.Goal.WORKING_MEMORY_ON
        return RunContext(
            model=self._model,
            world=self._world,
            growth=self._growth,
            budget=Budget(max_decisions=chosen("max_decisions"), max_steps=chosen("max_steps")),
            options=TreeOptions(
                parallel=ParallelPolicy(self.get_parameter("parallel").value),
                max_depth=chosen("max_depth"),
                seed=goal.seed,
                decision_timeout=self.get_parameter("decision_timeout").value,
                skill_timeout=self.get_parameter("skill_timeout").value,
            ),
            working_memory=WorkingMemory() if remember and planner.planner in REMEMBERING else None,
            examples=self._examples,
        )

    def _keep(self, run: Run, result: RunResult, task_name: str) -> str:
        """Add a run to episodic memory and save it, where that is asked for; returns where it was saved."""
        if self._episodic is not None and result.achieved:
            task_id = str(result.task_id or 0)
            self._episodic.add_run(experiences(run.context.nodes, task_id=task_id, task_name=task_name))
        save_to = self.get_parameter("save_to").value
        if not save_to:
            return ""
        folder = Path(save_to) / f"{self.get_clock().now().nanoseconds}"
        save_run(run, result, folder, task_name=task_name)
        return str(folder)

    # ------------------------------------------------------------------ ticking

    def _regular_tick(self) -> None:
        self._calls.watch()
        self._tick()
        streams = set(self._tree.snapshot_streams)
        if self._task is None and streams - self._streams and self._tree.tree_update_handler is not None:
            self._tree.tree_update_handler()  # who begins to watch between two tasks sees the tree of the last one
        self._streams = streams

    def _tick(self) -> None:
        """Tick the task that runs; ends it where the tree has ended or it is to stop."""
        task = self._task
        if task is not None and task.asked is not None and self._calls.now() > task.asked_until:
            task.asked.cancel()
        if task is None or task.run is None or task.ended.done():
            return
        if task.stopped:
            task.run.interrupt()
        else:
            task.run.tick()
        if task.run.finished:
            task.ended.set_result(None)
            self._waker.wake()

    def publish_decision(self, msg: DecisionMsg) -> None:
        """Publish a decision, stamped now."""
        msg.stamp = self.get_clock().now().to_msg()
        self._decisions.publish(msg)

    # ------------------------------------------------------------------ the end

    def begin_stop(self) -> None:
        """Interrupt the task that runs: what it has in flight is cancelled."""
        self._stopping = True
        if self._task is not None:
            self._task.stop(ExecuteTask.Result.SHUTDOWN, "the planner was shut down")
            self._tick()
        while self._queue:
            self._queue.popleft().execute()

    def stopped(self) -> bool:
        """Whether no task runs."""
        return self._task is None

    def destroy_node(self) -> None:
        """Release memory, tree and endpoints."""
        if self._examples is not None:
            self._examples.close()
        if self._episodic is not None:
            self._episodic.close()
        self._action.destroy()
        super().destroy_node()


class Task:
    """A goal that is being carried out.

    Attributes:
        goal_handle: The goal.
        run: Its run; None before it has begun.
        ended: Set when the run has ended.
        stopped: Error code and message, where it is to stop before its end.
        asked: What the bridge is asked for outside of the run; None: nothing.
        asked_until: When that is given up, in seconds of the node's clock.
    """

    def __init__(self, goal_handle: Any) -> None:
        self.goal_handle = goal_handle
        self.run: Run | None = None
        self.ended = Future()
        self.stopped: tuple[int, str] | tuple[()] = ()
        self.asked: Pending[Any] | None = None
        self.asked_until = 0.0

    def stop(self, code: int, message: str) -> None:
        """Ask for an end at the next tick."""
        self.stopped = self.stopped or (code, message)
        self.asked_until = 0.0

    def failed(self, code: int = ExecuteTask.Result.NONE, message: str = "") -> ExecuteTask.Result:
        """Return the result of a task that came to nothing: it was stopped before it began, or failed."""
        end = "interrupted" if self.stopped else "error"
        code, message = self.stopped or (code, message)
        return ExecuteTask.Result(end=end, gsr=-1.0, ssr=-1.0, error_code=code, message=message)


class _Reporter(Listener):
    """Publishes what happens in a run as decisions and as feedback."""

    def __init__(self, node: PlannerNode, task: Task) -> None:
        self._node, self._task = node, task
        self._feedback = ExecuteTask.Feedback()

    def decided(self, node: GoalNode, decision: Decision, reply: Reply) -> None:
        kind = DecisionMsg.EXPAND
        if isinstance(decision, Think | Act):
            kind = DecisionMsg.THINK if isinstance(decision, Think) else DecisionMsg.ACT
        self._decision(node, kind, reply.text, reply=reply)

    def refused(self, node: GoalNode, said: str, reason: str) -> None:
        self._decision(node, DecisionMsg.REFUSED, said, reason=reason)

    def observed(self, node: GoalNode, observation: Observation) -> None:
        self._feedback.last_observation = observation.text
        self._publish(node)

    def _decision(self, node: GoalNode, kind: int, text: str, *, reason: str = "", reply: Reply | None = None) -> None:
        reply = reply or Reply(text)
        self._node.publish_decision(
            DecisionMsg(
                node_id=node.index,
                subgoal=node.subgoal,
                depth=node.depth,
                count=self._task.run.context.budget.decisions if self._task.run else 0,
                kind=kind,
                text=text,
                reason=reason,
                prompt_tokens=counted(reply.prompt_tokens),
                cached_tokens=counted(reply.cached_tokens),
                output_tokens=counted(reply.output_tokens),
                seconds=reply.seconds,
                answered_by=reply.answered_by,
            )
        )
        self._feedback.last_decision = text
        self._publish(node)

    def _publish(self, node: GoalNode) -> None:
        if self._task.run is None or not self._task.goal_handle.is_active:
            return
        budget = self._task.run.context.budget
        self._feedback.decisions, self._feedback.steps = budget.decisions, budget.steps
        self._feedback.active_path = _path(node)
        self._task.goal_handle.publish_feedback(self._feedback)


def _path(node: GoalNode) -> list[str]:
    names: list[str] = []
    behaviour: Behaviour = node
    while behaviour.parent is not None:  # up to the tree's own root, which is no part of the task
        names.append(behaviour.name)
        behaviour = behaviour.parent
    return names[::-1]


def _open_memory(path: str) -> tuple[Any, Any]:
    if not path:
        return None, None
    from reactree_ros.memory.embedding import default_embedder
    from reactree_ros.memory.episodic import EpisodicMemory, approximate_tokens
    from reactree_ros.memory.examples import EpisodicExamples

    embedder = default_embedder()
    embedder.encode(["Is the model there?"])
    memory = EpisodicMemory(path, embedder)
    return memory, EpisodicExamples(memory, count_tokens=approximate_tokens)


def main() -> None:
    """Run the node."""
    run_node(PlannerNode)


if __name__ == "__main__":
    main()
