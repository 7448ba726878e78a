"""A goal node whose behaviour is written as a program: a generator that says what it waits for next."""

from __future__ import annotations

import abc
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.llm.port import DecisionRequest, Reply
from reactree_ros.memory.experience import End
from reactree_ros.pending import Pending
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.goal_node import GoalNode
from reactree_ros.world.port import Observation


class ProgramError(Exception):
    """What a program waits for failed or did not come in time; the message says what, the cause what was raised."""


@dataclass(frozen=True)
class Wait:
    """Wait for a pending result; what comes back is its value.

    Attributes:
        what: Its name, for errors.
        pending: The result.
    """

    what: str
    pending: Pending[Any]


@dataclass(frozen=True)
class Execute:
    """Carry a skill out by the node's leaf; what comes back is the :class:`Observation`."""

    skill: str


@dataclass(frozen=True)
class Grow:
    """Run a subtree, which is inserted under the node; what comes back is its :class:`Status`."""

    subtree: Behaviour


Step = Wait | Execute | Grow
#: What :meth:`ProgramNode.program` is; it returns whether the goal was reached.
Program = Generator[Step, Any, bool]


class ProgramNode(GoalNode):
    """Works on a goal by its :meth:`program`.

    Status:
        RUNNING while the program waits for something.
        SUCCESS where it returns True.
        FAILURE where it returns False, where what it waits for fails or is late, or where the budget is exhausted; the
        feedback message names which.
        INVALID when interrupted: what it has in flight is cancelled, and the program is closed.
    """

    def __init__(self, subgoal: str, context: RunContext, *, name: str = "", parent: GoalNode | None = None) -> None:
        """Make a node; see :class:`~reactree_ros.tree.goal_node.GoalNode`."""
        super().__init__(subgoal, context, name=name, parent=parent)
        self._program: Program | None = None
        self._step: Step | None = None
        self._deadline = 0.0

    @abc.abstractmethod
    def program(self) -> Program:
        """Say what to wait for, step by step, and at the end whether the goal was reached.

        It adds to :attr:`text` what it says and sees. A :class:`ProgramError` that it does not catch ends the run.
        """

    # ------------------------------------------------------------------ for programs

    def ask(self, request: DecisionRequest) -> Generator[Step, Any, Reply]:
        """Ask the language model; a decision is counted, whatever it says.

        Raises:
            ProgramError: A limit is reached, or no reply came.
        """
        context = self._context
        if (limit := context.budget.reached()) is not None:
            raise ProgramError(limit.value)
        reply: Reply = yield Wait("reply", context.model.decide(request))
        context.budget.count_decision()
        context.replies.append((self.index, context.budget.decisions, reply))
        return reply

    def find_examples(self) -> Generator[Step, Any, tuple[str, ...]]:
        """Ask episodic memory for examples; nothing where there is none, or it has nothing.

        Raises:
            ProgramError: It failed.
        """
        if self._context.examples is None:
            return ()
        found: tuple[str, ...] = yield Wait("examples", self._context.examples(self.subgoal))
        return found

    def execute(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry a skill out; a step is counted.

        Raises:
            ProgramError: A limit is reached, or the world failed.
        """
        context = self._context
        if (limit := context.budget.reached()) is not None:
            raise ProgramError(limit.value)
        context.budget.steps += 1
        return (yield from self.carry_out(skill))

    def carry_out(self, skill: str) -> Generator[Step, Any, Observation]:
        """Carry a skill out that is counted already.

        Raises:
            ProgramError: The world failed.
        """
        context = self._context
        observation: Observation = yield Execute(skill)
        self._keep(observation)
        context.listener.observed(self, observation)
        return observation

    # ------------------------------------------------------------------ life in the tree

    def tick(self) -> Iterator[Behaviour]:
        """Go on by at most one step of the program, then tick the child it led to."""
        if self.status != Status.RUNNING:
            self._begin()
            self._program, self._step = self.program(), None
        self.status = Status.RUNNING
        if self._step is None:
            self._advance(None)
            if self.end is None:
                self._context.listener.node_started(self)
        elif isinstance(self._step, Wait):
            self._look(self._step)
        if (child := self._child()) is not None:
            self.current_child = child
            yield from child.tick()
            if child.status != Status.RUNNING:
                self._child_ended(child)
        if self.end is not None:
            self.stop(Status.SUCCESS if self.end is End.SUCCESS else Status.FAILURE)
        yield self

    def terminate(self, new_status: Status) -> None:
        """Cancel what is in flight and close the program; the children are stopped by the tree."""
        step, self._step = self._step, None
        if isinstance(step, Wait):
            step.pending.cancel()
        if self._program is not None:
            self._program.close()
            self._program = None
        self.status = new_status
        if new_status != Status.INVALID:
            self._context.listener.node_ended(self)

    def _child(self) -> Behaviour | None:
        if isinstance(self._step, Execute):
            return self.leaf
        if isinstance(self._step, Grow) and self._step.subtree.parent is self:
            return self._step.subtree
        return None

    def _child_ended(self, child: Behaviour) -> None:
        if child is not self.leaf:
            self._advance(child.status)
        elif self.leaf.observation is None:
            self._throw(self.leaf.error)
        else:
            self._advance(self.leaf.observation)

    def _look(self, step: Wait) -> None:
        if not step.pending.done():
            if self._context.clock() < self._deadline:
                return
            step.pending.cancel()
            self._throw(f"no {step.what} within {self._context.options.decision_timeout:g} s")
            return
        try:
            value = step.pending.take()
        except Exception as error:
            self._throw(f"no {step.what}: {error}", error)
            return
        self._advance(value)

    def _throw(self, message: str, cause: Exception | None = None) -> None:
        assert self._program is not None  # it waits for something
        program, thrown = self._program, ProgramError(message)
        thrown.__cause__ = cause
        self._run(lambda: program.throw(thrown))

    def _advance(self, value: Any) -> None:
        assert self._program is not None
        program = self._program
        self._run(lambda: program.send(value))

    def _run(self, go_on: Any) -> None:
        try:
            self._step = go_on()
        except StopIteration as stop:
            self._step = None
            self.end = End.SUCCESS if stop.value else End.FAILURE
        except ProgramError as error:
            self._step, self.end, self.feedback_message = None, End.FAILURE, str(error)
            if self._context.budget.reached() is None:
                self._context.errors.append(str(error))
        else:
            self._enter(self._step)

    def _enter(self, step: Step) -> None:
        if isinstance(step, Execute):
            self.leaf.name = step.skill
            self._context.wake()  # one skill after another: the next one starts at the next tick
        elif isinstance(step, Grow):
            self._context.growth.request(self, step.subtree)
            self._context.wake()
        else:
            self._deadline = self._context.clock() + self._context.options.decision_timeout
            step.pending.add_done_callback(lambda _: self._context.wake())
