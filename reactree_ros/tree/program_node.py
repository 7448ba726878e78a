"""A behaviour that runs a program, in one robot's name: it waits, breaks off, goes on, and ends as the program does."""

from __future__ import annotations

import abc
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from py_trees.behaviour import Behaviour
from py_trees.common import Status

from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.background.pending import Pending, asked
from reactree_ros.memory.experience import End
from reactree_ros.tree.context import RunContext
from reactree_ros.tree.failure import BrokenOff, EndedBelow, Failure, FailureKind, Held, LimitReached, failure_of
from reactree_ros.tree.goal import Goal, OfAttempt
from reactree_ros.tree.listener import Call
from reactree_ros.tree.team import Post
from reactree_ros.world.port import Observation, Outcome, WorldError


@dataclass(frozen=True)
class Wait:
    """Wait for a pending result; what comes back is its value, or what it failed with is raised.

    Attributes:
        while_held: Whether it goes on while the run is held; otherwise it is cancelled, and :class:`Held` is raised.
        call: What it was asked for outside of the run, which listeners are told; None for the run's own work. Its own
            work is to be looked at in the next tick, so that a run and its replay have the same ticks.
    """

    what: str  # its name, for errors
    pending: Pending[Any]
    late: type[Exception] = TimeoutError  # the type of the error if it does not come in time
    gone: type[Exception] | None = None  # the type of the error if somebody else cancels it; None: as if it were late
    next_tick: bool = False  # whether it is looked at in the next tick at the earliest, even if it is there at once
    seconds: float | None = None  # longest wait; None: as long as for a decision
    while_held: bool = True
    call: Call | None = None


@dataclass(frozen=True)
class Execute:
    """Carry a skill out by a leaf of its own; what comes back is the :class:`Observation`.

    If the run is held meanwhile, it is cancelled, and :class:`Held` is raised.
    """

    skill: str


@dataclass(frozen=True)
class Grow:
    """Run a subtree, which is inserted under the node; what comes back is its :class:`Status`."""

    subtree: Behaviour


@dataclass(frozen=True)
class Hold:
    """Wait as long as the run is held; nothing comes back."""


Step = Wait | Execute | Grow | Hold
#: What :meth:`ProgramNode.program` is; it returns whether the goal was reached.
Program = Generator[Step, Any, bool]


_log = logging.getLogger(__name__)
#: How many of a goal node's skills are to be seen in the tree, the last ones.
SHOWN_SKILLS = 10


class SkillLeaf(Behaviour):
    """Executes one skill of a goal node; its name is the skill.

    Status: RUNNING while the world carries the skill out, SUCCESS if it was done, FAILURE if it was refused or
    failed. Interrupted, it cancels the skill.

    Attributes:
        observation: What came back; None if an error came instead.
        error: What was raised instead of an observation; None if none was.
    """

    def __init__(self, context: RunContext, skill: str) -> None:
        super().__init__(skill)
        self._context = context
        self._pending: Pending[Observation] | None = None
        self.observation: Observation | None = None
        self.error: Exception | None = None

    def initialise(self) -> None:
        self.observation, self.error, self.feedback_message = None, None, ""
        node, context = cast("Goal", self.parent), self._context
        context.listener.sent(node, self.name)
        self._pending = asked(context.team.execute, node.post, self.name, context.options.skill_timeout)
        if not self._pending.done():
            self._pending.add_done_callback(lambda _: context.wake())

    def update(self) -> Status:
        pending = self._pending
        assert pending is not None  # set by initialise
        if not pending.done():
            return Status.RUNNING
        self._pending = None
        try:
            self.observation = pending.take()
        except CancelledError:
            self.error = WorldError(f"'{self.name}' was canceled by the world")
        except Exception as error:
            self.error = error
        node, listener, call = cast("Goal", self.parent), self._context.listener, Call("execute")
        if self.error is not None:
            listener.call_failed(node, call, self.error)
            self.feedback_message = f"'{self.name}' failed: {self.error}"
            return Status.FAILURE
        assert self.observation is not None  # it came
        listener.came(node, call, self.observation)
        self.feedback_message = self.observation.text
        return Status.SUCCESS if self.observation.outcome is Outcome.DONE else Status.FAILURE

    def terminate(self, new_status: Status) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.cancel()


class ProgramNode(Goal):
    """Runs a program; its children are its last skills and the subtrees that it has grown, in order.

    At most one reply is taken in a tick. While the run is held, because the world is halted or a person has paused
    it, the node asks for nothing and carries nothing out. It cancels whatever was in flight and uses no budget; the
    feedback message says so. Then it looks around anew and goes on.

    Status:
        RUNNING while the program waits for something.
        SUCCESS if it returns True.
        FAILURE if it returns False or raises; :attr:`failure` and the feedback message say why.
        INVALID when interrupted: what it has in flight is cancelled, and the program is closed.
    """

    _leaves = OfAttempt[deque[SkillLeaf]](lambda _: deque())
    _program = OfAttempt[Program | None](lambda _: None)
    _step = OfAttempt[Step | None](lambda _: None)
    _deadline = OfAttempt(lambda _: 0.0)
    _news = OfAttempt(lambda _: 0)  # how many of the robots' news there were when it was told of them last
    #: What was raised instead of what the program waits for, and in which words that is said.
    _missed = OfAttempt[tuple[Exception | None, str]](lambda _: (None, ""))

    def __init__(self, name: str, context: RunContext, above: ProgramNode | None) -> None:
        super().__init__(name)
        self.context = context  # what the nodes of the run share
        self._above = above
        self._post: Post | None = None

    def own_budget(self) -> Budget:
        run = self.context.budget
        return run.part() if self.is_own_leaf else run if self._above is None else self._above.budget

    def barred(self) -> Failure | None:
        """Return why it may not begin or decide again: the tree ends, or a limit is reached; None if it may."""
        if self.context.fatal is not None:
            return self.context.fatal
        limit = self.budget.reached()
        return None if limit is None else failure_of(LimitReached(limit, self.budget.reason()))

    @abc.abstractmethod
    def program(self) -> Program:
        """Say what to wait for, step by step, and at the end whether the goal was reached.

        It adds to :attr:`turns` what is told, said and seen. What it raises ends the node, and says why.
        """

    @abc.abstractmethod
    def limited(self, limit: Limit) -> Exception:
        """Take note of a limit that is reached, and return what ends the program."""

    @property
    def is_own_leaf(self) -> bool:
        return self._above is not None and self._above.holds_own_tree

    # ------------------------------------------------------------------ its robot

    @property
    def post(self) -> Post:
        team, node = self.context.team, self
        while node._post is None and node._above is not None and not team.takes_turns:
            node = node._above
        return node._post or team.post

    @post.setter
    def post(self, post: Post) -> None:
        self._post = post

    def held(self) -> str:
        """Say why nothing is decided or done now; empty if the node goes on."""
        if self.context.paused:
            return self.context.paused
        before = self.post.robot
        vacancy = self.context.team.vacancy(self.post)
        if self.post.robot is not before:
            self.context.listener.manned(self.post.top, self.post.robot.name)
        return vacancy or self.post.world.halted()

    # ------------------------------------------------------------------ life in the tree

    def tick(self) -> Iterator[Behaviour]:
        step = self._step
        if self.status != Status.RUNNING:
            self.attempt, self.feedback_message = {}, ""
            self.failure = self.barred() if self.start else self.context.fatal
            if self.failure is not None:
                self.feedback_message = f"not begun: {self.failure.message}"
                self.stop(Status.FAILURE)
                yield self
                return
            self._begin()
        elif self.context.budget.time_is_up and isinstance(step, Wait | Execute | Hold):
            self._say_held("")
            self._break_off(self.limited(Limit.SECONDS))
        elif isinstance(step, Hold):
            self._look_whether_held()
        elif (isinstance(step, Execute) or (isinstance(step, Wait) and not step.while_held)) and (held := self.held()):
            self._break_off(BrokenOff(held))
        elif isinstance(step, Wait):
            self._look(step)
        self.status = Status.RUNNING
        self.current_child = child = self._child()
        if child is not None:
            yield from child.tick()
            if child.status != Status.RUNNING:
                self._child_ended(child)
                if self._program is not None:
                    self.current_child = None
                if isinstance(self._step, Execute):  # one skill after another: it starts at the next tick
                    self.context.wake()
        if self._program is None:
            self.stop(Status.SUCCESS if self.failure is None else Status.FAILURE)
        yield self

    def terminate(self, new_status: Status) -> None:
        step, self._step = self._step, None
        if isinstance(step, Wait):
            step.pending.cancel()
        if self._program is not None:
            self._program.close()
            self._program = None
        self.status = new_status
        if new_status != Status.INVALID and self.begun:
            self.context.listener.node_ended(self)
        elif self.begun:
            self.context.listener.broken_off(self)
        if self.is_own_leaf:
            self.context.fatal = None
            self.context.listener.leaf_stopped(self)

    def _begin(self) -> None:
        for child in list(self.children):
            if child.status != Status.INVALID:
                child.stop(Status.INVALID)
            self.remove_child(child)
        self.begun, context = True, self.context
        self.index = len(context.nodes)
        context.nodes.append(self)
        self.start = context.budget.decisions + 1
        self._news = len(context.known.observed)  # it is told of what comes after that
        context.listener.node_started(self)
        self._program = program = self.program()
        self._go_on(lambda: next(program))

    def _child(self) -> Behaviour | None:
        if isinstance(self._step, Execute):
            return self.leaf
        if isinstance(self._step, Grow) and self._step.subtree.parent is self:
            return self._step.subtree
        return None

    def _child_ended(self, child: Behaviour) -> None:
        program = self._waiting
        if not isinstance(child, SkillLeaf):
            if self.context.fatal is not None:  # the child may have succeeded without who met it
                self._throw(EndedBelow(self.context.fatal))
            else:
                self._go_on(lambda: program.send(child.status))
        elif child.error is not None:
            self._missed = child.error, f"'{child.name}' failed"
            self._throw(self.context.loss(self.post.robot, child.error))
        else:
            self._go_on(lambda: program.send(child.observation))

    def _look(self, step: Wait) -> None:
        if step.pending.done():
            self._go_on(self._outcome_of(step))
        elif self.context.clock() >= self._deadline:
            step.pending.cancel()
            late = step.late(f"no {step.what} within {round(self._longest(step), 1):g} s")
            if step.call is not None:
                self.context.listener.call_failed(self, step.call, late, late=True)
            self._throw(self.context.loss(self.post.robot, late))

    def _longest(self, step: Wait) -> float:
        return self.context.options.decision_timeout if step.seconds is None else step.seconds

    def _look_whether_held(self) -> None:
        context, held = self.context, self.held()
        if held and context.clock() < self._deadline:
            self._say_held(held)
            return
        if not held:
            self._say_held("")
            self._go_on(partial(next, self._waiting))
            return
        late = Held(f"held for longer than {context.options.hold_timeout:g} s: {held}")
        context.listener.call_failed(self, Call("hold"), late, late=True)
        self._say_held("")
        self._throw(late)

    def _say_held(self, reason: str) -> None:
        said = f"held: {reason}" if reason else ""
        if said != self.feedback_message:
            self.feedback_message = said
            self.context.listener.held(self, reason)

    def _break_off(self, reason: Exception) -> None:
        if isinstance(self._step, Wait):
            self._step.pending.cancel()
        elif isinstance(self._step, Execute) and self.leaf is not None:
            self.leaf.stop(Status.INVALID)
        self.context.listener.broken_off(self)
        self._throw(reason)

    def _outcome_of(self, step: Wait) -> Callable[[], Step]:
        program, listener = self._waiting, self.context.listener
        try:
            value = step.pending.take()
        except CancelledError:
            thrown: Exception = (step.gone or step.late)("it was canceled by somebody else")
        except Exception as error:
            thrown = error
        else:
            if step.call is not None:
                if step.call.of == "reply" and value.warning:  # which is said once
                    value = replace(value, warning="") if self.context.warned else value
                    self.context.warned = True
                listener.came(self, step.call, value)
            return lambda: program.send(value)
        if step.call is not None:
            listener.call_failed(self, step.call, thrown)
        self._missed = thrown, f"no {step.what}"
        raised = self.context.loss(self.post.robot, thrown)
        return lambda: program.throw(raised)

    @property
    def _waiting(self) -> Program:
        assert self._program is not None  # it waits, and has not ended
        return self._program

    def _throw(self, error: Exception) -> None:
        program = self._waiting
        self._go_on(lambda: program.throw(error))

    def _go_on(self, resume: Callable[[], Step]) -> None:
        """Let the program run to where it has to wait."""
        while True:
            try:
                step = resume()
            except StopIteration as stop:
                self._ended(bool(stop.value))
                return
            except Exception as error:
                self._failed(error)
                return
            if isinstance(step, Wait) and not step.next_tick and step.pending.done():
                resume = self._outcome_of(step)
            elif isinstance(step, Hold) and not self.held():
                resume = partial(next, self._waiting)
            else:
                self._enter(step)
                return

    def _enter(self, step: Step) -> None:
        self._step, context = step, self.context
        if isinstance(step, Wait):
            self._deadline = context.clock() + self._longest(step)
            step.pending.add_done_callback(lambda _: context.wake())
            if step.call is not None:
                context.listener.waits(self, step.call)
        elif isinstance(step, Hold):
            self._deadline = context.clock() + context.options.hold_timeout
            self._say_held(self.held())
        elif isinstance(step, Execute):
            self.leaf = leaf = SkillLeaf(context, step.skill)
            self.add_child(leaf)
            context.listener.grown(self, leaf)
            self._leaves.append(leaf)
            if len(self._leaves) > SHOWN_SKILLS:
                self.remove_child(self._leaves.popleft())
        elif isinstance(step, Grow):
            context.growth.request(self, step.subtree, context.listener.grown)
            context.wake()
        else:
            self._failed(TypeError(f"a program yields Wait, Execute or Grow, not {str(step)[:80]!r}"))

    def _ended(self, reached: bool) -> None:
        self._step = self._program = None
        if not reached and self.failure is None:
            self.failure = Failure(FailureKind.GAVE_UP, self.feedback_message or "gave up")
        if self.end is None:
            self.end = End.SUCCESS if reached else End.FAILURE

    def _failed(self, error: Exception) -> None:
        self._step = self._program = None
        self.failure = failure_of(error)
        if self._missed[0] is error:
            self.failure = replace(self.failure, message=f"{self._missed[1]}: {self.failure.message}")
        self.feedback_message = self.failure.message
        if not self.failure.is_error:
            self.end = End.FAILURE
        if isinstance(error, EndedBelow):
            return
        self.context.failed(self.failure)
        if self.failure.kind is FailureKind.BUG:
            _log.error("'%s' ended by a bug", self.name, exc_info=error)
