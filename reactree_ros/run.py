"""One run: an instruction carried out by a growing tree, from the first tick to its result, in this process."""

from __future__ import annotations

import enum
import math
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.trees import BehaviourTree

from reactree_ros.agent.budget import Limit
from reactree_ros.errors import UserError
from reactree_ros.memory.episodic import EpisodicMemory
from reactree_ros.memory.examples import EpisodicExamples
from reactree_ros.planners.reactree import reactree
from reactree_ros.tree.context import RunContext
from reactree_ros.world.port import Score

#: Longest time between two ticks, in seconds; a tick follows at once when something in flight ends.
TICK_PERIOD = 0.1
#: Longest wait for the world to say how far the goal is reached, in seconds.
SCORE_TIMEOUT = 30.0


class RunEnd(enum.Enum):
    """How a run ended."""

    DONE = "done"
    FAILURE = "failure"
    OUT_OF_DECISIONS = "out_of_decisions"
    OUT_OF_STEPS = "out_of_steps"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclass(frozen=True)
class RunResult:
    """What came of a run.

    Attributes:
        task_id: The task, where the instruction belongs to one.
        instruction: What was asked for.
        status: ``success`` or ``failure`` of the root agent node, ``interrupted`` where it was stopped.
        gsr: Goal success rate, 0 or 1; None where the world knows no goal.
        ssr: Subgoal success rate, 0 to 1; None where the world knows no goal.
        decisions: Decisions taken.
        steps: Skills and recalls taken.
        max_depth: Depth of the deepest agent node; the root is 1.
        agent_nodes: Agent nodes that started.
        seconds: From the first tick to the last.
        prompt_tokens: Tokens of all prompts together; None where the model does not count.
        cached_tokens: How many of them a prefix cache served; None where that is unknown.
        output_tokens: Tokens that the model generated; None where it does not count.
        model_seconds: Time that the model took for its replies, together.
        end: A value of :class:`RunEnd`.
        message: What went wrong, for ``error``; empty otherwise.
    """

    task_id: int | None
    instruction: str
    status: str
    gsr: float | None
    ssr: float | None
    decisions: int
    steps: int
    max_depth: int
    agent_nodes: int
    seconds: float
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    model_seconds: float
    end: str
    message: str

    @property
    def achieved(self) -> bool:
        """Whether the goal was reached: by the world's score, or by the root's status where there is none."""
        return self.gsr == 1.0 if self.gsr is not None else self.status == "success"


class Run:
    """Carries out one instruction.

    :meth:`tick` is for whoever has a loop of their own (a ROS timer); :meth:`run` is a loop.

    Args:
        instruction: What to do, in natural language.
        context: What the agent nodes share; used for this run only.
        task_id: The task the instruction belongs to, for the result.
        planner: Builds the tree.
        tree: Where the run grows: as the first child of this tree's root, with the context's growth already
            following it. By default a tree of the run's own.

    Raises:
        UserError: The instruction is empty.
    """

    def __init__(
        self,
        instruction: str,
        context: RunContext,
        *,
        task_id: int | None = None,
        planner: Callable[[str, RunContext], Behaviour] = reactree,
        tree: BehaviourTree | None = None,
    ) -> None:
        if not instruction.strip():
            raise UserError("the instruction is empty; say what to do")
        self.instruction = instruction
        self.context = context
        self.task_id = task_id
        self.root = planner(self.instruction, context)
        if tree is None:
            self.tree = BehaviourTree(self.root)
            context.growth.follow(self.tree)
        else:
            self.tree = tree
            tree.insert_subtree(self.root, tree.root.id, 0)
        self._ticked = False
        self._awake = threading.Event()
        context.wake = self._awake.set
        self._begin = self._seconds = 0.0

    @property
    def finished(self) -> bool:
        """Whether the root agent node has ended or was interrupted."""
        return self._ticked and self.root.status != Status.RUNNING

    def tick(self) -> None:
        """Tick the tree once."""
        if not self._ticked:
            self._ticked, self._begin = True, time.monotonic()
        self._awake.clear()
        self.tree.tick()
        self._seconds = time.monotonic() - self._begin

    def wait(self, timeout: float = TICK_PERIOD) -> None:
        """Wait until something in flight ends, at most so many seconds."""
        self._awake.wait(timeout)

    def run(self, memory: EpisodicMemory | None = None) -> RunResult:
        """Tick until the end; an exception on the way (Ctrl-C) cancels what is in flight.

        Args:
            memory: Where examples come from; it is not added to.
        """
        if memory is None:
            return self._run()
        context = self.context
        with closing(EpisodicExamples(memory, count_tokens=context.count_tokens, seed=context.options.seed)) as found:
            context.examples = found
            return self._run()

    def _run(self) -> RunResult:
        try:
            while True:
                self.tick()
                if self.finished:
                    break
                self.wait()
        except BaseException:
            self.interrupt()
            raise
        try:
            score, problem = self.context.world.score().result(timeout=SCORE_TIMEOUT), ""
        except Exception as error:
            score, problem = None, f"no score: {str(error) or type(error).__name__}"
        return self.result(score, problem)

    def interrupt(self) -> None:
        """Stop: whatever is in flight is cancelled."""
        self._ticked = True
        self.root.stop(Status.INVALID)

    def result(self, score: Score | None = None, problem: str = "") -> RunResult:
        """Say what came of the run.

        Args:
            score: How far the goal is reached in the world as it is now, where the world knows one.
            problem: What went wrong outside of the tree.
        """
        context, root, end = self.context, self.root, self._end()
        replies = [reply for _, _, reply in context.replies]
        message = context.errors[0] if end is RunEnd.ERROR else problem
        return RunResult(
            task_id=self.task_id,
            instruction=self.instruction,
            status="interrupted" if root.status == Status.INVALID else root.status.value.lower(),
            gsr=None if score is None else score.gsr,
            ssr=None if score is None else score.ssr,
            decisions=context.budget.decisions,
            steps=context.budget.steps,
            max_depth=max((node.depth for node in context.nodes), default=1),
            agent_nodes=len(context.nodes),
            seconds=round(self._seconds, 3),
            prompt_tokens=_total(reply.prompt_tokens for reply in replies),
            cached_tokens=_total(reply.cached_tokens for reply in replies),
            output_tokens=_total(reply.output_tokens for reply in replies),
            model_seconds=round(math.fsum(reply.seconds for reply in replies), 3),
            end=end.value,
            message=message,
        )

    def _end(self) -> RunEnd:
        if self.root.status == Status.SUCCESS:
            return RunEnd.DONE
        if self.root.status != Status.FAILURE:
            return RunEnd.INTERRUPTED
        if self.context.errors:
            return RunEnd.ERROR
        limit = self.context.budget.reached()
        if limit is None:
            return RunEnd.FAILURE
        return RunEnd.OUT_OF_STEPS if limit is Limit.STEPS else RunEnd.OUT_OF_DECISIONS


def _total(counts: Iterable[int | None]) -> int | None:
    """Add up what is known; None where nothing is."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
