"""A behaviour that runs a program, in one robot's name: it waits, breaks off, goes on, and ends as the program does."""

from __future__ import annotations

import abc
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from py_trees.behaviour import Behaviour
from py_trees.common import Status
from py_trees.composites import Composite

from reactree_ros.agent.budget import Budget, Limit
from reactree_ros.memory.experience import End
from reactree_ros.tree.attempt import OfAttempt
from reactree_ros.tree.context import Call, RunContext
from reactree_ros.tree.failure import BrokenOff, EndedBelow, Failure, FailureKind, Held, LimitReached, failure_of
from reactree_ros.tree.program import Execute, Grow, Hold, Program, Step, Wait
from reactree_ros.tree.skill_leaf import SkillLeaf
from reactree_ros.tree.team import Post

if TYPE_CHECKING:
    from reactree_ros.tree.goal_node import GoalNode

_log = logging.getLogger(__name__)
#: How many of a goal node's skills are to be seen in the tree, the last ones.
SHOWN_SKILLS = 10


def _is_broken_off(step: Step | None) -> bool:
    """Whether a step is not to go on while the run is held."""
    return isinstance(step, Execute) or (isinstance(step, Wait) and not step.while_held)


def _seconds(step: Wait, context: RunContext) -> float:
    """Return how long a program waits at most."""
    return context.options.decision_timeout if step.seconds is None else step.seconds


class ProgramNode(Composite, abc.ABC):
    """Runs a program; its children are its last skills and the subtrees that it has grown, in order.

    At most one reply is taken in a tick. While the run is held, because the world is halted or a person has paused
    it, the node asks for nothing and carries nothing out. It cancels whatever was in flight and uses no budget; the
    feedback message says so. Then it looks around anew and goes on.

    Status:
        RUNNING while the program waits for something.
        SUCCESS if it returns True.
        FAILURE if it returns False or raises; :attr:`failure` and the feedback message say why.
        INVALID when interrupted: what it has in flight is cancelled, and the program is closed.

    Attributes:
        context: What the nodes of the run share.
        attempt: All that it has come to since it began; see ``OfAttempt``.
        end: How it ended, for episodic memory; None before, and if an error ended it.
        failure: Why it failed; None if it did not.
        leaf: The latest skill, which is carried out or was; None if there was none yet.
        budget: What it may decide and do: what the run may; a leaf of a tree of one's own as much, anew each time.
        holds_own_tree: Whether what grows under it is a tree of one's own; see
            :class:`~reactree_ros.tree.own_tree.OwnTree`.
    """

    holds_own_tree = False

    budget = OfAttempt[Budget](lambda node: node._its_budget())
    end = OfAttempt[End | None](lambda _: None)
    failure = OfAttempt[Failure | None](lambda _: None)
    leaf = OfAttempt[SkillLeaf | None](lambda _: None)
    _leaves = OfAttempt[deque[SkillLeaf]](lambda _: deque())
    _begun = OfAttempt(lambda _: False)
    _program = OfAttempt[Program | None](lambda _: None)
    _step = OfAttempt[Step | None](lambda _: None)
    _deadline = OfAttempt(lambda _: 0.0)
    #: What was raised instead of what the program waits for.
    _missed = OfAttempt[tuple[Exception | None, str]](lambda _: (None, ""))

    def __init__(self, name: str, context: RunContext, above: ProgramNode | None) -> None:
        super().__init__(name, children=[])
        self.context = context
        self._above = above
        self._post: Post | None = None
        self.attempt: dict[str, Any] = {}

    def _its_budget(self) -> Budget:
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
    def started(self) -> None:
        """Take note that it begins."""

    @abc.abstractmethod
    def limited(self, limit: Limit) -> Exception:
        """Take note of a limit that is reached, and return what ends the program."""

    @property
    def is_own_leaf(self) -> bool:
        """Whether it is a leaf of a tree of one's own: what ends it ends nothing that stands beside it."""
        return self._above is not None and self._above.holds_own_tree

    # ------------------------------------------------------------------ its robot

    @property
    def post(self) -> Post:
        """What robot it has: one of its own, or that of the goal node that it grew under."""
        team, node = self.context.team, self
        while node._post is None and node._above is not None and not team.alone:
            node = node._above
        return node._post or team.post

    @post.setter
    def post(self, post: Post) -> None:
        self._post = post

    def held(self) -> str:
        """Say why nothing is decided or done now; empty if the node goes on."""
        return self.context.paused or self._without_robot() or self.post.robot.world.halted()

    def _without_robot(self) -> str:
        before = self.post.robot
        reason = self.context.team.vacancy(self.post)
        if self.post.robot is not before:
            self.context.listener.manned(self.post.top, self.post.robot.name)
        return reason

    @property
    def _who(self) -> GoalNode:
        """Itself as listeners know it: what runs a program has a goal."""
        return cast("GoalNode", self)

    # ------------------------------------------------------------------ life in the tree

    def tick(self) -> Iterator[Behaviour]:
        """Go on by at most one reply, then tick the child that led to."""
        if self.status != Status.RUNNING:
            self.attempt, self.feedback_message = {}, ""
            self.failure = self.barred() if self._who.start else self.context.fatal
            if self.failure is not None:
                self.feedback_message = f"not begun: {self.failure.message}"
                self.stop(Status.FAILURE)
                yield self
                return
            self._begin()
        elif self.context.budget.time_is_up and isinstance(self._step, Wait | Execute | Hold):
            self._say_held("")
            self._break_off(self.limited(Limit.SECONDS))
        elif isinstance(self._step, Hold):
            self._look_whether_held()
        elif _is_broken_off(self._step) and (held := self.held()):
            self._break_off(BrokenOff(held))
        elif isinstance(self._step, Wait):
            self._look(self._step)
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
        """Cancel what is in flight and close the program; the children are stopped by the tree."""
        step, self._step = self._step, None
        if isinstance(step, Wait):
            step.pending.cancel()
        if self._program is not None:
            self._program.close()
            self._program = None
        self.status = new_status
        if new_status != Status.INVALID and self._begun:
            self.context.listener.node_ended(self._who)
        elif self._begun:
            self.context.listener.broken_off(self._who)
        if self.is_own_leaf:
            self.context.fatal = None
            self.context.listener.leaf_stopped(self._who)

    def _begin(self) -> None:
        """Start from the beginning, as the next goal node of the run."""
        for child in list(self.children):
            if child.status != Status.INVALID:
                child.stop(Status.INVALID)
            self.remove_child(child)
        self._begun = True
        self.started()
        self._program = program = self.program()
        self._go_on(lambda: next(program))

    def _child(self) -> Behaviour | None:
        if isinstance(self._step, Execute):
            return self.leaf
        if isinstance(self._step, Grow) and self._step.subtree.parent is self:
            return self._step.subtree
        return None

    def _child_ended(self, child: Behaviour) -> None:
        program, leaf = self._waiting, self.leaf
        if child is not leaf and self.context.fatal is not None:  # the child may have succeeded without who met it
            self._throw(EndedBelow(self.context.fatal))
        elif child is not leaf:
            self._go_on(lambda: program.send(child.status))
        elif leaf is None:
            raise AssertionError("a child that ended is a skill or has grown")
        elif leaf.error is not None:
            self._missed = leaf.error, f"'{leaf.name}' failed"
            self._throw(self.context.loss(self.post.robot, leaf.error))
        else:
            self._go_on(lambda: program.send(leaf.observation))

    def _look(self, step: Wait) -> None:
        if step.pending.done():
            self._go_on(self._outcome_of(step))
        elif self.context.clock() >= self._deadline:
            step.pending.cancel()
            late = step.late(f"no {step.what} within {round(_seconds(step, self.context), 1):g} s")
            if step.call is not None:
                self.context.listener.call_failed(self._who, step.call, late, late=True)
            self._throw(self.context.loss(self.post.robot, late))

    def _look_whether_held(self) -> None:
        context, held = self.context, self.held()
        if held and context.clock() < self._deadline:
            self._say_held(held)
            return
        if held:
            late = Held(f"held for longer than {context.options.hold_timeout:g} s: {held}")
            context.listener.call_failed(self._who, Call("hold"), late, late=True)
            self._say_held("")
            self._throw(late)
        else:
            self._say_held("")
            self._go_on(partial(next, self._waiting))

    def _say_held(self, reason: str) -> None:
        said = f"held: {reason}" if reason else ""
        if said != self.feedback_message:
            self.feedback_message = said
            self.context.listener.held(self._who, reason)

    def _break_off(self, reason: Exception) -> None:
        """Cancel what the program waits for, and raise a reason there instead."""
        if isinstance(self._step, Wait):
            self._step.pending.cancel()
        elif isinstance(self._step, Execute) and self.leaf is not None:
            self.leaf.stop(Status.INVALID)
        self.context.listener.broken_off(self._who)
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
                if step.call.of == "reply":
                    value = self.context.warned_once(value)
                listener.came(self._who, step.call, value)
            return lambda: program.send(value)
        if step.call is not None:
            listener.call_failed(self._who, step.call, thrown)
        self._missed = thrown, f"no {step.what}"
        raised = self.context.loss(self.post.robot, thrown)
        return lambda: program.throw(raised)

    @property
    def _waiting(self) -> Program:
        assert self._program is not None  # it waits, and has not ended
        return self._program

    def _throw(self, error: Exception) -> None:
        """Raise something where the program waits."""
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
            if not isinstance(step, Wait | Execute | Grow | Hold):
                self._failed(TypeError(f"a program yields Wait, Execute or Grow, not {str(step)[:80]!r}"))
                return
            if isinstance(step, Wait) and not step.next_tick and step.pending.done():
                resume = self._outcome_of(step)
                continue
            if isinstance(step, Hold) and not self.held():
                resume = partial(next, self._waiting)
                continue
            self._enter(step)
            return

    def _enter(self, step: Step) -> None:
        self._step = step
        context = self.context
        if isinstance(step, Wait):
            self._deadline = context.clock() + _seconds(step, self.context)
            step.pending.add_done_callback(lambda _: context.wake())
            if step.call is not None:
                context.listener.waits(self._who, step.call)
            return
        if isinstance(step, Hold):
            self._deadline = context.clock() + context.options.hold_timeout
            self._say_held(self.held())
            return
        if isinstance(step, Execute):
            self._add_leaf(step.skill)
            return
        context.growth.request(self, step.subtree, context.listener.grown)
        context.wake()

    def _add_leaf(self, skill: str) -> None:
        self.leaf = SkillLeaf(self.context, skill)
        self.add_child(self.leaf)
        self.context.listener.grown(self, self.leaf)
        self._leaves.append(self.leaf)
        if len(self._leaves) > SHOWN_SKILLS:
            self.remove_child(self._leaves.popleft())

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
